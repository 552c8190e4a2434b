# SPDX-License-Identifier: Apache-2.0
"""All that prime-sandboxes can do with containers, done with it as it is: `prime_tour.py sync|async off|keys`.

Run by tests/e2e/test_prime.py in an environment that has the client, with its two variables set. The asynchronous
client has the same methods, so one tour shows both; older versions lack some of them."""
import asyncio
import inspect
import json
import os
import sys
import tempfile
import uuid
from pathlib import Path

import prime_sandboxes as prime

MODE, AUTH = sys.argv[1:3]
LOOP = asyncio.new_event_loop()
IMAGE = "node:20-bookworm"


class Client:
    """Either client; whatever it returns has been awaited."""

    def __init__(self, api_key=None):
        self.of = prime.AsyncSandboxClient(api_key=api_key) if MODE == "async" else \
            prime.SandboxClient(prime.APIClient(api_key=api_key))

    def __getattr__(self, name):
        method = getattr(self.of, name)

        def call(*args, **kwargs):
            result = method(*args, **kwargs)
            return LOOP.run_until_complete(result) if inspect.isawaitable(result) else result

        return call

    def can(self, name):
        return hasattr(self.of, name)

    def close(self):
        if MODE == "async":
            LOOP.run_until_complete(self.of.aclose())


def spec(name, **more):
    fields = prime.CreateSandboxRequest.model_fields
    if "vm" in fields:
        more.setdefault("vm", False)
    return prime.CreateSandboxRequest(name=name, docker_image=IMAGE, **{k: v for k, v in more.items() if k in fields})


def raises(kind, call, *words):
    try:
        result = call()
    except kind as e:
        assert type(e) is kind or kind is Exception, f"{type(e)} {e}"
        assert all(word in str(e) for word in words), f"{e!r} says none of {words}"
        return e
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def create_and_wait(c):
    made = c.create(spec("first", cpu_cores=1, memory_gb=1, disk_size_gb=2, timeout_minutes=30, idle_timeout_minutes=20,
                         environment_vars={"FOO": "bar"}, labels=["tour", "one"]))
    c.wait_for_creation(made.id)
    one = c.get(made.id)
    assert (one.name, one.docker_image, one.status) == ("first", IMAGE, "RUNNING"), one
    assert (one.cpu_cores, one.memory_gb, one.disk_size_gb, one.gpu_count) == (1, 1, 2, 0), one
    assert one.timeout_minutes == 30 and one.labels == ["tour", "one"] and one.environment_vars == {"FOO": "bar"}, one
    assert one.start_command == "tail -f /dev/null" and one.disk_mount_path == "/workspace", one
    assert one.created_at <= one.started_at and one.updated_at and one.terminated_at is None, one
    assert getattr(one, "idle_timeout_minutes", 20) == 20 and getattr(one, "vm", False) is False, one
    return made.id


def start_commands(c):
    if not hasattr(prime, "StartCommand"):
        return
    made = c.create(spec("started", start_command=prime.StartCommand(executable="echo", args=["it's", "up"])))
    assert made.start_command == "echo 'it'\\''s' up", made
    c.wait_for_creation(made.id)
    assert c.get_logs(made.id) == "it's up\n"
    c.delete(made.id)


def the_same_again(c):
    if "idempotency_key" not in prime.CreateSandboxRequest.model_fields:
        return
    request = spec("again", idempotency_key=uuid.uuid4().hex)
    first, second = c.create(request), c.create(request)
    assert first.id == second.id
    c.delete(first.id)


def lists(c, ident):
    others = [c.create(spec(f"other-{i}", labels=["tour", f"n{i}"])).id for i in range(3)]
    if c.can("bulk_wait_for_creation"):
        assert set(c.bulk_wait_for_creation(others).values()) == {"RUNNING"}
    page = c.list(labels=["tour"], per_page=3)
    assert (page.total, page.page, page.per_page, page.has_next, len(page.sandboxes)) == (4, 1, 3, True, 3), page
    assert [s.id for s in c.list(labels=["tour"], per_page=3, page=2).sandboxes] == [ident]
    assert [s.id for s in c.list(labels=["tour", "n1"], status="RUNNING").sandboxes] == [others[1]]
    assert c.list(labels=["tour"], status="PAUSED").total == 0
    gone = c.bulk_delete(sandbox_ids=[others[0], "sb-00000000000000000000"])
    assert gone.succeeded == [others[0]] and [f["id"] for f in gone.failed] == ["sb-00000000000000000000"], gone
    assert sorted(c.bulk_delete(labels=["n1"]).succeeded) == [others[1]]
    assert c.delete(others[2])["status"] == "TERMINATED"
    assert c.list(labels=["tour"], exclude_terminated=True).total == 1
    assert c.list(labels=["tour"], exclude_terminated=False).total >= 4
    assert c.get(others[2]).status == "TERMINATED" and c.get(others[2]).terminated_at


