# SPDX-License-Identifier: Apache-2.0
"""Terminals and attach: a real pty over WebSocket, many viewers, gone and come again."""
import os
import signal
import struct

import pytest

from harness.proc import rss_kib
from harness.wait import until
from harness.websocket import BINARY, CLOSE, PING, PONG, TEXT, Refused, WebSocket

SH = "env PS1='$ ' sh"


def terminal(client, query="", name="box", **options):
    joined = f"cols=80&rows=24&command={SH.replace(' ', '%20').replace('$', '%24')}{query}"
    return WebSocket(client, f"/sandbox/{name}/terminal?{joined}", **options)


def attach(client, eid, query="", name="box", **options):
    return WebSocket(client, f"/sandbox/{name}/exec/{eid}/attach?{query}", **options)


def begin(client, command, name="box", **spec):
    return client.detach(name, command, **spec)


def test_a_shell(client, box):
    with terminal(client) as t:
        start = t.hears("start")
        assert start["tty"] is True and start["sandboxId"] == box["id"]
        assert f"X-Execution-Id: {start['id']}" in t.head
        t.sees("$ ")
        t.type("stty size; tty; id -un; pwd; echo $TERM\n")
        t.sees("24 80\r\n/dev/pts/0\r\nuser\r\n/workspace\r\nxterm-256color\r\n")
        t.type("echo $((6*7)) >/dev/tty\n")
        t.sees("42\r\n")
        t.type("exit 7\n")
        end = t.hears("exit")
        assert (end["exitCode"], end["reason"]) == (7, "exited")
        assert t.end() == 1000
    assert client.execution("box", start["id"])["tty"] is True


def test_the_usual_one_is_a_login_shell(client, box):
    with WebSocket(client, "/sandbox/box/terminal?user=root&cwd=/tmp") as t:
        t.type("shopt -q login_shell && echo lo''gin; whoami; pwd; stty size; exit\n")
        t.sees("login\r\nroot\r\n/tmp\r\n24 80\r\n")
        assert t.end() == 1000


def test_resize_and_signals(client, box):
    with terminal(client) as t:
        t.sees("$ ")
        t.type("trap 'echo resized' WINCH; echo re''ady\n")
        t.sees("ready\r\n")
        t.say(type="resize", cols=132, rows=50)
        t.type("stty size\n")
        assert b"50 132\r\n" in t.sees("50 132\r\n")
        eid = t.hears("start")["id"]
        assert client.post(f"/sandbox/box/exec/{eid}/resize", {"cols": 99, "rows": 33}).status == 200
        t.type("stty size\n")
        t.sees("33 99\r\n")
        t.type("sh -c 'echo go\"\"ing; exec sleep 1000'\n")
        t.sees("going\r\n")
        t.type("\x03")
        t.sees("^C")
        t.type("echo ba''ck $?\n")
        t.sees("back 130\r\n")
        t.say(type="signal", signal="SIGKILL")
        end = t.hears("exit")
        assert (end["exitCode"], end["reason"]) == (137, "killed")


def test_raw_mode_and_end_of_file(client, box):
    with terminal(client) as t:
        t.sees("$ ")
        t.type("stty raw -echo; echo re''ady; head -c 4 | od -An -tx1; stty sane; echo do''ne\n")
        t.sees("ready")
        t.type(b"\x03\x04\x00\xff")
        t.sees("03 04 00 ff")
        t.sees("done")
        t.sees("$ ")
        t.type("cat\n")
        t.sees("cat\r\n")
        t.type("line\n")
        t.sees("line\r\nline\r\n")
        t.say(type="eof")
        t.sees("$ ")
        assert client.execution("box", t.hears("start")["id"])["status"] == "running"


