#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds sizes: a function ends before 100 lines, a file before 800; 60 and 600 are the time to look.

Functions are found by form: clang-format puts a function's braces, and no others, alone into the
first column.
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FUNCTION_LIMIT, FUNCTION_LOOK = 100, 60
FILE_LIMIT, FILE_LOOK = 800, 600
# pid 1 of a sandbox is read line by line by whoever wants to trust it.
FOLDER_LOOK = {"src/init": 1000}


def functions(lines):
    """(first line, name, length) of each function; the length is that of its body."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            head = next((l for l in reversed(lines[:start - 1]) if l and not l[0].isspace()), "?")
            yield start, head.split("(")[0].split()[-1].lstrip("*"), number - start + 1
            start = None


def judge(where, what, size, look, limit):
    if size > limit:
        print(f"{where}: {what} has {size} lines, the limit is {limit}")
        return 1
    if size > look:
        print(f"{where}: warning: {what} has {size} lines, {look} is the time to split it")
    return 0


def main():
    faults, count, folders = 0, 0, {}
    for top in ("src", "tests", "bench"):
        for where, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if not name.endswith((".c", ".h")):
                    continue
                path = os.path.relpath(os.path.join(where, name), ROOT)
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    lines = file.read().split("\n")
                count += 1
                if not name.endswith("_test.c"):
                    folder = os.path.dirname(path)
                    folders[folder] = folders.get(folder, 0) + len(lines) - 1
                faults += judge(path, "the file", len(lines) - 1, FILE_LOOK, FILE_LIMIT)
                for line, function, length in functions(lines):
                    faults += judge(f"{path}:{line}", function, length, FUNCTION_LOOK,
                                    FUNCTION_LIMIT)
    for folder, look in FOLDER_LOOK.items():
        if folders.get(folder, 0) > look:
            print(f"{folder}: warning: {folders[folder]} lines, {look} was the promise")
    print(f"sizes: {count} files, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
