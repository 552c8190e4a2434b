/* SPDX-License-Identifier: Apache-2.0 */
/* What callers ask of a history: its versions, what differs, the way back, all of it. */
#include "core/core.h"
#include "core/exchange.h"
#include "model/limits.h"
#include <fcntl.h>
#include <poll.h>
#include <string.h>

/* The caller's, at whose history it is his turn. */
struct open {
    struct cay_sandbox sb;
    struct cay_history_turn turn;
};

static void open_done(struct open *o)
{
    cay_history_turn_end(&o->turn);
}
#define AUTO_OPEN CAY_CLEANUP(open_done)

#define AT_FIELD "executionId"

static int open_held(struct cay_core *core, struct open *o, struct cay_error *err)
{
    cay_history_await(core, o->sb.id);
    return cay_history_turn_begin(core, o->sb.id, false, &o->turn, err);
}

static int open_it(struct cay_core *core, const struct cay_account *owner, const char *id,
                   struct cay_arena *a, struct open *o, struct cay_error *err)
{
    int r = cay_core_find(core, owner, id, a, &o->sb, err);
    return r < 0 ? r : open_held(core, o, err);
}

int cay_core_history(struct cay_core *core, const struct cay_account *owner, const char *id,
                     struct cay_arena *a, struct cay_versions *out, struct cay_error *err)
{
    AUTO_OPEN struct open o = {0};
    int r = open_it(core, owner, id, a, &o, err);
    if (r == 0)
        r = cay_history_list(o.turn.h, a, out, err);
    if (r == 0)
        out->full = !cay_history_has_room(o.turn.h, &o.sb);
    return r;
}

int cay_core_diff(struct cay_core *core, const struct cay_account *owner, const char *id,
                  const struct cay_history_ask *ask, cay_history_tell tell, void *arg,
                  struct cay_arena *a, struct cay_error *err)
{
    AUTO_OPEN struct open o = {0};
    int r = open_it(core, owner, id, a, &o, err);
    return r < 0 ? r : cay_history_diff(o.turn.h, ask, tell, arg, err);
}

/* Each takes as much of the disk as its history until it was fetched. Of that we hear because then
 * the other end of its pipe is closed, whoever has it. */
int cay_history_bundle_begin(struct cay_historian *all, int *end_fd_out, struct cay_error *err)
{
    int ends[2], *place = NULL;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a pipe");
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < CAY_HISTORY_BUNDLES && !place; i++) {
        struct pollfd p = {.fd = all->bundles[i]};
        if (p.fd < 0 || (poll(&p, 1, 0) == 1 && p.revents & POLLERR))
            place = &all->bundles[i];
    }
    if (place) {
        cay_close_fd(place);
        *place = ends[1];
    }
    pthread_mutex_unlock(&all->lock);
    if (place) {
        *end_fd_out = ends[0];
        return 0;
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    return cay_fail_as(err, CAY_ERR_UNAVAILABLE, "TOO_MANY_BUNDLES",
                       "%d bundles are being fetched: try again later", CAY_HISTORY_BUNDLES);
}

