# SPDX-License-Identifier: Apache-2.0
"""A command whose output tells at once whether something was lost, doubled or swapped."""


def script(n, pause_s=None, exit_code=0):
    pause = f"sleep {pause_s}; " if pause_s else ""
    return f"i=0; while [ $i -lt {n} ]; do echo line $i; i=$((i+1)); {pause}done; exit {exit_code}"


def lines(n):
    return "".join(f"line {i}\n" for i in range(n)).encode()
