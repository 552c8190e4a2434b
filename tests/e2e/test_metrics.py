# SPDX-License-Identifier: Apache-2.0
"""What the operator sees: /metrics and one line of JSON for each request."""
import json
import re
import signal
from pathlib import Path

import pytest

from harness.wait import until

SAMPLE = re.compile(r'^([a-z_]+)(\{([a-z_]+="[^"\\\n]*"(,[a-z_]+="[^"\\\n]*")*)\})? (-?[0-9.]+)$')


def plain(client, path):
    conn = client.connect()
    conn.request("GET", path)
    answer = conn.getresponse()
    body = answer.read().decode()
    conn.close()
    assert answer.status == 200, body
    return answer.headers, body


def metrics(client):
    """{series: value}; every line must be one that a scraper takes."""
    headers, text = plain(client, "/metrics")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    types, values = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} comes twice"
            types[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.match(line)
            assert match, f"no sample: {line!r}"
            family = re.sub("_(bucket|sum|count)$", "", match[1]) if match[1] not in types else match[1]
            assert family in types, f"{line!r} belongs to no family"
            series = line.rpartition(" ")[0]
            assert series not in values, f"{series} comes twice"
            values[series] = float(match[5])
    return values


def requests(route, method, status):
    return f'cay_http_requests_total{{route="/api/v1{route}",method="{method}",status="{status}"}}'


def test_one_life_is_counted(client):
    before = metrics(client)
    client.create("counted")
    assert metrics(client)['cay_sandboxes{state="RUNNING"}'] == 1
    client.sh("counted", "true")
    client.post("/sandbox/counted/stop", {"graceMs": 0})
    assert metrics(client)['cay_sandboxes{state="STOPPED"}'] == 1
    assert client.get("/sandbox/nobody").status == 404
    client.delete("/sandbox/counted")
    last = requests("/sandbox/{id}", "DELETE", "2xx")
    until(lambda: metrics(client).get(last, 0) > before.get(last, 0), "what was answered last is counted")
    after = metrics(client)

    def rose(series):
        return after[series] - before.get(series, 0)

    for series in (requests("/sandbox", "POST", "2xx"), requests("/sandbox/{id}/exec", "POST", "2xx"),
                   requests("/sandbox/{id}", "GET", "4xx"), requests("/sandbox/{id}", "DELETE", "2xx"),
                   'cay_operation_duration_seconds_count{operation="create"}',
                   'cay_operation_duration_seconds_count{operation="delete"}',
                   "cay_executions_begun_total"):
        assert rose(series) == 1, series
    assert rose('cay_operation_duration_seconds_sum{operation="create"}') > 0
    assert rose("cay_store_commits_total") >= 3 and rose("cay_store_syncs_total") >= 3
    assert after['cay_sandboxes{state="RUNNING"}'] == after['cay_sandboxes{state="STOPPED"}'] == 0
    assert not any("nobody" in series or "counted" in series for series in after)


def test_histograms_add_up(client):
    client.get("/sandbox")
    values = metrics(client)
    counts = [s for s in values if s.startswith("cay_http_request_duration_seconds_count")]
    assert counts
    for series in counts:
        labels = series.partition("{")[2].rstrip("}")
        buckets = [v for s, v in values.items()
                   if s.startswith(f"cay_http_request_duration_seconds_bucket{{{labels},le=")]
        assert len(buckets) == 16 and buckets == sorted(buckets) and buckets[-1] == values[series]


def test_engine_and_process(server, client):
    values = metrics(client)
    pid = server.pid("server")
    assert values["cay_provider_up"] == 1
    status = Path(f"/proc/{pid}/status").read_text()
    assert values["process_threads"] == int(re.search(r"Threads:\s+(\d+)", status)[1])
    assert abs(values["process_resident_memory_bytes"] / 1024 - int(re.search(r"VmRSS:\s+(\d+)", status)[1])) < 16384
    assert values["process_open_fds"] > 5 and values["process_max_fds"] > 1000


@pytest.mark.native("nothing is made ahead of a create there")
def test_the_pool(client):
    size = metrics(client)["cay_pool_size"]
    assert size > 0
    until(lambda: metrics(client)["cay_pool_ready"] == size, "the pool is filled")


def test_streams_are_counted_while_they_last(client, box):
    exec_id = client.detach("box", "sleep 1000")
    before = metrics(client)["cay_http_streams"]
    with client.events("GET", f"/sandbox/box/exec/{exec_id}/output"):
        assert metrics(client)["cay_http_streams"] == before + 1
    until(lambda: metrics(client)["cay_http_streams"] == before, "it is closed")


def test_the_engine_is_away(fresh):
    server = fresh().start()
    client = server.client()
    assert metrics(client)["cay_provider_up"] == 1
    server.kill("engine", signal.SIGSTOP)
    values = metrics(client)
    assert values["cay_provider_up"] == 0 and "cay_pool_ready" not in values
    assert 'cay_sandboxes{state="RUNNING"}' in values, "the rest is told all the same"
    server.kill("engine", signal.SIGCONT)
    assert metrics(client)["cay_provider_up"] == 1
    client.close()


def lines_of(server, request_id, count=1):
    """They are written once the answer is out."""
    def found():
        with open(server.log_path, errors="replace") as log:
            return [json.loads(line) for line in log if request_id in line and line.endswith("\n")]

    until(lambda: len(found()) >= count, f"{count} lines about {request_id}")
    return found()


def test_a_line_for_each_request(server, client):
    answer = client.post("/sandbox", {"name": "logged", "env": {"PASSWORD": "open-sesame"}})
    made = answer.json()
    [line] = lines_of(server, answer.headers["X-Request-Id"])
    assert line.pop("time") and line.pop("ms") > 0
    assert line == {"level": "info", "who": "server", "msg": "request", "request": answer.headers["X-Request-Id"],
                    "method": "POST", "status": 201, "peer": "127.0.0.1", "account": "local", "sandbox": made["id"],
                    "route": "/api/v1/sandbox", "path": "/api/v1/sandbox"}
    answer = client.request("DELETE", "/sandbox/nobody", query={"token": "hush-hush"})
    [line] = lines_of(server, answer.headers["X-Request-Id"])
    assert line["status"] == 404 and line["sandbox"] == "nobody" and line["route"] == "/api/v1/sandbox/{id}"
    client.exec("logged", "true", env={"KEY": "open-sesame"})
    log = Path(server.log_path).read_text()
    assert "open-sesame" not in log and "hush-hush" not in log


def test_reads_are_logged_for_those_who_look_closely(fresh):
    for level, count in ((None, 0), ("debug", 1)):
        server = fresh(env={"CAY_LOG_LEVEL": level} if level else None).start()
        client = server.client()
        answer = client.get("/sandbox", token="hush-hush")
        last = client.get("/sandbox/nobody")  # by the same worker or another; its line is there in any case
        lines_of(server, last.headers["X-Request-Id"])
        assert len(lines_of(server, answer.headers["X-Request-Id"], count)) == count
        assert "hush-hush" not in Path(server.log_path).read_text()
        client.close()


def test_a_path_cannot_forge_a_line(server, client):
    client.raw(b'DELETE /x"%0a{"msg":"forged"} HTTP/1.1\r\nHOSTConnection: close\r\n\r\n')
    client.raw(b"DELETE /" + b"y" * 8000 + b" HTTP/1.1\r\nHOSTConnection: close\r\n\r\n")

    def lines():
        with open(server.log_path, errors="replace") as log:
            return [line for line in log if line.startswith("{") and line.endswith("\n")]

    until(lambda: any("yyyy" in line for line in lines()), "both are logged")
    parsed = [json.loads(line) for line in lines()]
    assert all(line["msg"] != "forged" for line in parsed)
    [long] = [line for line in parsed if "yyyy" in line.get("path", "")]
    assert len(long["path"]) <= 2048
