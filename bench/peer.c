/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"
#include <stdio.h>
#include <string.h>

static void expect(struct wire *w, int status, int want, const char *what)
{
    if (status != want)
        die("%s: %d %s", what, status, wire_body(w));
}

static void cay_create(struct wire *w, const char *name, char id[128])
{
    char body[128];
    snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
    expect(w, wire_request(w, "POST", "/api/v1/sandbox", body), 201, "create");
    wire_field(w, "id", id, 128);
    if (!strstr(wire_body(w), "RUNNING"))
        die("not running: %s", wire_body(w));
}

static void cay_run(struct wire *w, const char *id)
{
    char path[256], code[16];
    snprintf(path, sizeof(path), "/api/v1/sandbox/%s/exec", id);
    expect(w, wire_request(w, "POST", path, "{\"command\":[\"/bin/true\"]}"), 200, "exec");
    wire_field(w, "exitCode", code, sizeof(code));
    if (strcmp(code, "0") != 0)
        die("exit code %s: %s", code, wire_body(w));
}

static void cay_destroy(struct wire *w, const char *id)
{
    char path[256];
    snprintf(path, sizeof(path), "/api/v1/sandbox/%s", id);
    expect(w, wire_request(w, "DELETE", path, NULL), 200, "delete");
}

static void docker_create(struct wire *w, const char *name, char id[128])
{
    char path[256];
    snprintf(path, sizeof(path), "/containers/create?name=%s", name);
    expect(w,
           wire_request(w, "POST", path,
                        "{\"Image\":\"cay-bench:1\",\"Cmd\":[\"/bin/sleep\",\"infinity\"],"
                        "\"HostConfig\":{\"NetworkMode\":\"none\"}}"),
           201, "create");
    wire_field(w, "Id", id, 128);
    snprintf(path, sizeof(path), "/containers/%s/start", id);
    expect(w, wire_request(w, "POST", path, NULL), 204, "start");
}

/* Three calls: cay's one answers the exit code too. */
static void docker_run(struct wire *w, const char *id)
{
    char path[256], exec_id[128], code[16];
    snprintf(path, sizeof(path), "/containers/%s/exec", id);
    expect(w, wire_request(w, "POST", path, "{\"Cmd\":[\"/bin/true\"],\"AttachStdout\":true}"), 201,
           "exec");
    wire_field(w, "Id", exec_id, sizeof(exec_id));
    snprintf(path, sizeof(path), "/exec/%s/start", exec_id);
    expect(w, wire_request(w, "POST", path, "{\"Detach\":false}"), 200, "exec start");
    snprintf(path, sizeof(path), "/exec/%s/json", exec_id);
    expect(w, wire_request(w, "GET", path, NULL), 200, "exec inspect");
    wire_field(w, "ExitCode", code, sizeof(code));
    if (strcmp(code, "0") != 0)
        die("exit code %s: %s", code, wire_body(w));
}

static void docker_destroy(struct wire *w, const char *id)
{
    char path[256];
    snprintf(path, sizeof(path), "/containers/%s?force=true&v=true", id);
    expect(w, wire_request(w, "DELETE", path, NULL), 204, "delete");
}

static const struct peer peers[] = {
    {"cay", cay_create, cay_run, cay_destroy},
    {"docker", docker_create, docker_run, docker_destroy},
};

const struct peer *peer_find(const char *name)
{
    for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++)
        if (strcmp(peers[i].name, name) == 0)
            return &peers[i];
    die("no peer named %s", name);
}
