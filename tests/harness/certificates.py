# SPDX-License-Identifier: Apache-2.0
"""Certificates for a test, made by the openssl program: an authority, and what it signs."""
import os
import subprocess


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


class Authority:
    def __init__(self, where):
        self.where = where
        self.file, self.key = str(where / "ca.pem"), where / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
                "-subj", "/CN=test authority", "-keyout", self.key, "-out", self.file)

    def sign(self, name, names="DNS:localhost,IP:127.0.0.1", rsa=False, to=None):
        """Writes NAME.crt and NAME.key, or over what `to` names; both paths."""
        cert, key = to or (str(self.where / f"{name}.crt"), str(self.where / f"{name}.key"))
        request, options = self.where / "request", self.where / "options"
        kind = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        options.write_text(f"subjectAltName={names}\n")
        openssl("req", "-new", "-newkey", *kind, "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key, "-CAcreateserial", "-days", 2,
                "-extfile", options, "-out", cert)
        os.chmod(key, 0o600)
        return cert, key
