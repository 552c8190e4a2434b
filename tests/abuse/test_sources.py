# SPDX-License-Identifier: Apache-2.0
"""Sources that lead where they should not, or never end: refused by the sandbox's own way out, and cut. All of it in
namespaces that the test made."""
import pytest

from harness.sources import ADDRESS, URL


@pytest.fixture(scope="module")
def options(sources):
    return sources.options()


def ask(client, source, **spec):
    return client.request("POST", "/sandbox", {"name": "src", "source": source, **spec})


def refused(server, client, source, status=422, code="SOURCE_FAILED", **spec):
    """The answer to the letter; no row, no sandbox."""
    answer = ask(client, source, **spec)
    assert (answer.status, answer.error["code"], answer.error["details"]["field"]) == (status, code, "source.url"), answer
    assert client.names() == [] and server.inits() == []
    return answer.error["message"] + ": " + answer.error["details"].get("cause", "")


@pytest.mark.parametrize("kind", ["git", "tarball"])
@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:9::9]", "meta.example", "private.example", "local.example", "host.example",
                                  "mapped.example", "10.9.9.9", "[::ffff:10.9.9.9]", "127.0.0.1", "[::1]", "192.0.2.1"])
def test_guarded(server, client, host, kind):
    """A-39: by number or by name, with a policy that is open and with none."""
    refused(server, client, {"type": kind, "url": f"https://{host}/a"})
    refused(server, client, {"type": kind, "url": f"https://{host}/a"}, networkAccess=False)


@pytest.mark.parametrize("policy", [{}, {"networkAccess": False}])
def test_rebinding(server, client, net, sources, policy):
    """A-41: the second answer is another; the address that was given and judged is dialled, or none."""
    net.tell(names={"rebound.example": [ADDRESS]})
    box = ask(client, {"type": "tarball", "url": f"https://rebound.example:8443/tar/good.tar"}, **policy)
    assert box.status == 201, box
    assert client.delete(f"/sandbox/{box.json()['id']}").status == 200
    net.tell(names={"rebound.example": ["10.9.9.9", "169.254.169.254", "127.0.0.1", "192.0.2.1"]})
    refused(server, client, {"type": "tarball", "url": "https://rebound.example:443/tar/good.tar"}, **policy)


@pytest.mark.parametrize("kind", ["plain", "meta", "file", "loop"])
def test_redirects(server, client, kind):
    """A-39: a redirect is no other way out."""
    for tool in ("curl", "node", "python3"):
        refused(server, client, {"type": "tarball", "url": f"{URL}/bad/{kind}"}, env={"CAY_FETCH_WITH": tool})
    refused(server, client, {"type": "git", "url": f"{URL}/bad/{kind}"})


def test_a_redirect_elsewhere_needs_a_policy(server, client):
    said = refused(server, client, {"type": "tarball", "url": f"{URL}/bad/elsewhere"}, networkAccess=False)
    assert "other.example" in said, said


@pytest.mark.parametrize("kind", ["git", "tarball"])
def test_never_ends(server, client, kind):
    """A-44: cut by bytes, and by time."""
    assert "more bytes" in refused(server, client, {"type": kind, "url": f"{URL}/bad/endless"}, diskSizeGB=0.1)
    assert "within 1500 ms" in refused(server, client, {"type": kind, "url": f"{URL}/bad/slow", "timeoutMs": 1500})


def test_submodules_and_lfs(server, client, sources):
    """A-44: nobody asks for what a repository names elsewhere."""
    sources.repository("sub", {"s": "sub\n"})
    sources.repository("super", {
        ".gitmodules": f'[submodule "sub"]\n\tpath = sub\n\turl = {URL}/repo/sub.git\n\tupdate = !touch /tmp/pwned\n',
        ".lfsconfig": f"[lfs]\n\turl = {URL}/lfs\n", ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        "a.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 5\n"})
    box = ask(client, {"type": "git", "url": f"{URL}/repo/super.git"})
    assert box.status == 201, box
    assert "git-lfs" in client.sh(box.json()["id"], "cat a.bin; ls /tmp; ls -A sub 2> /dev/null; true")
    assert not [line for line in sources.requests() if "sub.git" in line or "/lfs" in line]


@pytest.mark.parametrize("tool", ["curl", "node", "python3"])
@pytest.mark.parametrize("path", ["tar/page.html", "tar/nothing", "tar/cut.tar", "tar/cut.tgz", "bad/liar"])
def test_bad_archives(server, client, path, tool):
    """A-45."""
    refused(server, client, {"type": "tarball", "url": f"{URL}/{path}"}, 400, "BAD_ARCHIVE", env={"CAY_FETCH_WITH": tool})


def test_no_archive_at_all(server, client):
    assert "404" in refused(server, client, {"type": "tarball", "url": f"{URL}/tar/none"})


def test_an_archive_that_leads_out(server, client):
    """A-45: tar leaves out what would; nothing of the host is named by it in any case."""
    refused(server, client, {"type": "tarball", "url": f"{URL}/tar/up.tar"}, 400, "BAD_ARCHIVE")


def test_a_repository_that_wants_to_run_something(server, client, sources):
    """A-46: hooks, filters, a monitor of files, a repository in the repository."""
    evil = "#!/bin/sh\ntouch /tmp/pwned\n"
    sources.repository("evil", {
        "hooks/post-checkout": evil, ".githooks/post-checkout": evil, ".gitattributes": "* filter=evil\n*.c diff=evil\n",
        ".gitconfig": '[core]\n\thooksPath = .githooks\n\tfsmonitor = "touch /tmp/pwned"\n[filter "evil"]\n\tsmudge = touch /tmp/pwned\n',
        "bare/HEAD": "ref: refs/heads/main\n", "bare/config": '[core]\n\tbare = true\n\tfsmonitor = "touch /tmp/pwned"\n',
        "bare/objects/x": "", "bare/refs/x": ""})
    box = ask(client, {"type": "git", "url": f"{URL}/repo/evil.git"})
    assert box.status == 201, box
    assert "pwned" not in client.sh(box.json()["id"], "ls /tmp; ls .git/hooks 2> /dev/null; git config -l --local; cat bare/HEAD")
