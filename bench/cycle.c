/* SPDX-License-Identifier: Apache-2.0 */
/* cycle PEER WHAT ADDRESS CLIENTS COUNT [SECONDS]: times sandboxes through a peer's API.
 *
 * PEER is cay or docker (Docker Engine API). WHAT is `cycle` (create until it runs, run `true` and
 * learn its exit code, delete), `create` (only the first part is timed) or `exec` (only the middle
 * part, in one sandbox for each client, made before all begin together). After SECONDS no further
 * round begins. */
#include "peer.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CLIENTS 64

enum what { CYCLE, CREATE, EXEC };

struct client {
    const struct peer *peer;
    struct wire wire;
    pthread_t thread;
    enum what what;
    int number, count, done;
    uint64_t seconds, began_ns, ended_ns;
    uint64_t *ns;
};

static pthread_barrier_t together;

/* Nanoseconds of the part that counts. */
static uint64_t round_of(struct client *c, const char *name, char id[128])
{
    uint64_t began = now_ns(), took = 0;
    if (c->what != EXEC)
        c->peer->create(&c->wire, name, id);
    if (c->what == CREATE)
        took = now_ns() - began;
    else
        c->peer->run(&c->wire, id);
    if (c->what != EXEC)
        c->peer->destroy(&c->wire, id);
    return took ? took : now_ns() - began;
}

static void *drive(void *arg)
{
    struct client *c = arg;
    char id[128], name[64];
    snprintf(name, sizeof(name), "bench-%d-%d", (int)getpid(), c->number);
    if (c->what == EXEC)
        c->peer->create(&c->wire, name, id);
    pthread_barrier_wait(&together);
    c->began_ns = now_ns();
    while (c->done < c->count && now_ns() < c->began_ns + c->seconds * 1000000000u)
        c->ns[c->done++] = round_of(c, name, id);
    c->ended_ns = now_ns();
    if (c->what == EXEC)
        c->peer->destroy(&c->wire, id);
    return NULL;
}

static enum what find_what(const char *name)
{
    static const char *const names[] = {"cycle", "create", "exec"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return (enum what)i;
    die("%s is none of cycle, create and exec", name);
}

/* Rounds that a deadline kept from beginning are no times. */
static size_t gather(const struct client *all, int clients, uint64_t *ns)
{
    size_t count = 0;
    for (int i = 0; i < clients; i++) {
        memmove(ns + count, all[i].ns, (size_t)all[i].done * sizeof(*ns));
        count += (size_t)all[i].done;
    }
    return count;
}

static uint64_t wall_ns(const struct client *all, int clients)
{
    uint64_t began = UINT64_MAX, ended = 0;
    for (int i = 0; i < clients; i++) {
        began = all[i].began_ns < began ? all[i].began_ns : began;
        ended = all[i].ended_ns > ended ? all[i].ended_ns : ended;
    }
    return ended - began;
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc > 7)
        die("usage: cycle cay|docker cycle|create|exec ADDRESS CLIENTS COUNT [SECONDS]");
    int clients = (int)strtol(argv[4], NULL, 10), count = (int)strtol(argv[5], NULL, 10);
    if (clients < 1 || clients > MAX_CLIENTS || count < 1)
        die("1 to %d clients, at least 1 round", MAX_CLIENTS);
    uint64_t *ns = calloc((size_t)clients * (size_t)count, sizeof(*ns));
    struct client *all = calloc((size_t)clients, sizeof(*all));
    if (!ns || !all || pthread_barrier_init(&together, NULL, (unsigned)clients) != 0)
        die("out of memory");
    uint64_t seconds = argc == 7 ? strtoul(argv[6], NULL, 10) : 3600;
    for (int i = 0; i < clients; i++) {
        all[i] = (struct client){.peer = peer_find(argv[1]),
                                 .wire = {.address = argv[3], .fd = -1},
                                 .what = find_what(argv[2]),
                                 .number = i,
                                 .count = count,
                                 .seconds = seconds,
                                 .ns = ns + (size_t)i * (size_t)count};
        if (pthread_create(&all[i].thread, NULL, drive, &all[i]) != 0)
            die("no thread");
    }
    for (int i = 0; i < clients; i++)
        pthread_join(all[i].thread, NULL);
    print_times(ns, gather(all, clients, ns), wall_ns(all, clients));
    free(all);
    free(ns);
    return 0;
}
