# SPDX-License-Identifier: Apache-2.0
"""Output: complete, in order, resumable, bounded, and there after the end."""
import json
import random
import threading
import time

import pytest

from harness.client import payload
from harness.numbered import lines, script as numbered
from harness.wait import stretch, until

def collect(events):
    """Output by stream, the exit event, and the ids in order."""
    out, ids, end = {"stdout": b"", "stderr": b""}, [], None
    for event in events:
        assert end is None, f"after the exit came {event}"
        if event.name == "exit":
            end = event.data
        elif event.name in out:
            out[event.name] += event.bytes()
            ids.append(int(event.id))
    return out, end, ids


def test_stream_of_an_exec(client, box):
    command = ["sh", "-c", "echo a; sleep 0.2; echo b >&2; sleep 0.2; echo c; exit 3"]
    with client.events("POST", "/sandbox/box/exec", {"command": command}) as stream:
        assert stream.status == 200 and stream.headers["Content-Type"].startswith("text/event-stream")
        seen = [(e.name, e.bytes() if e.name != "exit" else e.data["exitCode"]) for e in stream.events()
                if e.name in ("stdout", "stderr", "exit")]
    assert seen == [("stdout", b"a\n"), ("stderr", b"b\n"), ("stdout", b"c\n"), ("exit", 3)]


def test_stream_comes_while_it_runs(client, box):
    began = time.monotonic()
    with client.events("POST", "/sandbox/box/exec", {"command": f"echo first; sleep {stretch(2)}; echo last"}) as stream:
        events = stream.events()
        first = next(e for e in events if e.name == "stdout")
        assert first.bytes() == b"first\n" and time.monotonic() - began < stretch(1)
        out, end, _ = collect(events)
    assert out["stdout"] == b"last\n" and end["exitCode"] == 0


def test_ndjson(client, box):
    with client.ndjson("POST", "/sandbox/box/exec", {"command": "echo a; echo b >&2; exit 2"}) as stream:
        assert stream.headers["Content-Type"].startswith("application/x-ndjson")
        records = [r for r in stream.records()]
    assert records[0]["type"] == "start" and records[0]["id"].startswith("exec_")
    assert records[-1]["type"] == "exit" and records[-1]["exitCode"] == 2
    assert b"".join(payload(r) for r in records if r["type"] == "stdout") == b"a\n"
    assert b"".join(payload(r) for r in records if r["type"] == "stderr") == b"b\n"
    assert all("offset" in r for r in records if r["type"] == "stdout")


def test_client_that_leaves_ends_nothing(client, box):
    stream = client.events("POST", "/sandbox/box/exec", {"command": numbered(20, 0.05)})
    next(stream.events())
    stream.close()
    ident = client.get("/sandbox/box/exec").json()["executions"][0]["id"]
    until(lambda: client.execution("box", ident)["status"] == "exited", "it goes on without a reader")
    assert client.output("box", ident) == lines(20)


def test_client_that_waits_no_longer_ends_nothing(client, box):
    """It asked for the result and leaves before the end: the execution is in the list, and whole in the end."""
    client.sh("box", "mkfifo go")
    conn = client.connect()
    conn.request("POST", "/api/v1/sandbox/box/exec", json.dumps({"command": "echo begun; read x < go; echo $x >&2; exit 3"}),
                 {"Content-Type": "application/json"})
    found = until(lambda: [e for e in client.get("/sandbox/box/exec").json()["executions"] if e["status"] == "running"],
                  "it runs")
    ident = found[0]["id"]
    until(lambda: client.output("box", ident) == b"begun\n", "it waits")
    conn.close()
    assert client.execution("box", ident)["status"] == "running"
    client.sh("box", "echo went on > go")
    ended = until(lambda: (e := client.execution("box", ident))["status"] == "exited" and e, "it goes on")
    assert (ended["exitCode"], ended["reason"], ended["stdoutBytes"], ended["stderrBytes"]) == (3, "exited", 6, 8)
    assert client.output("box", ident) == b"begun\nwent on\n"