def names(c, _):
    """Many may have the same one, in any letters."""
    made = [c.create(spec(name)) for name in ("Sandbox Env_1", "Sandbox Env_1", "bulk", "x" * 80, "x" * 80, "--")]
    assert made[0].name == "sandbox-env-1" and made[1].name.startswith("sandbox-env-1-"), made
    assert made[2].name.startswith("bulk-") and made[3].name == "x" * 63 and made[4].name.startswith("x" * 54 + "-"), made
    assert len({m.id for m in made}) == len({m.name for m in made}) == 6
    assert sorted(c.bulk_delete(sandbox_ids=[m.id for m in made]).succeeded) == sorted(m.id for m in made)


def statuses(c, ident):
    if not c.can("get_sandbox_statuses"):
        return
    found = c.get_sandbox_statuses([ident, "sb-00000000000000000000"])
    assert [(s.sandbox_id, s.status.value, s.error_type) for s in found.statuses] == [(ident, "RUNNING", None)], found
    assert [(e.sandbox_id, e.code) for e in found.errors] == [("sb-00000000000000000000", "NOT_FOUND")], found


def commands(c, ident):
    done = c.execute_command(ident, "echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 3), done
    done = c.execute_command(ident, 'echo "$PWD $FOO $BAR"', working_dir="/tmp", env={"BAR": "höher"})
    assert done.stdout == "/tmp bar höher\n" and done.exit_code == 0, done
    assert c.execute_command(ident, "kill -9 $$").exit_code == 137
    assert c.execute_command(ident, r"printf 'a\377b'").stdout == "a�b"
    large = c.execute_command(ident, "seq 200000")
    assert large.stdout == "".join(f"{i}\n" for i in range(1, 200001))
    raises(prime.CommandTimeoutError, lambda: c.execute_command(ident, "sleep 100", timeout=1), "timed out after 1s")
    if "user" in inspect.signature(c.of.execute_command).parameters:
        assert c.execute_command(ident, "id -un", user="root").stdout == "root\n"
    raises(prime.APIError, lambda: c.execute_command(ident, "true", working_dir="/no/such"), "HTTP 4")


def jobs(c, ident):
    job = c.start_background_job(ident, 'echo "$PWD $X"; echo e >&2; sleep 0.3; exit 5', working_dir="/tmp", env={"X": "y z"})
    while not (status := c.get_background_job(ident, job)).completed:
        pass
    assert (status.exit_code, status.stdout, status.stderr) == (5, "/tmp y z\n", "e\n"), status
    assert not getattr(status, "stdout_truncated", False), status
    quiet = c.start_background_job(ident, "true")
    while not (status := c.get_background_job(ident, quiet)).completed:
        pass
    assert (status.exit_code, status.stdout, status.stderr) == (0, "", ""), status
    if c.can("run_background_job"):
        status = c.run_background_job(ident, "head -c 11000000 /dev/zero | tr '\\0' x; echo end", timeout=60, poll_interval=1)
        kept = 10 << 20 if hasattr(status, "stdout_truncated") else 11000004  # older ones read all
        assert len(status.stdout) == kept and status.stdout.endswith("xend\n"), len(status.stdout)
        assert getattr(status, "stdout_truncated", True), status.exit_code


def files(c, ident):
    data = bytes(range(256)) * 5000
    with tempfile.TemporaryDirectory() as there:
        local, back = Path(there, "local file.bin"), Path(there, "new", "back.bin")
        local.write_bytes(data)
        done = c.upload_file(ident, "/workspace/deep/er/ä b.bin", str(local))
        assert done.success and done.path == "/workspace/deep/er/ä b.bin" and done.size == len(data) and done.timestamp
        c.download_file(ident, "/workspace/deep/er/ä b.bin", str(back))
        assert back.read_bytes() == data
        raises(prime.APIError, lambda: c.download_file(ident, "/workspace/none", str(back)), "Download failed", "404")
        assert c.upload_bytes(ident, "/workspace/text", "grüße\n".encode(), "any.txt").size == 8
        assert c.upload_bytes(ident, "relative", b"", "empty").size == 0
        c.download_file(ident, "/workspace/relative", str(back))
        assert back.read_bytes() == b""
        raises(prime.APIError, lambda: c.upload_bytes(ident, "/proc/no", b"x", "x"), "Upload failed")
    assert c.execute_command(ident, "cat /workspace/text").stdout == "grüße\n"


def windows(c, ident):
    if not c.can("read_file"):
        return
    whole = c.read_file(ident, "/workspace/text")
    assert (whole.content, whole.size) == ("grüße\n", 8), whole
    if "offset" not in inspect.signature(c.of.read_file).parameters:
        return
    assert (whole.total_size, whole.offset, whole.truncated) == (8, 0, False), whole
    cases = [({"offset": 6}, "e\n"), ({"length": 2}, "gr"), ({"offset": -3, "length": 1}, "\ufffd"),
             ({"offset": -100}, "grüße\n"), ({"offset": 8}, ""), ({"offset": 100, "length": 5}, ""), ({"length": 0}, "")]
    for window, content in cases:
        got = c.read_file(ident, "/workspace/text", **window)
        assert got.content == content and got.total_size == 8, (window, got)
        assert got.truncated == (got.size < 8), (window, got)
    assert c.read_file(ident, "/workspace/relative", offset=-10, length=10).content == ""
    raises(prime.SandboxFileNotFoundError, lambda: c.read_file(ident, "/workspace/none"))
    c.execute_command(ident, "yes 'ä€𝄞' | head -c 40000000 > big")
    raises(prime.SandboxFileTooLargeError, lambda: c.read_file(ident, "/workspace/big"))
    part = c.read_file(ident, "/workspace/big", offset=10 * 100000, length=10 * 300000)
    assert part.content == "ä€𝄞\n" * 300000 and part.size == 3000000 and part.total_size == 40000000


def logs(c):
    made = c.create(spec("chatty", start_command="echo hello; echo there >&2; sleep 1000"))
    c.wait_for_creation(made.id)
    while c.get_logs(made.id).count("\n") < 2:
        pass
    assert c.get_logs(made.id) == "hello\nthere\n"
    c.delete(made.id)


def network(c, ident):
    """Passed over as long as the server has no policies for outgoing connections."""
    if not c.can("set_network"):
        return
    try:
        before = c.get_network(ident).generation
    except prime.APIError as e:
        assert "no such path" in str(e), e
        return
    status = c.set_network(ident, allow=["pypi.org", "*.debian.org"])
    assert status.policy.allowlist == ["pypi.org", "*.debian.org"] and status.policy.denylist is None, status
    assert status.generation == before + 1, status
    assert c.set_network(ident, deny=["*"]).policy.allowlist == []
    status = c.set_network(ident, allow=["*"])
    assert status.policy.denylist == [] and status.policy.allowlist is None and status.generation == before + 3, status
    assert c.get_network(ident).policy == status.policy
    made = c.create(spec("netted", vm=None, network_denylist=["10.0.0.0/8", "a.org"]))
    assert made.network_denylist == ["10.0.0.0/8", "a.org"] and made.network_allowlist is None, made
    c.delete(made.id)


def errors(c, ident):
    raises(prime.APIError, lambda: c.get("nobody"), "HTTP 404: sandbox not found")
    raises(prime.APIError, lambda: c.delete("nobody"), "HTTP 404")
    raises(prime.APIError, lambda: c.create(spec("x", memory_gb=1000000)), "HTTP 400: memory")
    unknown = spec("x")
    unknown.docker_image = "no/such:image"
    raises(prime.APIError, lambda: c.create(unknown), "HTTP 404: ")
    raises(prime.APIError, lambda: c.execute_command("nobody", "true"), "HTTP 404")
    raises(prime.APIError, lambda: c.bulk_delete(), "HTTP 400")
    raises(prime.APIError, lambda: c.list(per_page=1001), "HTTP 400")
    if AUTH == "keys":
        stranger = Client("cay_0000")
        raises(prime.UnauthorizedError, lambda: stranger.get(ident))
        stranger.close()


def a_stale_token(c, ident):
    """What is kept in the client's own file is asked for again when it does not open any more."""
    cache = Path.home() / ".prime" / "sandbox_auth_cache.json"
    kept = json.loads(cache.read_text())
    kept[ident]["token"] = kept[ident]["token"][:-1] + "x"
    cache.write_text(json.dumps(kept))
    other = Client()
    if AUTH == "off" or c.can("_should_retry_401"):  # older ones do not ask again
        assert other.execute_command(ident, "echo in").stdout == "in\n"
    other.close()


def the_end(c, ident):
    c.delete(ident)
    # The first did not ask why, those after them not at an upload.
    tells = c.can("_get_sandbox_error_context"), c.can("_should_retry_409")
    calls = (lambda: c.execute_command(ident, "true"), lambda: c.upload_bytes(ident, "x", b"", "x"))
    for told, call in zip(tells, calls):
        error = raises(prime.SandboxNotRunningError if told else prime.APIError, call)
        assert not told or (error.status, error.error_type) == ("TERMINATED", None), vars(error)
    c.clear_auth_cache()


def main():
    c = Client()
    ident = create_and_wait(c)
    for step in (start_commands, the_same_again, logs):
        step(c)
    for step in (lists, names, statuses, commands, jobs, files, windows, network, errors, a_stale_token, the_end):
        step(c, ident)
        print(step.__name__, flush=True)
    c.close()
    print("toured", prime.__version__, MODE, os.environ["PRIME_API_BASE_URL"])


main()
