/* SPDX-License-Identifier: Apache-2.0 */
/* many PEER create ADDRESS CLIENTS COUNT FILE: makes COUNT sandboxes, CLIENTS at a time.
 * many PEER delete ADDRESS CLIENTS COUNT FILE: deletes those that FILE names.
 *
 * All clients are connected before the first one asks. Prints the times of the requests; wall_ms is
 * from the first request to the last answer. FILE gets an id a line. */
#include "peer.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CLIENTS 256
#define ID_SIZE 128

static struct {
    const struct peer *peer;
    bool create;
    atomic_int next;
    int count;
    char (*ids)[ID_SIZE];
    uint64_t *ns;
    pthread_barrier_t ready;
} work;

struct client {
    struct wire wire;
    pthread_t thread;
};

static void *drive(void *arg)
{
    struct client *c = arg;
    char name[64];
    wire_connect(&c->wire);
    pthread_barrier_wait(&work.ready);
    for (int i; (i = atomic_fetch_add(&work.next, 1)) < work.count;) {
        uint64_t began = now_ns();
        snprintf(name, sizeof(name), "many-%d-%d", (int)getpid(), i);
        if (work.create)
            work.peer->create(&c->wire, name, work.ids[i]);
        else
            work.peer->destroy(&c->wire, work.ids[i]);
        work.ns[i] = now_ns() - began;
    }
    return NULL;
}

static void read_ids(const char *path)
{
    FILE *f = fopen(path, "re");
    if (!f)
        die("%s: %s", path, strerror(errno));
    int n = 0;
    while (n < work.count && fgets(work.ids[n], ID_SIZE, f)) {
        work.ids[n][strcspn(work.ids[n], "\n")] = '\0';
        n++;
    }
    work.count = n;
    fclose(f);
}

static void write_ids(const char *path)
{
    FILE *f = fopen(path, "we");
    for (int i = 0; f && i < work.count; i++)
        fprintf(f, "%s\n", work.ids[i]);
    if (!f || fclose(f) != 0)
        die("%s: %s", path, strerror(errno));
}

/* From when all are connected. */
static uint64_t run(struct client *all, int clients, const char *address)
{
    if (pthread_barrier_init(&work.ready, NULL, (unsigned)clients + 1) != 0)
        die("no barrier");
    for (int i = 0; i < clients; i++) {
        all[i].wire = (struct wire){.address = address, .fd = -1};
        if (pthread_create(&all[i].thread, NULL, drive, &all[i]) != 0)
            die("no thread");
    }
    pthread_barrier_wait(&work.ready);
    uint64_t began = now_ns();
    for (int i = 0; i < clients; i++)
        pthread_join(all[i].thread, NULL);
    return now_ns() - began;
}

int main(int argc, char **argv)
{
    int clients = argc == 7 ? (int)strtol(argv[4], NULL, 10) : 0;
    work.count = argc == 7 ? (int)strtol(argv[5], NULL, 10) : 0;
    if (clients < 1 || clients > MAX_CLIENTS || work.count < 1)
        die("usage: many cay|docker create|delete ADDRESS CLIENTS COUNT FILE");
    work.peer = peer_find(argv[1]);
    work.create = strcmp(argv[2], "create") == 0;
    work.ids = calloc((size_t)work.count, sizeof(*work.ids));
    work.ns = calloc((size_t)work.count, sizeof(*work.ns));
    struct client *all = calloc((size_t)clients, sizeof(*all));
    if (!work.ids || !work.ns || !all)
        die("out of memory");
    if (!work.create)
        read_ids(argv[6]);
    uint64_t wall_ns = run(all, clients, argv[3]);
    if (work.create)
        write_ids(argv[6]);
    print_times(work.ns, (size_t)work.count, wall_ns);
    free(all);
    free(work.ns);
    free(work.ids);
    return 0;
}
