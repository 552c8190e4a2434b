# SPDX-License-Identifier: Apache-2.0
"""The command line, as its users type it."""
import json
import os
import signal
import subprocess
import time

import pytest

from harness.numbered import lines, script
from harness.server import CAY
from harness.terminal import said_to_terminal
from harness.wait import stretch, until


@pytest.fixture
def cay(server):
    def run(*args, stdin=None, env=None, timeout=30):
        return subprocess.run([CAY, *args], capture_output=True, text=True, timeout=stretch(timeout), input=stdin,
                              env={**os.environ, "CAY_URL": server.url, **(env or {})})

    return run


def test_run(cay, client):
    done = cay("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert client.names() == [], "removed afterwards"


def test_run_keeps(cay, client):
    done = cay("run", "--keep", "--name", "kept", "--", "sh", "-c", "echo hi > /workspace/x")
    assert done.returncode == 0, done
    assert client.names() == ["kept"] and client.sh("kept", "cat /workspace/x") == "hi\n"


def test_run_streams(server):
    process = subprocess.Popen([CAY, "run", "--", "sh", "-c", f"echo first; sleep {stretch(2)}; echo last"], text=True,
                               stdout=subprocess.PIPE, env={**os.environ, "CAY_URL": server.url})
    began = time.monotonic()
    assert process.stdout.readline() == "first\n" and time.monotonic() - began < stretch(1.5)
    assert process.communicate()[0] == "last\n" and process.returncode == 0


def test_run_interrupted_leaves_nothing(server, client):
    process = subprocess.Popen([CAY, "run", "--", "sh", "-c", "echo up; sleep 1000"], text=True, stdout=subprocess.PIPE,
                               env={**os.environ, "CAY_URL": server.url})
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(stretch(10)) != 0
    until(lambda: client.names() == [], "the sandbox goes with it")
    process.stdout.close()


def test_update(cay, client):
    client.create("box", memoryGB=0.25)
    done = cay("update", "box", "--memory", "384m", "--cpus", "0.5", "--timeout", "90m", "--idle-timeout", "10m",
               "--lease", "5m", "--name", "other", "--label", "a", "--tag", "t=u", "--env", "K=v")
    assert done.returncode == 0, done
    told = client.sandbox("other")
    assert (told["memoryGB"], told["cpuCores"], told["timeoutMinutes"]) == (0.375, 0.5, 90)
    assert (told["idleTimeoutMs"], told["leaseSeconds"], told["labels"], told["tags"]) == (600000, 300, ["a"], {"t": "u"})
    assert client.sh("other", "echo $K") == "v\n"
    assert "not a time" in cay("update", "other", "--timeout", "soon").stderr
    assert cay("create", "--name", "leased", "--lease", "2m", "--idle-timeout", "3m").returncode == 0
    assert (client.sandbox("leased")["leaseSeconds"], client.sandbox("leased")["idleTimeoutMs"]) == (120, 180000)


def test_create_exec_and_the_rest(cay, client):
    done = cay("create", "--name", "made", "--cpus", "0.5", "--memory", "256m", "--env", "A=1", "--label", "x",
               "--tag", "k=v", "--disk", "300m", "--timeout", "5m", "--start", "echo from start; sleep 1000")
    sandbox = client.sandbox("made")
    assert (done.returncode, done.stdout) == (0, sandbox["id"] + "\n"), done
    assert (sandbox["cpuCores"], sandbox["memoryGB"], sandbox["labels"], sandbox["timeoutMinutes"]) == (0.5, 0.25, ["x"], 5)
    assert (sandbox["tags"], sandbox["diskSizeGB"]) == ({"k": "v"}, 0.3145728)

    done = cay("exec", "made", "--", "sh", "-c", "echo $A; exit 7")
    assert (done.returncode, done.stdout) == (7, "1\n"), done
    done = cay("exec", "--user", "root", "--cwd", "/usr", "--env", "B=2", "made", "--", "sh", "-c", "id -u; pwd; echo $B")
    assert (done.returncode, done.stdout) == (0, "0\n/usr\n2\n"), done
    assert cay("exec", "made", "--", "no-such").returncode == 127
    assert cay("exec", "made", "--", "sh", "-c", "kill -9 $$").returncode == 137
    assert cay("exec", "--timeout", "300ms", "made", "--", "sleep", "60").returncode in (124, 143)

    table = cay("ls")
    assert table.returncode == 0 and "made" in table.stdout and "RUNNING" in table.stdout
    listed = json.loads(cay("ls", "--json").stdout)
    assert [s["name"] for s in listed["sandboxes"]] == ["made"]

    inspected = json.loads(cay("inspect", "made", "--json").stdout)
    assert inspected["id"] == sandbox["id"]
    assert cay("inspect", sandbox["id"]).returncode == 0

    until(lambda: cay("logs", "made").stdout == "from start\n", "its log")
    assert cay("stop", "made").returncode == 0 and client.sandbox("made")["status"] == "STOPPED"
    assert cay("exec", "made", "--", "true").returncode == 125, "cay's own failure"
    assert cay("start", "made").returncode == 0 and client.sandbox("made")["status"] == "RUNNING"
    assert cay("rm", "made").returncode == 0 and client.names() == []


def test_secrets(cay, client, tmp_path):
    """From our own variable, from a file, or as they are typed; and told to nobody."""
    for name, text in (("key", "line 1\nline 2\n"), ("bare", "x"), ("binary", b"a\0b"), ("large", "x" * 70_000)):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "link").symlink_to(tmp_path / "bare")
    done = cay("create", "--name", "box", "--secret", "TOKEN", "--secret", "LEVEL=3", "--secret-file", f"KEY={tmp_path}/key",
               "--secret-file", f"LINK={tmp_path}/link", env={"TOKEN": "hunter2x"})
    assert done.returncode == 0, done
    assert client.sandbox("box")["secrets"] == {"TOKEN": None, "LEVEL": None, "KEY": None, "LINK": None}
    assert client.sh("box", 'echo "$TOKEN $LEVEL $LINK $KEY"') == "hunter2x 3 x line 1\nline 2\n"
    assert cay("run", "--secret", "TOKEN", "--", "sh", "-c", "echo $TOKEN", env={"TOKEN": "mine"}).stdout == "mine\n"
    for file, why in ((f"K={tmp_path}/none", "cannot read"), ("nothing", "NAME=FILE"), (f"={tmp_path}/key", "NAME=FILE"), ("K=", "NAME=FILE"),
                      (f"K={tmp_path}/binary", "no text"), (f"K={tmp_path}", "cannot read"), (f"K={tmp_path}/large", "cannot read")):
        done = cay("create", "--secret-file", file)
        assert done.returncode == 1 and why in done.stderr, (file, done)
    assert "no value" in cay("create", "--secret", "NOBODY_HAS_THIS").stderr
    assert client.names() == ["box"]


