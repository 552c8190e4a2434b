# SPDX-License-Identifier: Apache-2.0
"""`cay cp` and `cay files`, as people type them."""
import os
import re
import signal
import subprocess

import pytest

from harness.server import CAY
from harness.terminal import said_to_terminal
from harness.wait import stretch, until
from test_files import workers


@pytest.fixture
def cay(server, client, box, tmp_path):
    def run(*args, stdin=b"", status=0):
        done = subprocess.run([CAY, *args], capture_output=True, timeout=stretch(60), input=stdin, cwd=tmp_path,
                              env={**os.environ, "CAY_URL": server.url})
        assert done.returncode == status, done
        assert b"\r" not in done.stderr, "no bar in a pipe"
        return done

    return run


def test_files_there_and_back(cay, client, tmp_path):
    data = os.urandom(300_000)
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "f").chmod(0o750)
    cay("cp", "f", "box:g")
    assert client.sh("box", "stat -c '%a %s %U' g") == "750 300000 user\n"
    cay("cp", "box:g", "back")
    assert (tmp_path / "back").read_bytes() == data and (tmp_path / "back").stat().st_mode & 0o777 == 0o750
    client.sh("box", "mkdir d")
    cay("cp", "f", "box:d")
    cay("cp", "f", "box:new/")
    cay("cp", "f", "box:/tmp/a/b/c")
    assert client.sh("box", "ls d new; ls -d /tmp/a/b/c") == "d:\nf\n\nnew:\nf\n/tmp/a/b/c\n"
    (tmp_path / "dir").mkdir()
    cay("cp", "box:/tmp/a/b/c", "dir")
    assert (tmp_path / "dir" / "c").read_bytes() == data
    assert list(tmp_path.glob(".cay-*")) == []


def test_directories_there_and_back(cay, client, tmp_path):
    src = tmp_path / "src"
    (src / "sub" / "empty").mkdir(parents=True)
    (src / "a").write_text("one")
    (src / "sub" / "x.sh").write_text("two")
    (src / "sub" / "x.sh").chmod(0o755)
    (src / "link").symlink_to("a")
    cay("cp", "src", "box:copy")
    cay("cp", "src/", "box:copy")  # it is there now: into it
    cay("cp", "src/.", "box:flat")
    assert client.sh("box", "find copy flat | sort | tr '\\n' ' '") == (
        "copy copy/a copy/link copy/src copy/src/a copy/src/link copy/src/sub copy/src/sub/empty copy/src/sub/x.sh copy/sub "
        "copy/sub/empty copy/sub/x.sh flat flat/a flat/link flat/sub flat/sub/empty flat/sub/x.sh ")
    cay("cp", "box:flat", "back")
    got = tmp_path / "back"
    assert (got / "a").read_text() == "one" and os.readlink(got / "link") == "a"
    assert (got / "sub" / "x.sh").stat().st_mode & 0o777 == 0o755 and (got / "sub" / "empty").is_dir()
    cay("cp", "box:flat", "back")
    assert (got / "flat" / "a").read_text() == "one"
    cay("cp", "box:flat/.", "back2")
    assert (tmp_path / "back2" / "a").exists()


def test_a_sandbox_cannot_write_elsewhere(cay, client, tmp_path):
    """What comes out of a sandbox is not believed: no link leads out, no bit gives rights away."""
    client.sh("box", "mkdir d; echo evil > d/suid; chmod 6755 d/suid; ln -s /etc d/etc; ln -s .. d/up", user="root")
    cay("cp", "-u", "root", "box:d", "got")
    st = (tmp_path / "got" / "suid").stat()
    assert st.st_mode & 0o7777 == 0o755 and st.st_uid == os.getuid()
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / "d").mkdir()
    (tmp_path / "into" / "d" / "sub").symlink_to(tmp_path)
    client.sh("box", "mkdir d/sub; echo x > d/sub/escaped", user="root")
    cay("cp", "-u", "root", "box:d", "into")
    assert not (tmp_path / "escaped").exists()


