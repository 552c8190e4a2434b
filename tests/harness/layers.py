# SPDX-License-Identifier: Apache-2.0
"""Layers and images made by hand: tar files with whatever one likes in them."""
import gzip
import hashlib
import io
import tarfile
import tempfile


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def entry(name, data=b"", kind=tarfile.REGTYPE, **fields):
    """One member; fields are those of TarInfo."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    if kind == tarfile.DIRTYPE:
        info.mode = 0o755
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def folder(name, **fields):
    return entry(name, kind=tarfile.DIRTYPE, **fields)


def link(name, to, **fields):
    return entry(name, kind=tarfile.SYMTYPE, linkname=to, **fields)


def hard(name, to, **fields):
    return entry(name, kind=tarfile.LNKTYPE, linkname=to, **fields)


def tar(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Layer:
    """Bytes as they are sent, and the digest of what is in them."""

    def __init__(self, plain, packed=None):
        self.packed = gzip.compress(plain, 1, mtime=0) if packed is None else packed
        self.diff_id, self.digest = sha256(plain), sha256(self.packed)

    def send(self, engine, **changes):
        with tempfile.TemporaryFile() as file:
            file.write(self.packed)
            file.flush()
            return engine.layer(file, **{"diff_id": self.diff_id, "digest": self.digest, **changes})