def test_create_waits_until_it_is_ready(cay, client):
    start = ("--start", "sleep 0.3; echo it is up; exec sleep 1000")
    assert cay("create", "--name", "box", *start, "--ready-line", "is up", "--ready-timeout", "20s").returncode == 0
    box = client.sandbox("box")
    assert box["readyWhen"] == {"logLine": "is up", "timeoutMs": 20000} and box["createdInMs"] >= 300
    done = cay("create", "--name", "late", *start, "--ready-port", "80", "--ready-timeout", "500ms")
    assert done.returncode == 1 and "500 ms" in done.stderr, done
    for args, why in ((("--ready-port", "0"), "out of bounds"), (("--ready-timeout", "5s"), "readyWhen"), (("--ready-line", "x"), "startCommand")):
        done = cay("create", *args)
        assert done.returncode != 0 and why in done.stderr, done
    assert client.names() == ["box"]


def test_exec_takes_stdin(cay, client, box):
    assert cay("exec", "--stdin", "box", "--", "cat", stdin="typed\n").stdout == "typed\n"
    assert cay("exec", "box", "--", "cat", stdin="not asked for").stdout == ""


def test_output_comes_as_it_is(cay, client):
    client.create("box", startCommand=["printf", "a\\0b\\377\\nend\\n"])
    done = cay("exec", "--json", "box", "--", "sh", "-c", "printf 'a\\0b\\377'; exit 3")
    assert done.returncode == 3 and json.loads(done.stdout)["stdout"] == "a\0b\ufffd", done
    assert json.loads(cay("logs", "--json", "box").stdout)["logs"] == "a\0b\ufffd\nend\n"
    want = b"a\0b\xff\nend\n"
    for args in (["logs", "box"], ["exec", "box", "--", "printf", "a\\0b\\377\\nend\\n"]):
        done = subprocess.run([CAY, *args], capture_output=True, timeout=stretch(20),
                              env={**os.environ, "CAY_URL": f"http://{client.host}:{client.port}"})
        assert (done.returncode, done.stdout) == (0, want), done


