/* SPDX-License-Identifier: Apache-2.0 */
/* The first thing that happens in a sandbox. A user or a directory that is not there is a fault of
 * whoever asked for the sandbox, so he hears of it now and not at his first command. Who has a
 * start command learns it from that; for others a file operation goes there and says what it met.
 */
#include "base/clock.h"
#include "core/core.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

/* The reply of an operation that answers at once; how many bytes came. */
static size_t read_reply(int fd, char *buf, size_t size)
{
    int64_t until = cay_clock_mono_ms() + CAY_INIT_CALL_MS;
    size_t got = 0;
    while (got < size) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = until - cay_clock_mono_ms();
        int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        ssize_t n = ready > 0 ? read(fd, buf + got, size - got) : 0;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

static int look(struct cay_core *core, const struct cay_sandbox *sb, struct cay_arena *a,
                struct cay_error *err)
{
    CAY_AUTO_FD int ours = -1, theirs = -1;
    const char *dir = sb->spec.workdir ? sb->spec.workdir : "/";
    struct cay_file_request rq = {.op = CAY_FILE_STAT,
                                  .user = sb->spec.user,
                                  .cwd = "/",
                                  .path = cay_arena_printf(a, "%s/.", dir)};
    struct cay_file_reply reply;
    char buf[sizeof reply];
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a pipe");
    ours = fds[0];
    theirs = fds[1];
    struct cay_file_pipes pipes = {.out = theirs, .in = -1, .end = -1};
    int r = cay_provider_file(core->provider, sb->id, &rq, &pipes, CAY_INIT_CALL_MS, err);
    if (r == CAY_ERR_UNSUPPORTED)
        return 0; /* then the first command tells */
    if (r < 0)
        return r;
    cay_close_fd(&theirs);
    size_t got = read_reply(ours, buf, sizeof buf);
    bool sound = cay_file_reply_parse(buf, got, &rq, &reply);
    return cay_core_file_verdict(&rq, sound ? &reply : NULL, err);
}

/* As the spec calls what commands and files have other names for. */
static int name_field(int r, struct cay_error *err)
{
    static const struct {
        const char *theirs, *ours;
    } names[] = {{"cwd", "workdir"}, {"path", "workdir"}, {"command", "startCommand"}};
    for (size_t i = 0; i < CAY_COUNT(names); i++)
        if (strcmp(err->field, names[i].theirs) == 0)
            cay_str_copy(err->field, sizeof err->field, names[i].ours);
    if (strcmp(err->field, "workdir") != 0)
        return r;
    err->name = NULL; /* what files call it */
    err->code = CAY_ERR_INVALID;
    return err->code;
}

static bool is_plain(const struct cay_spec *spec)
{
    return (!spec->user || strcmp(spec->user, "root") == 0) &&
           (!spec->workdir || strcmp(spec->workdir, CAY_DEFAULT_WORKDIR) == 0);
}

int cay_core_begin_inside(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    int r = 0;
    if (cay_spec_has_start(&sb->spec)) {
        r = cay_core_run_start(core, sb, err);
        if (r < 0)
            (void)cay_wrap(err, "cannot run the start command");
    } else if (!is_plain(&sb->spec)) {
        r = look(core, sb, &a, err);
    }
    return r < 0 ? name_field(r, err) : 0;
}
