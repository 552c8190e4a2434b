#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds that each header compiles alone, with nothing included before it."""
import concurrent.futures
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMAND = [*os.environ.get("CC", "cc").split(), "-std=gnu17", "-D_GNU_SOURCE",
           '-DCAY_VERSION="0"', "-Isrc", "-I.", "-Wall", "-Wextra", "-Wno-missing-field-initializers",
           "-Werror", "-fsyntax-only", "-x", "c", "-"]


def compile_alone(header):
    """What the compiler says; empty when it is content. Twice, because a header may come twice."""
    text = f'#include "{header}"\n#include "{header}"\n'
    done = subprocess.run(COMMAND, input=text, cwd=ROOT, text=True, capture_output=True)
    return done.stderr if done.returncode else ""


def main():
    headers = sorted(
        os.path.relpath(os.path.join(where, name), ROOT)
        for top in ("src", "tests") for where, _, names in os.walk(os.path.join(ROOT, top))
        for name in names if name.endswith(".h"))
    faults = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, said in zip(headers, pool.map(compile_alone, headers)):
            if said:
                faults += 1
                print(f"{header} does not compile alone:\n{said}", end="")
    print(f"headers: {len(headers)} files, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
