#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what a line may not say: functions without a bound, jumps, promises without an issue."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */"
FORBIDDEN = [
    (re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atof|alloca)\s*\("),
     "has no bound or no error; there is a function that does"),
    (re.compile(r"^\s*goto\b"), "declare the undo instead (CAY_CLEANUP)"),
    (re.compile(r"\b(TODO|FIXME|XXX)\b(?!.*#\d)"), "needs the number of an issue"),
    (re.compile(r"^typedef (?!.*\(\*)"), "only function pointers get a typedef"),
]
STRINGS = re.compile(r'"(\\.|[^"\\])*"')


def check(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        lines = file.read().split("\n")
    faults = [] if lines[0] == SPDX else [f"{path}:1: the first line is not the SPDX line"]
    for number, line in enumerate(lines, 1):
        for pattern, why in FORBIDDEN:
            found = pattern.search(STRINGS.sub('""', line))
            if found:
                faults.append(f"{path}:{number}: {found.group(0).strip(' (')}: {why}")
    return faults


def main():
    faults, count = [], 0
    for top in ("src", "tests", "bench"):
        for where, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    count += 1
                    faults += check(os.path.relpath(os.path.join(where, name), ROOT))
    for fault in sorted(faults):
        print(fault)
    print(f"words: {count} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