def test_gone_and_come_again(client, box):
    t = terminal(client)
    eid = t.hears("start")["id"]
    t.sees("$ ")
    t.type("echo be''fore\n")
    t.sees("before\r\n")
    t.type("(read x < /tmp/go; echo mean''while) &\n")
    t.sees("$ ")
    t.cut()
    client.sh("box", "mkfifo /tmp/fifo; mv /tmp/fifo /tmp/go 2>/dev/null; :")
    with attach(client, eid) as t:
        t.sees("before\r\n")  # what was on the screen comes again
        t.type("echo af''ter\n")
        t.sees("after\r\n")
        t.type("exit\n")
        assert t.end() == 1000
    with attach(client, eid) as t:  # also when all is over
        t.sees("after\r\n")
        assert t.hears("exit")["exitCode"] == 0
        t.type("x")


def test_come_again_exactly_where_one_was(client, box):
    """Cut at any byte: with offset and skip nothing is lost and nothing comes twice."""
    eid = begin(client, "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done", tty={"cols": 80, "rows": 24})
    want = b"".join(b"line %d\r\n" % i for i in range(3000))
    got, offset, skip, rounds = b"", "0", 0, 0
    while True:
        t, done = attach(client, eid, f"offset={offset}&skip={skip}"), False
        try:
            budget = 1000 + 37 * rounds  # frames may be cut anywhere between two of them
            while budget > 0:
                op, data = t.next()
                if op == BINARY:
                    got, skip, budget = got + data, skip + len(data), budget - len(data)
                elif t.told and t.told[-1]["type"] == "output":
                    offset, skip = t.told[-1]["offset"], t.told[-1].get("skip", 0)
                elif t.told and t.told[-1]["type"] == "exit":
                    done = True
                    break
        finally:
            t.cut()
        rounds += 1
        if done:
            break
    assert got == want and rounds > 3


def test_two_see_the_same_and_both_may_type(client, box):
    with terminal(client) as one:
        eid = one.hears("start")["id"]
        one.sees("$ ")
        with attach(client, eid) as two, attach(client, eid, "readOnly=true") as viewer:
            one.type("echo fr''om one\n")
            two.sees("from one\r\n")
            two.type("echo fr''om two\n")
            for t in (one, two, viewer):
                t.sees("from two\r\n")
            viewer.type("echo never\n")
            assert viewer.hears("error")["code"] == "READ_ONLY"
            one.type("exit\n")
            for t in (one, two, viewer):
                assert t.hears("exit")["exitCode"] == 0
                assert b"never" not in t.output


def test_a_viewer_that_never_reads_holds_up_nobody(client, server, box):
    """Several MB of output, some viewers that read nothing of it, one that reads all."""
    before = rss_kib(server.pid("server"))
    eid = begin(client, "head -c 8000000 /dev/zero | tr '\\0' x; sleep 1000", tty={})
    deaf = [attach(client, eid, "offset=0") for _ in range(8)]
    with attach(client, eid, "offset=0") as t:
        count = 0
        while count < 8_000_000:
            op, data = t.next()
            count += len(data) if op == BINARY else 0
            t.output = b""
    assert rss_kib(server.pid("server")) - before < 8 << 10
    for d in deaf:
        d.close()


def test_input_without_a_terminal(client, box):
    eid = begin(client, "cat; echo oops >&2; exit 3", openStdin=True)
    with attach(client, eid) as t:
        assert t.hears("start")["tty"] is False
        t.type(bytes(range(256)))
        while len(t.output) < 256:
            t.next()
        assert t.output == bytes(range(256))
        t.say(type="eof")
        end = t.hears("exit")
        assert end["exitCode"] == 3 and t.stderr == b"oops\n"
        assert t.end() == 1000


def test_nobody_takes_input(client, box):
    eid = begin(client, "sleep 1000")
    with attach(client, eid) as t:
        t.type("x")
        assert t.hears("error")["code"] == "STDIN_CLOSED"
        t.say(type="resize", cols=80, rows=24)
        assert t.hears("error")["code"] == "NO_TERMINAL"
        t.say(type="ping")
        t.hears("pong")


