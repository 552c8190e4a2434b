#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds that what a Python file takes from another of ours is there: one such mistake stops a whole suite.

    tools/imports.py [DIRECTORY…]"""
import ast
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
ROOTS = ("tests", "bench")


def defined(path):
    """Names that a module has: all that its top level binds, however deep in an `if` or `with`."""
    names, left = set(), [ast.parse(path.read_text(), str(path))]
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        left += ast.iter_child_nodes(node)
    return names


def found(module, near):
    """Where a module of ours lies; None when it is somebody else's."""
    inside = Path(*module.split("."))
    for root in (near, *(TOP / r for r in ROOTS)):
        for path in (root / inside.with_suffix(".py"), root / inside / "__init__.py", root / inside):
            if path.exists():
                return path
    return None


def faults(path):
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        source = isinstance(node, ast.ImportFrom) and node.level == 0 and found(node.module, path.parent)
        if not source:
            continue
        package = source if source.is_dir() else source.parent if source.name == "__init__.py" else None
        names = set() if source.is_dir() else defined(source)
        for alias in node.names:
            if alias.name not in names and not (package and (package / f"{alias.name}.py").exists()):
                yield f"{path.relative_to(TOP)}:{node.lineno}: {node.module} has no {alias.name}"


def main():
    folders = [Path(d).resolve() for d in sys.argv[1:]] or [TOP / r for r in ROOTS]
    told = [fault for folder in folders for path in sorted(folder.rglob("*.py")) for fault in faults(path)]
    print(*told, f"imports: {len(told)} faults", sep="\n")
    sys.exit(bool(told))


if __name__ == "__main__":
    main()