def test_follow_from_start_while_it_runs(client, box):
    ident = client.detach("box", numbered(30, 0.02))
    with client.events("GET", f"/sandbox/box/exec/{ident}/output", query={"follow": "true"}) as stream:
        out, end, ids = collect(stream.events())
    assert out["stdout"] == lines(30) and end["exitCode"] == 0
    assert ids == sorted(set(ids))


def test_follow_after_the_end(client, box):
    ident = client.exec("box", numbered(10))["id"]
    with client.events("GET", f"/sandbox/box/exec/{ident}/output", query={"follow": "true"}) as stream:
        out, end, _ = collect(stream.events())
    assert out["stdout"] == lines(10) and end["exitCode"] == 0
    with client.ndjson("GET", f"/sandbox/box/exec/{ident}/output") as stream:
        records = list(stream.records())
    assert b"".join(payload(r) for r in records if r["type"] == "stdout") == lines(10)


def test_resume_loses_and_doubles_nothing(client, box):
    ident = client.detach("box", numbered(60, 0.01))
    rng, got, last, end = random.Random(7), b"", None, None
    for _ in range(200):
        headers = {"Last-Event-ID": last} if last is not None else {}
        stream = client.events("GET", f"/sandbox/box/exec/{ident}/output", query={"follow": "true"}, headers=headers)
        with stream:
            patience = rng.randrange(1, 9)
            for event in stream.events():
                if event.name == "stdout":
                    got += event.bytes()
                    last = event.id
                    patience -= 1
                elif event.name == "exit":
                    end = event.data
                if patience == 0 or end:
                    break
        if end:
            break
    assert got == lines(60) and end["exitCode"] == 0


def test_offset_is_what_the_ids_carry(client, box):
    ident = client.exec("box", ["sh", "-c", "echo a; sleep 0.1; echo b; sleep 0.1; echo c"])["id"]
    path = f"/sandbox/box/exec/{ident}/output"
    with client.events("GET", path) as stream:
        first = next(e for e in stream.events() if e.name == "stdout")
    with client.events("GET", path, query={"offset": first.id}) as stream:
        out, _, _ = collect(stream.events())
    assert first.bytes() + out["stdout"] == b"a\nb\nc\n"
    for bad in ("-1", "x", "1e3", "99999999999999999999"):
        assert client.get(path, offset=bad).status == 400, bad


def test_one_stream_only(client, box):
    ident = client.exec("box", "echo out; echo err >&2")["id"]
    assert client.output("box", ident, stream="stdout") == b"out\n"
    assert client.output("box", ident, stream="stderr") == b"err\n"
    assert sorted(client.output("box", ident).splitlines()) == [b"err", b"out"]
    assert client.get(f"/sandbox/box/exec/{ident}/output", stream="stdin").status == 400


def test_plain_text_is_as_it_came(client, box):
    ident = client.exec("box", ["printf", "no newline"])["id"]
    answer = client.get(f"/sandbox/box/exec/{ident}/output")
    assert answer.body == b"no newline" and answer.headers["Content-Type"].startswith("text/plain")


def test_binary(client, box):
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)"
    want = bytes(range(256)) * 300
    result = client.exec("box", ["python3", "-c", script])
    assert result["exitCode"] == 0
    assert client.output("box", result["id"]) == want
    with client.events("GET", f"/sandbox/box/exec/{result['id']}/output") as stream:
        out, end, _ = collect(stream.events())
    assert out["stdout"] == want and end["exitCode"] == 0


def test_characters_are_never_cut(client, box):
    """Three-byte characters written one byte at a time, and in large blocks at odd sizes."""
    slow = "import sys,time\nfor b in '日本語🏝'.encode():\n sys.stdout.buffer.write(bytes([b])); sys.stdout.flush(); time.sleep(0.01)"
    fast = "import sys; sys.stdout.write('x' + '語' * 200000)"
    for script, want in ((slow, "日本語🏝"), (fast, "x" + "語" * 200_000)):
        with client.events("POST", "/sandbox/box/exec", {"command": ["python3", "-c", script]}) as stream:
            text = ""
            for event in stream.events():
                if event.name == "stdout":
                    assert "base64" not in event.data, "valid text came as base64"
                    text += event.data["data"]
        assert text == want