BAD_MESSAGES = [
    ("no JSON", b"{", "INVALID_JSON"),
    ("no object", b"[]", "VALIDATION_ERROR"),
    ("no type", b"{}", "VALIDATION_ERROR"),
    ("another type", b'{"type":"fly"}', "VALIDATION_ERROR"),
    ("no size", b'{"type":"resize"}', "VALIDATION_ERROR"),
    ("too large", b'{"type":"resize","cols":1000000,"rows":1}', "VALIDATION_ERROR"),
    ("no signal", b'{"type":"signal","signal":"SIGNOPE"}', "VALIDATION_ERROR"),
    ("unknown field", b'{"type":"ping","x":1}', "VALIDATION_ERROR"),
]


def test_bad_messages_are_told_and_harm_nothing(client, box):
    with terminal(client) as t:
        t.sees("$ ")
        for name, text, code in BAD_MESSAGES:
            t.raw(t.frame(TEXT, text))
            assert t.hears("error")["code"] == code, name
        t.type("echo fi''ne\n")
        t.sees("fine\r\n")


def test_bad_offsets(client, box):
    eid = begin(client, "echo hi; sleep 1000")
    for offset in ("7", "x", "99999999"):
        with pytest.raises(Refused) as refused:
            attach(client, eid, f"offset={offset}")
        assert refused.value.status == 400


def test_close_is_answered(client, box):
    with terminal(client) as t:
        t.raw(t.frame(CLOSE, struct.pack(">H", 1000) + b"bye"))
        assert t.end() == 1000
    with terminal(client) as t:
        t.raw(t.frame(PING, b"are you there"))
        while (got := t.next())[0] != PONG:
            pass
        assert got[1] == b"are you there"


def test_a_steady_megabyte_a_second_comes_whole(client, box):
    script = "for i in $(seq 20); do head -c 50000 /dev/zero | tr '\\0' y; sleep 0.02; done; echo END"
    eid = begin(client, script, tty={})
    with attach(client, eid, "offset=0") as t:
        t.hears("exit")
        assert t.output == b"y" * 1_000_000 + b"END\r\n"


def test_over_a_kill_of_the_server(fresh):
    server = fresh()
    server.start()
    client = server.client()
    client.create("box")
    t = terminal(client)
    eid = t.hears("start")["id"]
    t.sees("$ ")
    t.type("x=kept; echo se''t\n")
    t.sees("set\r\n")
    server.kill("server", signal.SIGKILL)
    server.recover()
    t.close()
    client = server.client()
    with attach(client, eid) as t:
        t.sees("set\r\n")
        t.type("echo $x; stty size; exit 5\n")
        t.sees("kept\r\n24 80\r\n")
        assert t.hears("exit")["exitCode"] == 5


def test_a_stop_of_the_server_says_so(fresh):
    server = fresh()
    server.start()
    client = server.client()
    client.create("box")
    t = terminal(client)
    t.sees("$ ")
    os.kill(server.pid("server"), signal.SIGTERM)
    assert t.end() == 1001
    t.close()


@pytest.mark.native("a runtime's devpts has no bound")
def test_no_more_terminals_than_a_sandbox_may_have(client, box):
    script = ("import os\nn = 0\ntry:\n  while True: os.open('/dev/ptmx', os.O_RDWR); n += 1\n"
              "except OSError as e: print(n, e.errno)")
    count, errno = map(int, client.sh("box", ["python3", "-c", script]).split())
    assert count <= 64 and errno == 28


def test_the_sandbox_goes(client, box):
    with terminal(client) as t:
        t.sees("$ ")
        assert client.delete("/sandbox/box").status == 200
        assert t.hears("exit")["status"] in ("exited", "lost")
        assert t.end() == 1000


def test_many_terminals_are_all_gone_afterwards(client, server, box):
    held = [terminal(client) for _ in range(20)]
    for t in held:
        t.sees("$ ")
    for t in held:
        t.cut()
    eids = [e["id"] for e in client.get("/sandbox/box/exec", per_page=100).json()["executions"]]
    assert len(eids) == 20
    for eid in eids:
        assert client.post(f"/sandbox/box/exec/{eid}/kill", {"signal": "SIGHUP"}).status == 200
    until(lambda: all(client.execution("box", e)["status"] == "exited" for e in eids), "their end")
