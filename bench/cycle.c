/* SPDX-License-Identifier: Apache-2.0 */
/* cycle PEER WHAT ADDRESS CLIENTS COUNT: times sandboxes through a peer's API.
 *
 * PEER is cay or docker (Docker Engine API). WHAT is `cycle` (create until it runs, run `true` and
 * learn its exit code, delete) or `exec` (only the middle part, in one sandbox made before). */
#include "wire.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CLIENTS 64

struct peer {
    const char *name;
    void (*create)(struct wire *w, const char *name, char id[128]);
    void (*run)(struct wire *w, const char *id);
    void (*destroy)(struct wire *w, const char *id);
};

struct client {
    const struct peer *peer;
    struct wire wire;
    pthread_t thread;
    int number, count;
    bool exec_only;
    uint64_t *ns;
};

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

static void *drive(void *arg)
{
    struct client *c = arg;
    char id[128], name[64];
    snprintf(name, sizeof(name), "bench-%d-%d", (int)getpid(), c->number);
    if (c->exec_only)
        c->peer->create(&c->wire, name, id);
    for (int i = 0; i < c->count; i++) {
        uint64_t began = now_ns();
        if (!c->exec_only)
            c->peer->create(&c->wire, name, id);
        c->peer->run(&c->wire, id);
        if (!c->exec_only)
            c->peer->destroy(&c->wire, id);
        c->ns[i] = now_ns() - began;
    }
    if (c->exec_only)
        c->peer->destroy(&c->wire, id);
    return NULL;
}

static const struct peer *find_peer(const char *name)
{
    for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++)
        if (strcmp(peers[i].name, name) == 0)
            return &peers[i];
    die("no peer named %s", name);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        die("usage: cycle cay|docker cycle|exec ADDRESS CLIENTS COUNT");
    int clients = (int)strtol(argv[4], NULL, 10), count = (int)strtol(argv[5], NULL, 10);
    if (clients < 1 || clients > MAX_CLIENTS || count < 1)
        die("1 to %d clients, at least 1 round", MAX_CLIENTS);
    uint64_t *ns = calloc((size_t)clients * (size_t)count, sizeof(*ns));
    struct client *all = calloc((size_t)clients, sizeof(*all));
    if (!ns || !all)
        die("out of memory");
    uint64_t began = now_ns();
    for (int i = 0; i < clients; i++) {
        all[i] = (struct client){.peer = find_peer(argv[1]),
                                 .wire = {.address = argv[3], .fd = -1},
                                 .number = i,
                                 .count = count,
                                 .exec_only = strcmp(argv[2], "exec") == 0,
                                 .ns = ns + (size_t)i * (size_t)count};
        if (pthread_create(&all[i].thread, NULL, drive, &all[i]) != 0)
            die("no thread");
    }
    for (int i = 0; i < clients; i++)
        pthread_join(all[i].thread, NULL);
    print_times(ns, (size_t)clients * (size_t)count, now_ns() - began);
    free(all);
    free(ns);
    return 0;
}
