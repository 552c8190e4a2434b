/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at which history: one at a time, and some stay open. */
#include "base/path.h"
#include "core/core.h"
#include "model/limits.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct cay_history *take_open(struct cay_historian *all, const char *id)
{
    struct cay_history *h = NULL;
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < all->open_count && !h; i++)
        if (strcmp(all->open[i].id, id) == 0) {
            h = all->open[i].h;
            memmove(&all->open[i], &all->open[i + 1],
                    (--all->open_count - i) * sizeof all->open[0]);
        }
    pthread_mutex_unlock(&all->lock);
    return h;
}

/* "hi-" and the rest of the id: the sandbox itself may be held by somebody else. */
static const char *key_of(const char *sandbox_id, char key[CAY_ID_SIZE])
{
    (void)snprintf(key, CAY_ID_SIZE, "hi%s", sandbox_id + 2); /* it fits: so did the other */
    return key;
}

int cay_history_hold(struct cay_core *core, const char *sandbox_id, struct cay_hold *out,
                     struct cay_error *err)
{
    char key[CAY_ID_SIZE];
    return cay_hold_wait(&core->holds, key_of(sandbox_id, key), out, err);
}

/* Under the lock: the one that was used longest ago, if they are too many with a new one. It is
 * held, unless somebody else has come for it meanwhile: he opens it anew. */
static struct cay_history *take_oldest(struct cay_core *core, size_t new_files,
                                       struct cay_hold *held)
{
    struct cay_historian *all = &core->historian;
    char key[CAY_ID_SIZE];
    size_t files = new_files;
    for (size_t i = 0; i < all->open_count; i++)
        files += cay_history_files(all->open[i].h);
    if (all->open_count == 0 ||
        (all->open_count < CAY_HISTORY_OPEN && files <= CAY_HISTORY_OPEN_FILES))
        return NULL;
    struct cay_history *h = all->open[0].h;
    (void)cay_hold_try(&core->holds, key_of(all->open[0].id, key), held);
    memmove(&all->open[0], &all->open[1], --all->open_count * sizeof all->open[0]);
    return h;
}

static void keep_open(struct cay_core *core, const char *id, struct cay_history *h)
{
    struct cay_historian *all = &core->historian;
    struct cay_history *old;
    size_t files = cay_history_files(h);
    do {
        CAY_AUTO_HOLD struct cay_hold held = {0};
        pthread_mutex_lock(&all->lock);
        old = take_oldest(core, files, &held);
        if (!old) {
            all->open[all->open_count].h = h;
            cay_str_copy(all->open[all->open_count++].id, CAY_ID_SIZE, id);
        }
        pthread_mutex_unlock(&all->lock);
        cay_history_close(old, held.of != NULL); /* nobody writes what another has open */
    } while (old);
}

/* Of a history that is held. */
int cay_history_turn_open(struct cay_core *core, const char *sandbox_id, bool make,
                          struct cay_history_turn *t, struct cay_error *err)
{
    t->core = core;
    cay_str_copy(t->id, sizeof t->id, sandbox_id);
    t->h = take_open(&core->historian, sandbox_id);
    return t->h ? 0 : cay_history_open(core->historian.dir_fd, sandbox_id, make, &t->h, err);
}

int cay_history_turn_begin(struct cay_core *core, const char *sandbox_id, bool make,
                           struct cay_history_turn *t, struct cay_error *err)
{
    int r = cay_history_hold(core, sandbox_id, &t->hold, err);
    return r < 0 ? r : cay_history_turn_open(core, sandbox_id, make, t, err);
}

void cay_history_turn_end(struct cay_history_turn *t)
{
    if (t->h && !t->half_done)
        keep_open(t->core, t->id, t->h);
    else
        cay_history_close(t->h, false);
    t->h = NULL;
    cay_hold_end(&t->hold);
}

void cay_history_forget(struct cay_core *core, const char *sandbox_id)
{
    CAY_AUTO_HOLD struct cay_hold held = {0};
    struct stat st;
    struct cay_error ignored; /* somebody is at it for long: the sweep comes later */
    if (core->historian.dir_fd < 0 ||
        fstatat(core->historian.dir_fd, sandbox_id, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        cay_history_hold(core, sandbox_id, &held, &ignored) < 0)
        return;
    cay_history_close(take_open(&core->historian, sandbox_id), false);
    cay_history_remove(core->historian.dir_fd, sandbox_id);
}
