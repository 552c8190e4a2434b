/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/fake/trees.h"
#include <stdlib.h>
#include <string.h>

struct cay_fake_tree *cay_fake_find(struct cay_fake_tree *first, const char *id)
{
    while (first && strcmp(first->id, id) != 0)
        first = first->next;
    return first;
}

void cay_fake_keep(struct cay_fake_tree **first, const char *id, const struct cay_fake_files *files)
{
    struct cay_fake_tree *t = cay_fake_find(*first, id);
    if (!t) {
        t = calloc(1, sizeof *t);
        if (!t)
            abort();
        cay_str_copy(t->id, sizeof t->id, id);
        t->next = *first;
        *first = t;
    }
    t->files = *files;
    t->files.volume[0] = 0;
    t->attached = false;
}

void cay_fake_forget(struct cay_fake_tree **first, const char *id)
{
    for (struct cay_fake_tree **at = first; *at; at = &(*at)->next) {
        struct cay_fake_tree *t = *at;
        if (strcmp(t->id, id) != 0)
            continue;
        *at = t->next;
        free(t);
        return;
    }
}

int cay_fake_attach(struct cay_fake_tree *first, const char *id, struct cay_fake_files *to,
                    struct cay_error *err)
{
    struct cay_fake_tree *t = cay_fake_find(first, id);
    if (!t)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "VOLUME_NOT_FOUND", "volume not found");
    if (t->attached)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "VOLUME_IN_USE", "another sandbox has it");
    t->attached = true;
    memcpy(to->work, t->files.work, sizeof to->work);
    cay_str_copy(to->volume, sizeof to->volume, id);
    return 0;
}

void cay_fake_detach(struct cay_fake_tree **first, const struct cay_fake_files *from,
                     const char *volume)
{
    bool given = from->volume[0];
    if (!volume && given)
        volume = from->volume;
    if (given && strcmp(volume, from->volume) != 0)
        cay_fake_forget(first, from->volume);
    if (volume && volume[0])
        cay_fake_keep(first, volume, from);
}
