# SPDX-License-Identifier: Apache-2.0
"""Commands: how they are given, how they end, and what is told of it."""
import json
import re
import signal
import threading
import time

import pytest

from harness.wait import fewer, stretch, until

EXEC_ID = re.compile(r"^exec_[0-9a-f]{16}$")


def is_signal(value, sig):
    return value in (sig.value, sig.name, sig.name.removeprefix("SIG"))


def test_result_has_every_field(client, box):
    result = client.exec("box", ["sh", "-c", "echo out; echo err >&2"])
    assert EXEC_ID.match(result["id"])
    assert (result["exitCode"], result["stdout"], result["stderr"], result["reason"]) == (0, "out\n", "err\n", "exited")
    assert not result["signal"] and result["truncated"] is False
    assert 0 <= result["durationMs"] < stretch(5000)


# name, execution spec, what the result must have
CASES = [
    ("array, no shell", {"command": ["echo", "$HOME", "a b", "*"]}, {"stdout": "$HOME a b *\n"}),
    ("string, shell", {"command": "echo $((6*7)) | tr 4 X; false; exit 5"}, {"stdout": "X2\n", "exitCode": 5}),
    ("default directory", {"command": ["pwd"]}, {"stdout": "/workspace\n"}),
    ("cwd", {"command": ["pwd"], "cwd": "/usr/lib"}, {"stdout": "/usr/lib\n"}),
    ("env", {"command": "echo $A-$B", "env": {"A": "1", "B": "x y\nz"}}, {"stdout": "1-x y z\n"}),
    ("env over the sandbox's", {"command": ["printenv", "FROM"], "env": {"FROM": "exec"}}, {"stdout": "exec\n"}),
    ("the sandbox's env", {"command": ["printenv", "FROM"]}, {"stdout": "sandbox\n"}),
    ("HOME and user", {"command": "echo $HOME; id -un; id -u; id -g"}, {"stdout": "/home/user\nuser\n1000\n1000\n"}),
    ("root inside", {"command": "id -u; id -un; echo $HOME", "user": "root"}, {"stdout": "0\nroot\n/root\n"}),
    ("numeric user", {"command": ["id", "-u"], "user": "1000"}, {"stdout": "1000\n"}),
    ("stdin", {"command": ["cat"], "stdin": "one\ntwo"}, {"stdout": "one\ntwo"}),
    ("large stdin", {"command": ["sha256sum"], "stdin": "x" * 1_000_000},
     {"stdout": "%s  -\n" % __import__("hashlib").sha256(b"x" * 1_000_000).hexdigest()}),
    ("no stdin is empty", {"command": ["cat"]}, {"stdout": "", "exitCode": 0}),
    ("exit code", {"command": ["sh", "-c", "exit 42"]}, {"exitCode": 42, "reason": "exited"}),
    ("exit 255", {"command": "exit 255"}, {"exitCode": 255, "reason": "exited"}),
    ("not found, array", {"command": ["no-such-program"]}, {"exitCode": 127}),
    ("not found, shell", {"command": "no-such-program"}, {"exitCode": 127}),
    ("not executable", {"command": ["/etc/passwd"]}, {"exitCode": 126}),
    ("not executable, by PATH", {"command": ["passwd"], "env": {"PATH": "/nowhere:/etc:/tmp"}}, {"exitCode": 126}),
    ("a directory", {"command": ["/etc"]}, {"exitCode": 126}),
    ("killed by a signal", {"command": ["sh", "-c", "kill -KILL $$"]}, {"exitCode": 137, "reason": "signal"}),
    ("SIGSEGV", {"command": ["sh", "-c", "kill -SEGV $$"]}, {"exitCode": 139, "reason": "signal"}),
    ("the sandbox's id", {"command": "test ${#CAY_SANDBOX_ID} = 23"}, {"exitCode": 0}),
    ("UTF-8", {"command": ["printf", "grüße 🏝 %s", "日本"]}, {"stdout": "grüße 🏝 日本"}),
    ("long argument", {"command": ["sh", "-c", "printf %s \"$1\" | wc -c", "-", "y" * 100_000]}, {"stdout": "100000\n"}),
    ("tmp is writable", {"command": "echo x > /tmp/x && echo y > /dev/shm/y && cat /tmp/x /dev/shm/y"},
     {"stdout": "x\ny\n"}),
]


@pytest.fixture(scope="module")
def runner(shared_server):
    """One sandbox for the table."""
    client = shared_server.client()
    ident = client.create("runner", environmentVars={"FROM": "sandbox"}, labels=["module"])["id"]
    yield lambda spec: client.post(f"/sandbox/{ident}/exec", spec)
    client.delete(f"/sandbox/{ident}")
    client.close()


