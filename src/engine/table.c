/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sandboxes, by their ids. */
#include "engine/dispatcher.h"
#include <stdlib.h>
#include <string.h>

static unsigned bucket(const char *id)
{
    unsigned h = 2166136261U;
    for (; *id; id++)
        h = (h ^ (unsigned char)*id) * 16777619U;
    return h % CAY_BOX_BUCKETS;
}

struct cay_box *cay_boxes_find(struct cay_dispatcher *d, const char *id)
{
    for (struct cay_box *box = d->boxes[bucket(id)]; box; box = box->next)
        if (strcmp(box->record.entry.id, id) == 0)
            return box;
    return NULL;
}

struct cay_box *cay_boxes_add(struct cay_dispatcher *d, const char *id)
{
    struct cay_box *box = calloc(1, sizeof *box), **at = &d->boxes[bucket(id)];
    if (!box)
        abort();
    box->source = (struct cay_source){CAY_FROM_PIDFD, -1};
    box->stop_fd = -1;
    cay_str_copy(box->record.entry.id, sizeof box->record.entry.id, id);
    box->next = *at;
    *at = box;
    d->box_count++;
    return box;
}

void cay_boxes_drop(struct cay_dispatcher *d, struct cay_box *box)
{
    struct cay_box **at = &d->boxes[bucket(box->record.entry.id)];
    while (*at != box)
        at = &(*at)->next;
    *at = box->next;
    cay_close_fd(&box->stop_fd);
    d->box_count--;
    free(box->failed);
    free(box);
}

struct cay_box *cay_boxes_of_pid(struct cay_dispatcher *d, pid_t pid)
{
    for (size_t i = 0; i < CAY_BOX_BUCKETS; i++)
        for (struct cay_box *box = d->boxes[i]; box; box = box->next)
            if (box->record.running && box->record.pid == pid && box->source.fd < 0)
                return box;
    return NULL;
}
