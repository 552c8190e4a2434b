# SPDX-License-Identifier: Apache-2.0
"""cay exec -it, cay exec -i, cay shell and cay attach, as they are typed on a terminal."""
import fcntl
import hashlib
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from harness.server import CAY
from harness.wait import until

LIMIT_S = 20


class Term:
    """A program on a terminal of its own."""

    def __init__(self, url, *args, size=(24, 80)):
        self.master, slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave, self.seen = slave, b""
        self.process = subprocess.Popen(
            [CAY, *args], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), env={**os.environ, "CAY_URL": url})

    def type(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode())

    def sees(self, want):
        want, until_s = want.encode(), time.monotonic() + LIMIT_S
        while want not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0, until_s - time.monotonic()))
            assert ready, f"{want!r} is not in {self.seen!r}"
            self.seen += os.read(self.master, 65536)
        before, _, self.seen = self.seen.partition(want)
        return before

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def end(self):
        """Its exit status; the terminal must be as it was."""
        status = self.process.wait(LIMIT_S)
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is as it was"
        os.close(self.master)
        os.close(self.slave)
        return status


@pytest.fixture
def term(server):
    made = []

    def make(*args, **options):
        made.append(Term(server.url, *args, **options))
        return made[-1]

    yield make
    for t in made:
        if t.process.poll() is None:
            t.process.kill()
            t.process.wait()


@pytest.fixture
def cay(server):
    def run(*args, stdin=None):
        return subprocess.run([CAY, *args], capture_output=True, timeout=LIMIT_S, input=stdin,
                              env={**os.environ, "CAY_URL": server.url})

    return run


def test_exec_it(term, box):
    t = term("exec", "-it", "-e", "PS1=> ", "box", "sh", size=(40, 100))
    t.sees("> ")
    assert t.is_raw()
    t.type("stty size; tty\r")
    t.sees("40 100\r\n/dev/pts/0\r\n")
    t.resize(50, 132)
    until(lambda: t.type("stty size\r") or b"50 132" in t.sees("> "), "the new size")
    t.type("sh -c 'echo go\"\"ing; exec sleep 1000'\r")
    t.sees("going\r\n")
    t.type("\x03")  # not for us
    t.sees("^C")
    t.type("echo ba''ck\r")
    t.sees("back\r\n")
    t.type("exit 7\r")
    assert t.end() == 7


def test_shell(term, box):
    t = term("shell", "-u", "root", "-w", "/tmp", "box")
    t.type("whoami; pwd; shopt -q login_shell && echo lo''gin\r")
    t.sees("root\r\n/tmp\r\nlogin\r\n")
    t.sees("# ")
    t.type("\x04")
    assert t.end() == 0


def test_every_key_goes_through(term, box):
    t = term("exec", "-it", "box", "sh", "-c", "stty raw -echo; echo ready; head -c 256 | sha256sum")
    t.sees("ready")
    every = bytes(range(256))
    t.type(every)
    t.sees(hashlib.sha256(every).hexdigest())
    assert t.end() == 0


STATUS = [("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("no-such-command", 127), ("true", 0)]


@pytest.mark.parametrize("script,status", STATUS)
def test_status(term, cay, box, script, status):
    assert term("exec", "-it", "box", "sh", "-c", script).end() == status
    assert cay("exec", "-i", "box", "sh", "-c", script, stdin=b"").returncode == status


def test_killed_by_a_signal_it_hangs_up_and_restores(term, client, box):
    t = term("exec", "-it", "-e", "PS1=> ", "box", "sh")
    t.sees("> ")
    assert t.is_raw()
    t.process.send_signal(signal.SIGTERM)
    assert t.end() == 143
    eid = client.get("/sandbox/box/exec").json()["executions"][0]["id"]
    until(lambda: client.execution("box", eid)["status"] == "exited", "the shell hangs up")


def test_no_such_sandbox_leaves_the_terminal_alone(term, box):
    t = term("shell", "nowhere")
    t.sees("sandbox not found")
    assert t.end() == 125


def test_needs_a_terminal(cay, box):
    for args in (("exec", "-it", "box", "sh"), ("shell", "box")):
        done = cay(*args, stdin=b"")
        assert done.returncode == 125 and b"terminal" in done.stderr


def test_over_a_restart_of_the_server(fresh):
    server = fresh()
    server.start()
    server.client().create("box")
    t = Term(server.url, "exec", "-it", "-e", "PS1=> ", "box", "sh")
    t.sees("> ")
    t.type("x=kept; echo se''t\r")
    t.sees("set\r\n")
    server.kill("server", signal.SIGKILL)
    server.recover()
    t.type("echo $x; exit 5\r")
    assert b"set" not in t.sees("kept\r\n"), "nothing comes twice"
    assert t.end() == 5


def test_attach(term, client, box):
    one = term("shell", "box")
    one.type("PS1='> '; echo he''re\r")
    one.sees("here\r\n")
    eid = client.get("/sandbox/box/exec").json()["executions"][0]["id"]
    two = term("attach", "box", eid)
    two.sees("here\r\n")
    two.type("echo fr''om two; exit 4\r")
    one.sees("from two\r\n")
    assert two.end() == 4 and one.end() == 4


def test_input_is_bytes_and_output_is_told_apart(cay, box):
    every = bytes(range(256)) * 4096
    done = cay("exec", "-i", "box", "sh", "-c", "sha256sum; echo err >&2; exit 9", stdin=every)
    assert (done.returncode, done.stderr) == (9, b"err\n")
    assert done.stdout.split()[0].decode() == hashlib.sha256(every).hexdigest()
    assert cay("exec", "-i", "box", "cat", stdin=every).stdout == every
    assert cay("exec", "-i", "box", "true", stdin=every).returncode == 0, "who does not read is no failure"
    assert cay("exec", "-i", "box", "head", "-c", "10", stdin=every).stdout == every[:10]


def test_input_comes_as_it_comes(server, box):
    process = subprocess.Popen([CAY, "exec", "-i", "box", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, "CAY_URL": server.url}, bufsize=0)
    for word in (b"one\n", b"two\n"):
        process.stdin.write(word)
        assert process.stdout.readline() == word
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    process.stdin.close()
    process.stdout.close()


def test_a_reader_that_goes_ends_the_command(server, client, box):
    script = f"{CAY} exec -i box yes </dev/null | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=LIMIT_S,
                          env={**os.environ, "CAY_URL": server.url})
    assert done.stdout == b"y\n" and done.returncode == 141
    until(lambda: all(e["status"] == "exited" for e in client.get("/sandbox/box/exec").json()["executions"]), "its end")


def test_detached_with_a_terminal(cay, client, box):
    done = cay("exec", "-d", "-t", "box", "sh", "-c", "tty; stty size", stdin=b"")
    eid = done.stdout.decode().strip()
    assert re.match(r"exec_[0-9a-f]{16}$", eid)
    until(lambda: client.execution("box", eid)["status"] == "exited", "its end")
    assert client.output("box", eid) == b"/dev/pts/0\r\n24 80\r\n"