def test_logs_without_follow_end_by_themselves(cay, client):
    client.create("talker", startCommand="seq 200000; sleep 1000")
    whole = "".join(f"{i}\n" for i in range(1, 200001))
    until(lambda: cay("logs", "talker").stdout == whole, "all of it", 20)
    assert cay("logs", "--tail", "2", "talker").stdout == "199999\n200000\n"


def test_exec_detached(cay, client, box):
    ident = cay("exec", "--detach", "box", "--", "sh", "-c", "echo $$; exec sleep 1000").stdout.strip()
    assert client.execution("box", ident)["status"] == "running" and ident in cay("ps", "box").stdout
    assert cay("kill", "box", ident).returncode == 0
    until(lambda: client.execution("box", ident)["status"] == "exited", "it is killed")
    assert client.execution("box", ident)["exitCode"] == 137


def test_exec_survives_a_restart_of_the_server(fresh):
    server = fresh().start()
    server.client().create("box")
    process = subprocess.Popen([CAY, "exec", "box", "--", "sh", "-c", script(30, 0.1, 5)], text=True, stdout=subprocess.PIPE,
                               env={**os.environ, "CAY_URL": server.url})
    assert process.stdout.readline() == "line 0\n"
    server.kill("all")
    server.recover()
    rest = process.communicate(timeout=stretch(30))[0]
    assert "line 0\n" + rest == lines(30).decode() and process.returncode == 5


def test_logs_follow(cay, server, client):
    client.create("talker", startCommand="i=0; while [ $i -lt 5 ]; do echo tick $i; i=$((i+1)); sleep 0.1; done")
    done = cay("logs", "-f", "talker")
    assert done.stdout == "".join(f"tick {i}\n" for i in range(5))


def test_errors_are_sentences(cay, client, box):
    for args, word in ((["inspect", "nobody"], "sandbox not found"), (["rm", "nobody"], "sandbox not found"),
                       (["exec", "nobody", "--", "true"], "sandbox not found"),
                       (["create", "--name", "box"], "box"), (["create", "--name", "Not Good"], "name")):
        done = cay(*args)
        assert done.returncode not in (0, -6, -11) and word in done.stderr and done.stdout == "", (args, done)
        assert "{" not in done.stderr and len(done.stderr.strip().splitlines()) <= 3


def test_no_server(cay):
    for verb in (["ls"], ["run", "--", "true"], ["exec", "x", "--", "true"], ["logs", "x"]):
        done = cay(*verb, env={"CAY_URL": "http://127.0.0.1:1"})
        assert done.returncode not in (0, -6, -11)
        assert "127.0.0.1:1" in done.stderr and "cay serve" in done.stderr, done


