/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a command begins with: written inside, by cay-file, with the command's own user and
 * from its own directory. The caller waits, with a bound: a command is not begun without them. */
#include "base/clock.h"
#include "core/core.h"
#include "model/limits.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* Both ends of one exchange with cay-file. */
struct exchange {
    struct cay_file_ends ends;
    struct cay_buf out;
    size_t sent, got;
    char reply[sizeof(struct cay_file_reply)];
};

static void exchange_done(struct exchange *x)
{
    cay_close_fd(&x->ends.out_fd);
    cay_close_fd(&x->ends.in_fd);
    cay_close_fd(&x->ends.end_fd);
    cay_buf_done(&x->out);
}

static void frame(const struct cay_exec_spec *spec, struct cay_buf *out)
{
    for (size_t i = 0; i < spec->file_count; i++) {
        const struct cay_exec_file *f = &spec->files[i];
        struct cay_file_put head = {.len = f->len, .path_len = (uint32_t)strlen(f->path)};
        cay_buf_add(out, &head, sizeof head);
        cay_buf_add(out, f->path, head.path_len);
        cay_buf_add(out, f->data, f->len);
    }
}

/* A reader that closed its end has said why, or is gone: the reply tells. */
static void send_some(struct exchange *x)
{
    ssize_t n = write(x->ends.in_fd, x->out.data + x->sent, x->out.len - x->sent);
    if (n > 0)
        x->sent += (size_t)n;
    if (x->sent == x->out.len || (n < 0 && errno != EAGAIN && errno != EINTR))
        cay_close_fd(&x->ends.in_fd);
}

/* True when no more will come. */
static bool take_some(struct exchange *x)
{
    ssize_t n = read(x->ends.out_fd, x->reply + x->got, sizeof x->reply - x->got);
    x->got += n > 0 ? (size_t)n : 0;
    return n == 0 || x->got == sizeof x->reply || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static int run(struct exchange *x, struct cay_error *err)
{
    const int64_t until = cay_clock_mono_ms() + CAY_EXEC_FILES_MS;
    for (;;) {
        struct pollfd fds[] = {{.fd = x->ends.out_fd, .events = POLLIN},
                               {.fd = x->ends.in_fd, .events = POLLOUT}};
        int64_t left = until - cay_clock_mono_ms();
        int ready = left > 0 ? poll(fds, CAY_COUNT(fds), (int)left) : 0;
        if (ready == 0)
            return cay_fail_as(err, CAY_ERR_TIMEOUT, "FILES_TIMEOUT",
                               "the files were not written within %d ms", CAY_EXEC_FILES_MS);
        if (ready > 0 && fds[1].revents)
            send_some(x);
        if (ready > 0 && fds[0].revents && take_some(x))
            return 0;
    }
}

/* The error, with the field that a caller of an execution knows. */
static int judge(const struct cay_exec_spec *spec, const struct cay_file_request *rq,
                 const struct cay_file_reply *reply, struct cay_error *err)
{
    int r = cay_core_file_verdict(rq, reply, err);
    if (r == 0 && reply->count != spec->file_count)
        r = cay_core_file_verdict(rq, NULL, err);
    if (r == 0 || !reply)
        return r;
    if (reply->count >= 1 && reply->count <= spec->file_count)
        (void)snprintf(err->field, sizeof err->field, "files.%s",
                       spec->files[reply->count - 1].path); /* as much as fits */
    else if (strcmp(err->field, "path") == 0)               /* as pid 1 would have said it */
        r = cay_fail_field(err, "cwd", "cannot enter the directory");
    return r;
}

static int put(struct cay_core *core, const struct cay_account *owner, const char *id,
               const struct cay_exec_spec *spec, struct cay_arena *a, struct cay_error *err)
{
    CAY_CLEANUP(exchange_done) struct exchange x = {.ends = {-1, -1, -1}};
    struct cay_file_request rq = {.op = CAY_FILE_PUT,
                                  .user = spec->user,
                                  .cwd = spec->cwd,
                                  .path = ".",
                                  .size = CAY_FILE_UNKNOWN,
                                  .count = spec->file_count};
    struct cay_file_reply reply;
    frame(spec, &x.out);
    int r = cay_core_file(core, owner, id, &rq, a, &x.ends, err);
    if (r == 0)
        r = run(&x, err);
    if (r < 0)
        return r;
    bool sound = cay_file_reply_parse(x.reply, x.got, &rq, &reply);
    return judge(spec, &rq, sound ? &reply : NULL, err);
}

int cay_core_put_files(struct cay_core *core, const struct cay_account *owner, const char *id,
                       const struct cay_exec_spec *spec, struct cay_arena *a, struct cay_error *err)
{
    int r = 0;
    if (spec->file_count == 0)
        return 0;
    if (atomic_fetch_add(&core->slow, 1) >= CAY_SLOW_MAX)
        r = cay_fail(err, CAY_ERR_UNAVAILABLE, "too many commands wait for their files at once");
    else
        r = put(core, owner, id, spec, a, err);
    atomic_fetch_sub(&core->slow, 1);
    return r;
}

int cay_core_check_files(const struct cay_exec_spec *spec, struct cay_error *err)
{
    int r = 0;
    if (spec->file_count > CAY_FILE_FORM_FILES)
        return cay_fail_field(err, "files", "at most %d files", CAY_FILE_FORM_FILES);
    for (size_t i = 0; i < spec->file_count && r == 0; i++) {
        char field[sizeof err->field];
        (void)snprintf(field, sizeof field, "files.%s", spec->files[i].path); /* as above */
        r = cay_core_check_path(spec->files[i].path, field, err);
    }
    return r;
}
