#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the layers: reads #include lines and stops at an arrow that points up.

    tools/layers.py            also: a .c file includes its own header first

The table below is the architecture. A file includes its own folder and what its row names; a row
that names a header instead of a folder means that header alone. `base` and `model` lie under all.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

MESSAGES = ["engine/message.h", "engine/build.h", "init/proto.h", "file/proto.h"]  # what two programs say to each other
BELOW = {
    "base": ["model/limits.h"],  # bounds are numbers with names, and all of them stand there
    "model": ["base"],
    "log": ["model", "base"],
    "http": ["model", "base"],
    "store": ["model", "base"],
    "net": ["model", "base"],
    "history": ["model", "base"],
    "file": ["model", "base"],
    "image": ["file/tar.h", "net", "model", "base"],
    "provider": [*MESSAGES, "file/tar.h", "http/client.h", "image/blob.h", "image/fit.h", "image/ref.h", "image/text.h", "log", "model", "base"],
    "core": ["store", "provider", "image", "net", "history/history.h", "file/proto.h", "log", "model", "base"],
    "api": ["http", "core", "log", "model", "base"],
    "init": ["file/proto.h", "log", "model", "base"],
    "engine": ["init/proto.h", "file/tar.h", "image", "log", "model", "base"],
    # The programs' own main functions: they start what lies below and have no rules of their own.
    "supervisor": ["store", "provider/provider.h", "engine", "history/history.h", "api", "http", "core", "log", "model", "base"],
    "cli": ["supervisor", "http", "file/file.h", "engine/message.h", "engine/network.h", "engine/victim.h", "log", "model", "base"],
}
# Within these folders each subfolder knows one backend or one dialect, and none of its sisters.
SISTERS = {"api", "store", "provider"}
SHARED = {"migrations"}  # no backend: the tables' history
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def allowed(folder, sub, target, is_test):
    parts = target.split("/")
    if parts[0] == "tests":
        return is_test
    if parts[0] == folder:
        subs = {sub, parts[1] if len(parts) > 2 else ""} - SHARED - {""}
        return folder not in SISTERS or len(subs) < 2
    return parts[0] in BELOW[folder] or target in BELOW[folder]


def includes(path):
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match.group(1)
            elif re.match(r"^\s*#\s*include\s+<", line):
                yield number, None


def check(path):
    """The faults of one file, as sentences."""
    parts = path.split("/")  # src/FOLDER/[SUB/]NAME
    folder, sub = parts[1], parts[2] if len(parts) > 3 else ""
    is_test = path.endswith(("_test.c", "_fuzz.c"))
    found = list(includes(os.path.join(ROOT, path)))
    if folder not in BELOW:
        return [f"{path}: folder {folder} is not in the table of tools/layers.py"]
    faults = []
    for number, target in found:
        if target is None:
            continue
        if "/" not in target:
            faults.append(f'{path}:{number}: "{target}" does not say its folder')
        elif not allowed(folder, sub, target, is_test):
            faults.append(f'{path}:{number}: {folder} may not include "{target}"')
    own = path[:-2] + ".h"
    if path.endswith(".c") and os.path.exists(os.path.join(ROOT, own)):
        if not found or found[0][1] != own[len("src/"):]:
            faults.append(f'{path}: the first include is not its own header "{own[4:]}"')
    return faults


def main():
    faults, count = [], 0
    for where, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(where, name), ROOT)
            if name.endswith((".c", ".h")) and path.count("/") > 1:
                count += 1
                faults += check(path)
    for fault in sorted(faults):
        print(fault)
    print(f"layers: {count} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
