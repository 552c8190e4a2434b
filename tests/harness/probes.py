# SPDX-License-Identifier: Apache-2.0
"""The program of tests/escape: built, brought inside, run, and judged."""
import base64
import re
import subprocess
from pathlib import Path

from harness.wait import until

SOURCES = Path(__file__).resolve().parents[1] / "escape"
LINE = re.compile(r"^(\S+) ([-HML]) (refused|killed|OPEN) ?(.*)$")

# Errors by which a door counts as shut. Any other means that the call got past the guards and
# stumbled over its arguments.
SHUT = {"EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}
ALSO_SHUT = {
    "tioclinux": {"ENOTTY"},            # no console
    "leaked_descriptor": {"EBADF"},
    "set_uid_beyond": {"EINVAL"},       # no such id in the namespace
}
WAITING = "while [ ! -e /workspace/go ]; do sleep 0.05; done; {command}; echo; echo finished"


def build(out):
    subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-Os", "-s", "-static", "-Wall", "-Wextra", "-Werror",
                    "-o", out, *SOURCES.glob("*.c")], check=True)
    return Path(out).read_bytes()


def put(client, name, path, content):
    """Files go in by standard input."""
    result = client.exec(name, f"base64 -d > {path} && chmod 755 {path}", stdin=base64.b64encode(content).decode())
    assert result["exitCode"] == 0, result


def run_started(client, name, content, command):
    """As the start command of a new sandbox."""
    client.create(name, startCommand=WAITING.format(command=command))
    put(client, name, "/workspace/program", content)
    client.sh(name, "touch /workspace/go")

    def done():
        text = client.get(f"/sandbox/{name}/logs").json()["logs"]
        return text if text.endswith("finished\n") else None

    return until(done, "the start command ends", 60, 0.2)


def is_shut(name, kind, detail):
    if kind != "refused":
        return kind == "killed"
    return ":" in name or detail in SHUT | ALSO_SHUT.get(name, set())


def judge(text):
    """(how many probes, what must work and does not, open doors as {name: (severity, verdict)})."""
    lines = [m.groups() for m in map(LINE.match, text.splitlines()) if m]
    broken = [name for name, _, kind, _ in lines if name.startswith("ok_") and kind != "OPEN"]
    doors = {name: (severity, f"{kind} {detail}".strip()) for name, severity, kind, detail in lines
             if not name.startswith("ok_") and not is_shut(name, kind, detail)}
    return len(lines), broken, doors