int cay_core_bundle(struct cay_core *core, const struct cay_account *owner, const char *id,
                    struct cay_arena *a, int *fd_out, int *end_fd_out, struct cay_error *err)
{
    AUTO_OPEN struct open o = {0};
    CAY_AUTO_FD int fd = -1;
    CAY_AUTO_FD int end_fd = -1;
    int r = open_it(core, owner, id, a, &o, err);
    if (r == 0)
        r = cay_history_bundle_begin(&core->historian, &end_fd, err);
    if (r < 0)
        return r;
    fd = openat(core->historian.dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a file for the history");
    r = cay_history_bundle(o.turn.h, fd, err);
    if (r < 0)
        return r;
    *fd_out = cay_take_fd(&fd);
    *end_fd_out = cay_take_fd(&end_fd);
    return 0;
}

/* ---- the way back ---- */

static int count_step(void *arg, const char *path, uint32_t mode, const void *data, size_t len,
                      struct cay_error *err)
{
    uint64_t *count = arg;
    (void)path, (void)mode, (void)data, (void)len, (void)err;
    ++*count;
    return 0;
}

/* Sent as it comes: all of it may be more than fits into memory. */
static int send_step(void *arg, const char *path, uint32_t mode, const void *data, size_t len,
                     struct cay_error *err)
{
    struct cay_exchange *x = arg;
    struct cay_file_put head = {.len = len, .path_len = (uint32_t)strlen(path), .mode = mode};
    cay_buf_add(&x->in, &head, sizeof head);
    cay_buf_adds(&x->in, path);
    cay_buf_add(&x->in, data, len);
    return x->in.len > CAY_MIB ? cay_exchange_send(x, err) : 0;
}

static int put_back(struct cay_core *core, struct open *o, const struct cay_back *back,
                    struct cay_error *err)
{
    struct cay_file_request rq = {
        .op = CAY_FILE_PUT, .path = ".", .cwd = CAY_DEFAULT_WORKDIR, .size = CAY_FILE_UNKNOWN};
    CAY_AUTO_EXCHANGE struct cay_exchange x = {.rq = &rq};
    int r = cay_history_back(o->turn.h, back->id, back->id_field, back->path, count_step, &rq.count,
                             err);
    if (r < 0 || rq.count == 0)
        return r;
    r = cay_exchange_begin(core, &o->sb, &x, CAY_HISTORY_MS, err);
    if (r == 0)
        r = cay_history_back(o->turn.h, back->id, back->id_field, back->path, send_step, &x, err);
    if (r == 0)
        r = cay_exchange_finish(&x, err);
    return r < 0 ? r : cay_core_file_verdict(&rq, x.has_reply ? &x.reply : NULL, err);
}

/* What nobody made a version of yet is one first, so that nothing is lost by going back. */
static int go_back(struct cay_core *core, struct open *o, const struct cay_back *back,
                   struct cay_arena *a, struct cay_version *out, struct cay_error *err)
{
    char commit[CAY_COMMIT_SIZE] = "";
    bool made = false;
    struct cay_history_note before = {.id = CAY_HISTORY_NO_ID,
                                      .message = "Changes before a rollback"};
    struct cay_history_note after = {.id = CAY_HISTORY_NO_ID,
                                     .message = cay_arena_printf(a, "Rollback to %s", back->id),
                                     .always = true};
    int r = cay_history_commit_now(&o->turn, &o->sb, &before, &made, commit, err);
    if (r == 0)
        r = put_back(core, o, back, err);
    if (r == 0 && cay_history_is_of_files(&o->sb)) {
        o->turn.half_done = true; /* until there is a version of it */
        r = cay_history_went_back(o->turn.h, back->id, back->id_field, back->path, err);
    }
    if (r == 0)
        r = cay_history_commit_now(&o->turn, &o->sb, &after, &made, commit, err);
    struct cay_versions all;
    if (r == 0)
        r = cay_history_list(o->turn.h, a, &all, err);
    if (r == 0)
        *out = all.at[0];
    return r;
}

int cay_history_go_back(struct cay_core *core, const struct cay_sandbox *sb, const char *version,
                        struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    AUTO_OPEN struct open o = {.sb = *sb};
    struct cay_version made;
    int r = open_held(core, &o, err);
    return r < 0 ? r
                 : go_back(core, &o, &(struct cay_back){version, AT_FIELD, NULL}, &a, &made, err);
}

int cay_history_check(struct cay_core *core, const char *sandbox_id, const char *version,
                      struct cay_error *err)
{
    AUTO_OPEN struct open o = {0};
    cay_str_copy(o.sb.id, sizeof o.sb.id, sandbox_id);
    int r = open_held(core, &o, err);
    return r < 0 ? r : cay_history_has(o.turn.h, version, AT_FIELD, err);
}

int cay_core_rollback(struct cay_core *core, const struct cay_account *owner, const char *id,
                      const struct cay_back *back, struct cay_arena *a, struct cay_version *out,
                      struct cay_error *err)
{
    AUTO_OPEN struct open o = {0};
    int r = back->path ? cay_core_check_path(back->path, "path", err) : 0;
    if (r == 0)
        r = open_it(core, owner, id, a, &o, err);
    return r < 0 ? r : go_back(core, &o, back, a, out, err);
}
