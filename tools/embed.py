#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A text as a header that holds it:  tools/embed.py NAME IN OUT"""
import sys


def main():
    name, source, target = sys.argv[1:]
    with open(source, "rb") as file:
        data = file.read()
    numbers = ",".join(str(b if b < 128 else b - 256) for b in data + b"\0")
    with open(target, "w", encoding="ascii") as file:
        file.write(f"static const char {name}[] = {{{numbers}}};\n")


if __name__ == "__main__":
    main()
