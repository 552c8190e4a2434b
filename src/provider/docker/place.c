/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pid 1 of each sandbox was when it was last looked for, so that the Engine need not be
 * asked each time, nor be there. The engine knows whether it is still so: it takes the pid for a
 * container's only while that is true. */
#include "provider/docker/docker.h"
#include <string.h>

static struct cay_docker_place *at(struct cay_docker *d, const char *id)
{
    unsigned h = 2166136261U;
    for (const char *c = id; *c; c++)
        h = (h ^ (unsigned char)*c) * 16777619U;
    return &d->places[h % CAY_COUNT(d->places)];
}

void cay_docker_note_place(struct cay_docker *d, const struct cay_docker_box *box, bool known)
{
    pthread_mutex_lock(&d->lock);
    struct cay_docker_place *p = at(d, box->entry.id);
    bool same = p->pid == box->pid && strcmp(p->container, box->container) == 0;
    p->known = known || (same && p->known);
    cay_str_copy(p->id, sizeof p->id, box->entry.id);
    cay_str_copy(p->container, sizeof p->container, box->container);
    p->pid = box->pid;
    pthread_mutex_unlock(&d->lock);
}

bool cay_docker_find_place(struct cay_docker *d, struct cay_arena *a, const char *id, bool known,
                           struct cay_docker_box *out)
{
    pthread_mutex_lock(&d->lock);
    struct cay_docker_place *p = at(d, id);
    bool found = strcmp(p->id, id) == 0 && (p->known || !known);
    if (found)
        *out =
            (struct cay_docker_box){.pid = p->pid, .container = cay_arena_strdup(a, p->container)};
    pthread_mutex_unlock(&d->lock);
    return found;
}

void cay_docker_forget(struct cay_docker *d, const char *id)
{
    pthread_mutex_lock(&d->lock);
    struct cay_docker_place *p = at(d, id);
    if (strcmp(p->id, id) == 0)
        p->id[0] = 0;
    pthread_mutex_unlock(&d->lock);
    cay_pid1_forget(&d->local, id);
}