def test_a_terminal_is_told_no_control_characters(server, client, cay, tmp_path):
    """C1 controls may stand in JSON as they are; a terminal would obey them."""
    evil = "\u009b31m\u007f\u009d0;title\u009c ü"
    client.create("box", env={"EVIL": evil})
    path = tmp_path / "batch.json"
    path.write_text(json.dumps({"sandboxes": ["box"], "commands": [{"command": 'printf %s "$EVIL"'}]}))
    for args in (["inspect", "--json", "box"], ["exec", "--json", "box", "--", "printenv", "EVIL"], ["batch", str(path)]):
        piped, shown = cay(*args).stdout, said_to_terminal(server, *args)
        assert evil in piped, "in a pipe it is as it came"
        assert b"\xc2\x9b" not in shown and b"\x7f" not in shown and b"\xc2\x9d" not in shown, (args, shown)
        assert evil in [v for line in shown.splitlines() for v in strings(json.loads(line))], (args, shown)


def strings(value):
    """All that a JSON value holds."""
    if isinstance(value, (dict, list)):
        return [s for v in (value.values() if isinstance(value, dict) else value) for s in strings(v)]
    return [value.rstrip("\n")] if isinstance(value, str) else []


def test_usage(cay):
    assert cay("version").stdout.strip() and cay("version").returncode == 0
    assert "version" in json.loads(cay("version", "--json").stdout)
    help_text = cay("help").stdout or cay("--help").stdout
    for verb in "serve run create ls inspect exec logs stop start rm down version doctor".split():
        assert verb in help_text, verb
    for args in ([], ["nonsense"], ["exec"], ["rm"], ["ls", "--nonsense"]):
        done = cay(*args)
        assert done.returncode not in (0, -6, -11) and done.stderr or not args, (args, done)


def test_serve_needs_root(server, tmp_path):
    binary = tmp_path / "cay"
    binary.write_bytes(open(CAY, "rb").read())
    binary.chmod(0o755)
    for directory in (tmp_path, *tmp_path.parents):
        if directory.as_posix().startswith("/tmp/"):
            directory.chmod(0o755)
    done = subprocess.run([str(binary), "serve", "--data", "/tmp/cay-not-root"], capture_output=True, text=True,
                          timeout=stretch(20), user=65534, group=65534, extra_groups=[])
    assert done.returncode != 0 and "root" in done.stderr, done


def test_forks_snapshots_and_volumes(cay, client, box):
    client.sh("box", "echo hi > /workspace/f")
    one = cay("fork", "box", "--name", "one").stdout.strip()
    assert client.sandbox("one")["id"] == one and client.sh("one", "cat /workspace/f") == "hi\n"
    many = cay("fork", "box", "--count", "3").stdout.split()
    assert len(many) == 3 and all(client.sandbox(i)["forkedFrom"] == box["id"] for i in many)
    made = cay("snapshot", "box", "--name", "a b").stdout.strip()
    row = cay("snapshots", "ls").stdout.rstrip("\n").split("\t")
    assert row[:4] == [made, "a b", box["id"], "node:20-bookworm"], row
    assert json.loads(cay("snapshots", "--json").stdout)["snapshots"][0]["id"] == made
    assert cay("create", "--from", made, "--name", "two").returncode == 0
    assert client.sh("two", "cat /workspace/f") == "hi\n"

    volume = cay("rm", "--preserve-volume", "box").stdout.strip()
    assert volume == box["volumeId"] and cay("volumes").stdout.split("\t")[:2] == [volume, "box"]
    assert cay("create", "--volume", volume, "--name", "user").returncode == 0
    assert client.sh("user", "cat /workspace/f") == "hi\n"
    refused = cay("volumes", "rm", volume)
    assert refused.returncode == 1 and "VOLUME_IN_USE" in refused.stderr, refused
    assert cay("rm", "user").stdout == ""
    assert cay("volumes", "rm", volume).returncode == cay("snapshots", "rm", made).returncode == 0
    assert cay("volumes").stdout == cay("snapshots").stdout == ""
    for wrong in (("snapshots", "rm"), ("volumes", "show"), ("fork",), ("fork", "x", "--count", "101")):
        assert cay(*wrong).returncode == 2, wrong