@pytest.mark.limit(60)
def test_large_output_keeps_head_and_tail(client, box):
    script = ("import sys\nw = sys.stdout.write\n"
              "for i in range(500000): w('%08d' % i + 'x' * 91 + '\\n')")
    result = client.exec("box", ["python3", "-c", script])
    assert result["exitCode"] == 0 and result["truncated"] is True
    told = client.execution("box", result["id"])
    assert told["stdoutBytes"] == 50_000_000 and told["truncated"] is True
    text = client.output("box", result["id"])
    assert text.startswith(b"00000000xxx") and text.endswith(b"x\n") and b"\n00499999xxx" in text
    assert 8 << 20 < len(text) < 20 << 20
    head = text[: 7 << 20].splitlines()[:-1]
    assert [int(line[:8]) for line in head] == list(range(len(head)))
    tail = text[-(7 << 20):].splitlines()[1:]
    assert [int(line[:8]) for line in tail] == list(range(500_000 - len(tail), 500_000))
    with client.events("GET", f"/sandbox/box/exec/{result['id']}/output") as stream:
        names = [e.name for e in stream.events()]
    assert names[-1] == "exit" and set(names) - {"stdout", "stderr", "exit"}, "the gap is told in the stream"


def test_many_readers_of_one(server, client, box):
    ident = client.detach("box", numbered(50, 0.02))
    results = []

    def read():
        mine = server.client()
        with mine.events("GET", f"/sandbox/box/exec/{ident}/output", query={"follow": "true"}) as stream:
            results.append(collect(stream.events())[0]["stdout"])

    threads = [threading.Thread(target=read) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [lines(50)] * 20


def test_output_outlives_the_sandbox(client, box):
    ident = client.exec("box", numbered(5, exit_code=9))["id"]
    running = client.detach("box", "echo begun; sleep 1000")
    until(lambda: client.output("box", running) == b"begun\n", "it has begun")
    client.delete("/sandbox/box")
    assert client.output(box["id"], ident) == lines(5)
    told = client.execution(box["id"], ident)
    assert (told["status"], told["exitCode"]) == ("exited", 9)
    cut = client.execution(box["id"], running)
    assert cut["status"] in ("exited", "lost") and cut["exitCode"] != 0, cut
    assert client.output(box["id"], running) == b"begun\n"


def test_follower_is_told_when_the_sandbox_goes(client, box):
    ident = client.detach("box", "echo begun; sleep 1000")
    with client.events("GET", f"/sandbox/box/exec/{ident}/output", query={"follow": "true"}, timeout=20) as stream:
        events = stream.events()
        assert next(events).bytes() == b"begun\n"
        client.delete("/sandbox/box")
        last = list(events)[-1]
    assert last.name == "exit" and last.data.get("exitCode") != 0, last


def test_logs_of_the_start_command(client):
    client.create("logged", startCommand=f"({numbered(20)}); echo oops >&2; sleep 1000")
    want = lines(20).decode() + "oops\n"
    until(lambda: len(client.get("/sandbox/logged/logs").json()["logs"]) >= len(want), "all of it")
    whole = client.get("/sandbox/logged/logs").json()["logs"]
    assert "".join(line for line in whole.splitlines(True) if line != "oops\n") == lines(20).decode()
    assert client.get("/sandbox/logged/logs", tail=3).json()["logs"].count("\n") == 3
    assert client.get("/sandbox/logged/logs", tail=1000).json()["logs"] == whole
    assert client.get("/sandbox/logged/logs", tail=0).json()["logs"] == ""
    for bad in ("-1", "x", "1.5"):
        assert client.get("/sandbox/logged/logs", tail=bad).status == 400, bad


def test_logs_tail_then_follow(client):
    client.create("followed", startCommand=f"({numbered(10)}); while [ ! -e /workspace/go ]; do sleep 0.05; done; echo more")
    until(lambda: client.get("/sandbox/followed/logs").json()["logs"].count("\n") == 10, "the history")
    with client.events("GET", "/sandbox/followed/logs", query={"tail": 2, "follow": "true"}) as stream:
        got = b""
        for event in stream.events():
            if event.name == "stdout":
                got += event.bytes()
            if got == b"line 8\nline 9\n":
                client.sh("followed", "touch /workspace/go")
            if got.endswith(b"more\n"):
                break
    assert got == b"line 8\nline 9\nmore\n"


def read_logs(client, name, last=None, stop=lambda text: False, **query):
    """Events from there on, until `stop` or the end: [(stream, bytes)], and the last id."""
    got, headers = [], {"Last-Event-ID": last} if last else None
    with client.events("GET", f"/sandbox/{name}/logs", query={"follow": "true", **query}, headers=headers) as stream:
        for event in stream.events():
            last = event.id
            if event.name in ("stdout", "stderr"):
                got.append((event.name, event.bytes()))
            if event.name == "exit" or stop(b"".join(data for _, data in got)):
                break
    return got, last


def test_logs_last_100_lines_then_live_however_often_one_comes_again(client):
    """As document 000 has it: history, then live, stdout and stderr told apart, nothing lost, nothing twice."""
    script = (f"({numbered(300)}); while [ ! -e /workspace/go ]; do sleep 0.05; done; i=0; "
              "while [ $i -lt 50 ]; do echo out $i; echo err $i >&2; i=$((i+1)); sleep 0.01; done")
    client.create("often", startCommand=script)
    until(lambda: client.get("/sandbox/often/logs").json()["logs"].count("\n") == 300, "the history")
    got, last = read_logs(client, "often", tail=100, stop=lambda text: text.count(b"\n") >= 100)
    client.sh("often", "touch /workspace/go")
    rounds = 0
    while not b"".join(d for s, d in got if s == "stderr").endswith(b"err 49\n"):
        more, last = read_logs(client, "often", last, lambda text: len(text) > 40, tail=100)
        got, rounds = got + more, rounds + 1
    out = b"".join(data for stream, data in got if stream == "stdout")
    assert out == b"".join(lines(300).splitlines(True)[-100:]) + b"".join(b"out %d\n" % i for i in range(50))
    assert b"".join(d for s, d in got if s == "stderr") == b"".join(b"err %d\n" % i for i in range(50))
    assert rounds > 3


def test_logs_go_on_over_a_new_start_of_the_sandbox(client):
    """The rest of the old run comes first, then the new one from its beginning."""
    client.create("again", startCommand="echo run $$; read x < /dev/zero; sleep 1000", persistent=True)
    first, last = read_logs(client, "again", stop=lambda text: text.endswith(b"\n"))
    assert client.post("/sandbox/again/stop", {"graceMs": 0}).status == 200
    assert client.post("/sandbox/again/start").status == 200
    rest, last = read_logs(client, "again", last)
    assert rest == [], "nothing twice"
    second, last = read_logs(client, "again", last, lambda text: text.endswith(b"\n"))
    assert [s for s, _ in first + second] == ["stdout", "stdout"]
    assert b"".join(d for _, d in second).startswith(b"run ")
    for bad in ("x", "4096", "exec_0000000000000000", "exec_zz:0", "exec_0000000000000000:x"):
        answer = client.request("GET", "/sandbox/again/logs", query={"follow": "true"}, headers={"Last-Event-ID": bad})
        assert (answer.status, answer.error["details"]["field"]) == (400, "Last-Event-ID"), bad


def test_logs_without_a_start_command(client, box):
    assert client.get("/sandbox/box/logs").json()["logs"] == ""


def test_json_answer_is_valid_whatever_the_output(client, box):
    for script in (r"printf '\377\376\000\001'", r"printf '\303'", r"printf '\033[31m\r\n\0'", r"printf '\355\240\200'"):
        answer = client.post("/sandbox/box/exec", {"command": script})
        assert answer.status == 200 and json.loads(answer.body.decode("utf-8"))["exitCode"] == 0