@pytest.mark.parametrize("spec, want", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_case(runner, spec, want):
    answer = runner(spec)
    assert answer.status == 200, answer
    result = answer.json()
    assert {k: result[k] for k in want} == want, result


# name, execution spec, field at fault
REFUSED = [
    ("no command", {}, "command"),
    ("empty array", {"command": []}, "command"),
    ("empty string", {"command": ""}, "command"),
    ("NUL in an argument", {"command": ["a\0b"]}, "command"),
    ("NUL in the shell line", {"command": "a\0b"}, "command"),
    ("empty program", {"command": [""]}, "command"),
    ("wrong type", {"command": 5}, "command"),
    ("wrong type within", {"command": ["echo", 5]}, "command"),
    ("argument above the kernel's bound", {"command": ["echo", "x" * 200_000]}, "command"),
    ("argv of 3 MB", {"command": ["echo"] + ["x" * 100_000] * 30}, "command"),
    ("unknown user", {"command": ["id"], "user": "nobody-here"}, "user"),
    ("pid 1's uid", {"command": ["id"], "user": "65535"}, "user"),
    ("uid above the range", {"command": ["id"], "user": "4294967296"}, "user"),
    ("negative uid", {"command": ["id"], "user": "-1"}, "user"),
    ("cwd is not there", {"command": ["pwd"], "cwd": "/no/such"}, "cwd"),
    ("cwd is a file", {"command": ["pwd"], "cwd": "/etc/passwd"}, "cwd"),
    ("cwd with NUL", {"command": ["pwd"], "cwd": "/\0"}, "cwd"),
    ("env key empty", {"command": ["env"], "env": {"": "x"}}, "env"),
    ("env key with =", {"command": ["env"], "env": {"A=B": "x"}}, "env"),
    ("env value with NUL", {"command": ["env"], "env": {"A": "x\0"}}, "env"),
    ("env value not text", {"command": ["env"], "env": {"A": 1}}, "env"),
    ("10,000 variables", {"command": ["env"], "env": {f"K{i}": "v" for i in range(10_000)}}, "env"),
    ("2 MB variable", {"command": ["env"], "env": {"A": "x" * 2_000_000}}, "env"),
    ("timeout negative", {"command": ["true"], "timeoutMs": -1}, "timeoutMs"),
    ("timeout huge", {"command": ["true"], "timeoutMs": 2**63}, "timeoutMs"),
    ("timeout as text", {"command": ["true"], "timeoutMs": "1000"}, "timeoutMs"),
    ("unknown field", {"command": ["true"], "comand": 1}, "comand"),
]


@pytest.mark.parametrize("spec, field", [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused(runner, spec, field):
    answer = runner(spec)
    assert answer.status == 400, answer
    if "\\u0000" in json.dumps(spec):
        assert answer.error["code"] == "INVALID_JSON", answer
    else:
        assert answer.error["details"]["field"].startswith(field), answer
    assert answer.json()["detail"] == answer.error["message"]


def test_no_format_of_a_program(client, box):
    client.sh("box", "echo x > /workspace/none; chmod +x /workspace/none")
    for command in (["/workspace/none"], ["none"]):
        result = client.exec("box", command, env={"PATH": "/workspace"})
        assert result["exitCode"] == 126 and "none" in result["stderr"], result


def test_no_helper_is_loaded_by_ld_preload(client, box):
    result = client.exec("box", ["echo", "fine"], env={"LD_PRELOAD": "/nowhere.so"})
    assert result["stdout"] == "fine\n"


def test_timeout(client, box):
    began = time.monotonic()
    result = client.exec("box", ["sh", "-c", "echo before; exec sleep 60"], timeoutMs=400)
    assert 0.3 < time.monotonic() - began < stretch(2)
    assert (result["reason"], result["stdout"]) == ("timeout", "before\n")
    assert result["exitCode"] == 143 and is_signal(result["signal"], signal.SIGTERM), result


def test_timeout_of_one_that_ignores_sigterm(client, box):
    result = client.exec("box", ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], timeoutMs=300)
    assert (result["reason"], result["exitCode"]) == ("timeout", 137), result


def test_oom_is_told(client):
    client.create("small", memoryGB=0.125)
    result = client.exec("small", ["python3", "-c", "b = bytearray(600 << 20); print('still here')"])
    assert (result["reason"], result["exitCode"]) == ("oom", 137), result
    assert client.sh("small", "echo lives on") == "lives on\n"


def test_a_signal_that_is_no_oom_is_not_told_as_one(client):
    client.create("calm", memoryGB=0.125)
    assert client.exec("calm", ["sh", "-c", "kill -9 $$"])["reason"] == "signal"


def test_background_children_live_on(client, box):
    began = time.monotonic()
    result = client.exec("box", f"(sleep {stretch(0.5)}; echo late > /workspace/late) & echo now")
    assert time.monotonic() - began < stretch(0.45) and result["stdout"] == "now\n"
    until(lambda: client.exec("box", ["cat", "/workspace/late"])["stdout"] == "late\n", "the child's work")


def test_orphans_are_reaped(client, box):
    client.sh("box", "for i in 1 2 3 4 5; do (setsid sleep 0.1 &); done; sleep 0.4")
    assert client.sh("box", "ps -eo stat= | grep -c Z || :").strip() == "0"


def test_detach_get_and_list(client, box):
    slow = client.detach("box", "sleep 0.3; echo done; exit 4")
    running = client.execution("box", slow)
    assert (running["id"], running["status"]) == (slow, "running")
    assert running.get("exitCode") is None
    ended = until(lambda: (e := client.execution("box", slow))["status"] == "exited" and e, "it ends")
    assert (ended["exitCode"], ended["reason"], ended["stdoutBytes"], ended["stderrBytes"]) == (4, "exited", 5, 0)
    assert ended["truncated"] is False and ended["endedAt"] >= ended["startedAt"] and ended["durationMs"] >= 250
    client.exec("box", ["true"])
    listed = client.get("/sandbox/box/exec").json()
    ids = [e["id"] for e in listed["executions"]]
    assert len(ids) == 2 and ids[1] == slow


def test_kill(client, box):
    for body, exit_code, sig in ((None, 143, signal.SIGTERM), ({"signal": "SIGKILL"}, 137, signal.SIGKILL),
                                 ({"signal": "INT"}, 130, signal.SIGINT), ({"signal": 9}, 137, signal.SIGKILL)):
        running = client.detach("box", ["sleep", "1000"])
        answer = client.post(f"/sandbox/box/exec/{running}/kill", body)
        assert answer.status in (200, 202), (body, answer)
        ended = until(lambda: (e := client.execution("box", running))["status"] == "exited" and e, f"{body} kills")
        if body is None:
            assert ended["exitCode"] in (137, 143)
        else:
            assert ended["exitCode"] == exit_code and is_signal(ended["signal"], sig), ended
        assert ended["reason"] in ("killed", "signal"), ended
        again = client.post(f"/sandbox/box/exec/{running}/kill")
        assert again.status in (404, 409) and again.error["code"] == "EXECUTION_NOT_RUNNING", again


def test_kill_refuses_nonsense(client, box):
    running = client.detach("box", ["sleep", "1000"])
    for sig in ("SIGNOPE", 0, -9, 65, 1.5, "", None, [9]):
        answer = client.post(f"/sandbox/box/exec/{running}/kill", {"signal": sig})
        if sig is None and answer.status == 200:
            continue
        assert answer.status == 400 and answer.error["details"]["field"] == "signal", (sig, answer)


def test_executions_of_another_sandbox_are_not_found(client, box):
    client.create("other")
    mine = client.exec("box", ["true"])["id"]
    for path in ("", "/output"):
        answer = client.get(f"/sandbox/other/exec/{mine}{path}")
        assert answer.status == 404 and "NOT_FOUND" in answer.error["code"], answer
    for bad in ("exec_zz", "..", "%2e%2e%2f%2e%2e", "exec_0123456789abcdef", "x" * 300):
        assert client.get(f"/sandbox/box/exec/{bad}").status in (400, 404), bad


def test_many_at_once(server, client, box):
    results = []

    def run(i):
        mine = server.client()
        results.append(mine.exec("box", ["sh", "-c", f"sleep 0.2; echo {i}"])["stdout"])
        mine.close()

    began = time.monotonic()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(fewer(40))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results, key=int) == [f"{i}\n" for i in range(len(threads))]
    assert time.monotonic() - began < stretch(6), "forty that wait held up each other"


@pytest.mark.parametrize("program, want", [
    ("node --version", r"^v20\."), ("npm --version", r"^\d+\."), ("npx --version", r"^\d+\."),
    ("python3 --version", r"^Python 3\."), ("git --version", r"^git version"), ("curl --version", r"^curl "),
    ("node -e 'console.log(1+1)'", r"^2$"), ("python3 -c 'import ssl, sqlite3; print(2)'", r"^2$"),
    ("tar --version", r"tar"), ("xz --version", r"^xz"), ("ps -e", r"PID"),
    ("cd /tmp && git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log "
     "--oneline", r"x$"),
    ("test -s /etc/ssl/certs/ca-certificates.crt && echo there", r"^there$"),
])
def test_the_default_image_has(runner, program, want):
    result = runner({"command": program}).json()
    assert result["exitCode"] == 0 and re.search(want, result["stdout"].strip(), re.M), result