def test_links_of_ours_are_replaced(cay, client, tmp_path):
    """One that a copy brought must not lead the next copy out of where it goes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("safe")
    client.sh("box", f"mkdir d; ln -s {outside}/file d/f; ln -s {outside} d/sub; ln -s {outside}/new d/n")
    cay("cp", "box:d", "got")
    assert (tmp_path / "got" / "f").is_symlink()
    client.sh("box", "rm d/*; echo evil | tee d/f > d/n; mkdir d/sub; echo evil > d/sub/file")
    cay("cp", "box:d/f", "got/f")
    cay("cp", "box:d/n", "got")
    cay("cp", "box:d/sub", "got")
    assert (outside / "file").read_text() == "safe" and os.listdir(outside) == ["file"]
    for name in ("f", "n", "sub/file"):
        assert (tmp_path / "got" / name).read_text() == "evil\n" and not (tmp_path / "got" / name).is_symlink()
    (tmp_path / "into").symlink_to("outside")  # who names a link to a directory means the directory
    cay("cp", "box:d/n", "into")
    cay("cp", "box:d/sub", "into")
    assert (outside / "n").exists() and (outside / "sub" / "file").exists() and (tmp_path / "into").is_symlink()
    assert b"not a file" in cay("cp", "box:d/n", "/dev/stdout", status=1).stderr and os.path.islink("/dev/stdout")
    cay("files", "put", "box", "d/real", stdin=b"old")
    client.sh("box", "ln -s real d/link")
    (tmp_path / "mine").write_text("mine")
    cay("cp", "mine", "box:d/link")  # inside they are followed
    assert client.sh("box", "cat d/real; readlink d/link") == "minereal\n"


def test_cp_failures(cay, client, tmp_path):
    assert b"one of the two" in cay("cp", "a", "b", status=1).stderr
    assert b"two sandboxes" in cay("cp", "box:a", "box:b", status=1).stderr
    assert b"no such file" in cay("cp", "box:no", "x", status=1).stderr.lower()
    assert b"cannot read" in cay("cp", "no", "box:x", status=1).stderr
    (tmp_path / "f").write_text("x")
    assert b"PERMISSION_DENIED" in cay("cp", "f", "box:/etc/x", status=1).stderr
    assert b"sandbox not found" in cay("cp", "f", "nobody:x", status=1).stderr
    assert b"PERMISSION_DENIED" in cay("cp", "box:/etc/shadow", "x", status=1).stderr
    cay("cp", "box:/etc/passwd", "no/such/dir/f")
    assert (tmp_path / "no" / "such" / "dir" / "f").exists()
    client.create("small", diskSizeGB=0.1)
    (tmp_path / "big").write_bytes(b"x" * 150_000_000)
    assert b"TOO_LARGE" in cay("cp", "big", "small:f", status=1).stderr
    assert not list(tmp_path.glob(".cay-*")) and client.sh("box", "ls -A") == ""


def test_interrupted(server, client, box):
    process = subprocess.Popen([CAY, "files", "put", "box", "f"], stdin=subprocess.PIPE,
                               env={**os.environ, "CAY_URL": server.url})
    process.stdin.write(b"x" * 100000)
    process.stdin.flush()
    until(lambda: workers(server), "it has begun")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) != 0
    process.stdin.close()
    until(lambda: client.sh("box", "ls -A") == "", "nothing is left")


def test_files_verbs(cay, client):
    cay("files", "put", "box", "d/a", stdin=b"one\n")
    cay("files", "put", "-m", "0755", "box", "d/b.sh", "/etc/hostname")
    cay("files", "put", "--append", "box", "d/a", stdin=b"two\n")
    assert cay("files", "cat", "box", "d/a", "d/a").stdout == b"one\ntwo\none\ntwo\n"
    lines = cay("files", "ls", "box", "d").stdout.decode().splitlines()
    assert [(line.split("\t")[0], line.split("\t")[1], line.split("\t")[3]) for line in lines][0] == ("0644", "8", "d/a")
    assert cay("files", "ls", "-r", "box").stdout.decode().count("\n") == 3
    assert b"NOT_EMPTY" in cay("files", "rm", "box", "d", status=1).stderr
    cay("files", "rm", "-r", "box", "d")
    assert cay("files", "ls", "box").stdout == b""
    assert b"NOT_FOUND" in cay("files", "cat", "box", "d/a", status=1).stderr
    assert b"knows ls" in cay("files", "mv", "box", "a", status=1).stderr
    assert b'"size":1' in cay("files", "put", "--json", "box", "x", stdin=b"x").stdout


def test_many_pages(cay, client):
    client.sh("box", "seq 2500 | xargs touch")
    assert cay("files", "ls", "box").stdout.count(b"\n") == 2500


def test_bar_on_a_terminal(server, client, box, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 30_000_000)
    text = said_to_terminal(server, "cp", "f", "box:f", stream="stderr", cwd=tmp_path)
    assert re.search(rb"100%.*[KMG]iB/s", text), text


def test_names_that_are_no_text(cay, client, tmp_path):
    name = os.fsdecode(b"bad\xff")
    (tmp_path / name).write_text("x")
    cay("cp", name, "box:.")
    assert client.sh("box", "ls | od -An -c").split() == ["b", "a", "d", "377", "\\n"]
    cay("cp", os.fsdecode(b"box:bad\xff"), "plain")
    assert (tmp_path / "plain").read_text() == "x"
