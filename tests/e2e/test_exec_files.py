# SPDX-License-Identifier: Apache-2.0
"""What a command begins with: its files, its environment, its login."""
import base64
import hashlib

import pytest


def refused(client, status, code, field, **spec):
    answer = client.post("/sandbox/box/exec", {"command": "touch /workspace/ran", **spec})
    assert (answer.status, answer.error["code"]) == (status, code), answer
    assert answer.error["details"].get("field") == field
    assert client.exec("box", ["test", "-e", "/workspace/ran"])["exitCode"] == 1, "the command was not run"


def test_files_are_there_when_the_command_begins(client, box):
    every = bytes(range(256)) * 300
    files = {
        "main.py": "print(open('data/in.txt').read() + 'ü', end='')",
        "data/in.txt": "hällo ",
        "data/every": {"base64": base64.b64encode(every).decode()},
        "/tmp/absolute": "x",
        "empty": "",
    }
    assert client.exec("box", "python3 main.py || cat data/in.txt main.py", files=files)["stdout"].startswith("hällo ")
    assert client.sh("box", "sha256sum < data/every").split()[0] == hashlib.sha256(every).hexdigest()
    assert client.sh("box", "stat -c '%U %a %s' main.py empty /tmp/absolute").split("\n")[1] == "user 644 0"


def test_relative_to_cwd_with_the_users_rights(client, box):
    client.sh("box", "mkdir /tmp/there")
    result = client.exec("box", "cat made/x", cwd="/tmp/there", files={"made/x": "here"})
    assert result["stdout"] == "here"
    client.exec("box", "true", user="root", cwd="/root", files={"mine": "1"})
    assert client.sh("box", "stat -c %U /root/mine", user="root") == "root\n"
    refused(client, 403, "PERMISSION_DENIED", "files./root/other", files={"/root/other": "1"})


def test_one_that_fails_stops_the_command(client, box):
    client.sh("box", "mkdir -p /workspace/dir && echo x > /workspace/file")
    refused(client, 400, "IS_A_DIRECTORY", "files.dir", files={"first": "1", "dir": "2", "third": "3"})
    assert client.sh("box", "cat first; ls third 2>/dev/null || echo none") == "1none\n"
    refused(client, 400, "NOT_A_DIRECTORY", "files.file/x", files={"file/x": "2"})


REFUSED = [
    ("out of the directory", {"../x": ""}, "INVALID_PATH", "files.../x"),
    ("no name", {"": ""}, "INVALID_PATH", "files."),
    ("a long name", {"n" * 256: ""}, "INVALID_PATH", "files." + "n" * 41),
    ("a number", {"x": 3}, "VALIDATION_ERROR", "files.x"),
    ("no base64", {"x": {"base64": "?"}}, "VALIDATION_ERROR", "files.x"),
    ("more than base64", {"x": {"base64": "", "mode": 1}}, "VALIDATION_ERROR", "files.x"),
    ("a list", ["x"], "VALIDATION_ERROR", "files"),
    ("too many", {str(i): "" for i in range(1001)}, "VALIDATION_ERROR", "files"),
]


@pytest.mark.parametrize("files,code,field", [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused(client, box, files, code, field):
    refused(client, 400, code, field, files=files)


def test_a_wrong_directory_is_no_place_for_files(client, box):
    refused(client, 400, "VALIDATION_ERROR", "cwd", cwd="/none", files={"x": "1"})
    refused(client, 400, "VALIDATION_ERROR", "user", user="nobody-here", files={"x": "1"})
    assert client.exec("box", ["test", "-e", "/none"])["exitCode"] == 1


def test_a_thousand_files_and_megabytes(client, box):
    files = {f"many/{i}": "x" * 4096 for i in range(1000)}
    assert client.exec("box", "cat many/* | wc -c", files=files)["stdout"].strip() == str(4096 * 1000)


@pytest.mark.quota
def test_a_full_disk_is_told(client):
    client.create("small", diskSizeGB=0.1)
    client.exec("small", "head -c 200000000 /dev/zero > /workspace/fill")
    answer = client.post("/sandbox/small/exec", {"command": "true", "files": {"x": "y" * 4000000}})
    assert (answer.status, answer.error["code"], answer.error["details"]["field"]) == (507, "NO_SPACE", "files.x")


def test_environment_of_image_sandbox_and_execution(client):
    client.create("box", environmentVars={"A": "sandbox", "B": "sandbox", "HOME": "/tmp"})
    script = "echo $A $B $C $HOME ${PATH:+path} $CAY_SANDBOX_ID"
    ident = client.sandbox("box")["id"]
    assert client.sh("box", script, env={"B": "execution", "C": "c"}) == f"sandbox execution c /tmp path {ident}\n"
    assert client.sh("box", script) == f"sandbox sandbox /tmp path {ident}\n"
    path = client.sh("box", "echo $PATH").strip()
    client.create("other", environmentVars={"PATH": "/sandbox:" + path})
    assert client.sh("other", "echo $PATH").startswith("/sandbox:"), "over the image's"
    assert client.sh("other", "echo $PATH", env={"PATH": "/usr/bin:/bin"}) == "/usr/bin:/bin\n", "over the sandbox's"


def test_login_reads_the_profiles(client, box):
    client.sh("box", "echo 'export FROM_PROFILE=yes NAME=profile' > ~/.profile")
    assert client.sh("box", "echo $FROM_PROFILE.") == ".\n"
    assert client.sh("box", "echo $FROM_PROFILE. $NAME", login=True, env={"NAME": "mine"}) == "yes. profile\n"
    words = ["printf", "%s|", "$FROM_PROFILE", "two words", ""]
    assert client.sh("box", words, login=True) == "$FROM_PROFILE|two words||"
    assert client.sh("box", ["printenv", "FROM_PROFILE"], login=True) == "yes\n"
    assert client.exec("box", ["sh", "-c", "exit 7"], login=True)["exitCode"] == 7
