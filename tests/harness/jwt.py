# SPDX-License-Identifier: Apache-2.0
"""Tokens as an issuer signs them."""
import base64
import hashlib
import hmac
import json

SECRET = "an-issuer's-secret-of-enough-bytes-0123456789"


def jwt(claims, secret=SECRET, alg="HS256"):
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    text = part(json.dumps({"alg": alg}).encode()) + b"." + part(json.dumps(claims).encode())
    return (text + b"." + part(hmac.new(secret.encode(), text, hashlib.sha256).digest())).decode()
