# SPDX-License-Identifier: Apache-2.0
"""Document 004, pasted: its curl lines in order, as a reader of it would run them."""
import json
import re
import subprocess
from urllib.parse import urlsplit

import pytest

from harness.wait import stretch

# What recipes make takes its time: here the images are those that every test has.
ALIASES = {"node:18-alpine": "node:20-bookworm", "@ai-sandbox/python": "node:20-bookworm"}


@pytest.fixture(scope="module")
def options():
    return [*(word for pair in ALIASES.items() for word in ("--alias", "=".join(pair))), "--pull", "never"]


# §13, to the letter but for the port, and the two ids of its example, which are those that came.
CREATE = r"""
CONTAINER_ID=$(curl -s -X POST http://localhost:3000/api/sandbox \
  -H "Content-Type: application/json" \
  -d '{
    "image": "node:18-alpine",
    "options": {
      "timeout": 120000,
      "memoryLimit": "256m"
    }
  }' | jq -r '.containerId')

echo "Container ID: $CONTAINER_ID"
"""
RUN = r"""
# First execution - creates initial files and commits them
curl -s -X POST http://localhost:3000/api/sandbox/exec \
  -H "Content-Type: application/json" \
  -d '{
    "containerId": "'"$CONTAINER_ID"'",
    "files": {
      "index.js": "console.log(\"Version 1\");"
    },
    "command": ["node", "index.js"]
  }'
echo
# Second execution - modifies files and creates a new commit
curl -s -X POST http://localhost:3000/api/sandbox/exec \
  -H "Content-Type: application/json" \
  -d '{
    "containerId": "'"$CONTAINER_ID"'",
    "files": {
      "index.js": "console.log(\"Version 2\");\nconsole.log(\"New feature added!\");"
    },
    "command": ["node", "index.js"]
  }'
"""
HISTORY = r"""
curl -s -X GET http://localhost:3000/api/sandbox/$CONTAINER_ID/history \
  -H "Content-Type: application/json"
"""
DIFF = r"""
curl -s -X POST http://localhost:3000/api/sandbox/$CONTAINER_ID/diff \
  -H "Content-Type: application/json" \
  -d '{
    "fromExecId": "exec_7683de5a",
    "toExecId": "exec_8794fe6b"
  }'
"""
ROLLBACK = r"""
curl -s -X POST http://localhost:3000/api/sandbox/$CONTAINER_ID/rollback \
  -H "Content-Type: application/json" \
  -d '{
    "executionId": "exec_7683de5a"
  }'
echo
# Execute code after rollback to verify
curl -s -X POST http://localhost:3000/api/sandbox/exec \
  -H "Content-Type: application/json" \
  -d '{
    "containerId": "'"$CONTAINER_ID"'",
    "command": ["node", "index.js"]
  }'
"""


class Shell:
    def __init__(self, server):
        self.port = str(urlsplit(server.url).port)
        self.names = {}

    def __call__(self, script, **ids):
        for name, value in {"localhost:3000": f"localhost:{self.port}", **ids}.items():
            script = script.replace(name, value)
        script = "".join(f"{k}={v}\n" for k, v in self.names.items()) + script
        done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", script], capture_output=True, text=True,
                              timeout=stretch(60))
        assert done.returncode == 0, done
        return done.stdout


def test_section_13(server):
    sh = Shell(server)
    out = sh(CREATE)
    ident = re.fullmatch(r"Container ID: (sb-[a-z0-9]{20})\n", out)[1]
    sh.names["CONTAINER_ID"] = ident

    first, second = (json.loads(line) for line in sh(RUN).splitlines())
    assert (first["status"], first["stdout"], first["stderr"]) == ("success", "Version 1\n", "")
    assert (second["status"], second["stdout"]) == ("success", "Version 2\nNew feature added!\n")
    assert isinstance(first["duration"], int) and first["exitCode"] == 0

    history = json.loads(sh(HISTORY))["history"]
    assert [(v["id"], v["message"], v["files"]) for v in history] == [
        (second["id"], "Update files for sandbox execution", ["index.js"]),
        (first["id"], "Update files for sandbox execution", ["index.js"]),
        ("unknown", "Initial commit", ["README.md"]),
    ]
    for v in history:
        assert list(v) == ["id", "commitId", "timestamp", "message", "files"]
        assert re.fullmatch(r"[0-9a-f]{40}", v["commitId"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", v["timestamp"])

    ids = {"exec_7683de5a": first["id"], "exec_8794fe6b": second["id"]}
    diff = json.loads(sh(DIFF, **ids))
    assert list(diff) == ["diff"] and list(diff["diff"]) == ["index.js"]
    text = re.sub(r"^index [0-9a-f]{7}\.\.[0-9a-f]{7} ", "index abc1234..def5678 ", diff["diff"]["index.js"], flags=re.M)
    assert text == ("diff --git a/index.js b/index.js\nindex abc1234..def5678 100644\n--- a/index.js\n+++ b/index.js\n"
                    "@@ -1 +1,2 @@\n-console.log(\"Version 1\");\n+console.log(\"Version 2\");\n"
                    "+console.log(\"New feature added!\");\n")

    back, again = (json.loads(line) for line in sh(ROLLBACK, **ids).splitlines())
    assert back["executionId"] == first["id"]
    assert (again["status"], again["stdout"]) == ("success", "Version 1\n")
    assert len(json.loads(sh(HISTORY))["history"]) == 4, "what was is kept"


def post(client, path, body):
    return client.request("POST", "/api/sandbox" + path, body)


def test_section_4(client):
    """The example bodies of §4, and answers with their members."""
    made = post(client, "", {"image": "@ai-sandbox/python",
                             "options": {"timeout": 30000, "memoryLimit": "512m", "cpuLimit": "0.5"}})
    assert made.status == 201, made
    made = made.json()
    assert made["status"] == "created"
    for key in ("createdAt", "expiresAt"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made[key])
    ident = made["containerId"]
    client.exec(ident, ["ln", "-s", "/usr/bin/python3", "/usr/local/bin/python"], user="root")  # that recipe has it
    run = post(client, "/exec", {"containerId": ident, "command": ["python", "main.py"],
                                 "files": {"main.py": "print('hello world')", "data/input.txt": "sample data"}}).json()
    assert (run["status"], run["stdout"], run["stderr"]) == ("success", "hello world\n", "")
    got = client.get(f"/api/sandbox/{ident}").json()
    assert got["containerId"] == ident and got["status"] == "running"
    assert re.fullmatch(r"\d+(\.\d+)?", got["resourceUsage"]["cpuUsage"])
    assert re.fullmatch(r"\d+(\.\d+)?m", got["resourceUsage"]["memoryUsage"])
    assert got["limits"] == {"cpuLimit": "0.5", "memoryLimit": "512m", "timeout": 30000}
    assert client.request("DELETE", f"/api/sandbox/{ident}").json() == {"status": "deleted", "containerId": ident}


def test_section_7(client):
    answer = post(client, "", {"image": "@ai-sandbox/cobol"})
    assert answer.json() == {"error": {"code": "CONTAINER_CREATION_FAILED",
                                       "message": "Failed to create container from image",
                                       "details": {"cause": "Image not found: @ai-sandbox/cobol"}}}
    assert answer.status == 404
    assert client.names() == []
