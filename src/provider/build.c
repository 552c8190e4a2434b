/* SPDX-License-Identifier: Apache-2.0 */
/* A build, as engine/build.h tells of it. */
#include "engine/build.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/packet.h"
#include "provider/local.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ASK_MS 10000                        /* until the engine hands over the pipe */
#define LOOK_MS 200                         /* between two questions whether to go on */
#define SLACK_MS (CAY_BUILD_END_MS + 30000) /* that the engine may have beyond its own bound */
#define LIST_TRIES 50
#define LINE_MAX 1024 /* of a line; the rest of it is another one */

/* What came out of the pipe so far. */
struct telling {
    char line[LINE_MAX + 1];
    size_t len;
    char last[LINE_MAX + 1]; /* before the verdict */
    char verdict[16];
    const struct cay_build_watch *watch;
    struct cay_arena *a;
    struct cay_strs *names; /* or the lines are steps */
};

static void end_line(struct telling *t)
{
    size_t len = t->len;
    t->line[len] = 0;
    t->len = 0;
    if (len == 0 || t->verdict[0])
        return;
    if (t->line[0] == '=') {
        cay_str_copy(t->verdict, sizeof t->verdict, t->line);
        return;
    }
    memcpy(t->last, t->line, len + 1);
    if (t->names && t->names->count < CAY_MAX_RECIPES)
        cay_strs_push(t->a, t->names, cay_arena_strdup(t->a, t->line));
    if (!t->names && t->watch->line)
        t->watch->line(t->watch->arg, t->line);
}

static void take_bytes(struct telling *t, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\n' || t->len == LINE_MAX)
            end_line(t);
        if (data[i] != '\n')
            t->line[t->len++] = data[i];
    }
}

/* To the verdict, or the pipe's end. */
static int listen_to(int fd, struct telling *t, struct cay_error *err)
{
    char data[4096];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t until_ms = cay_clock_mono_ms() + CAY_BUILD_MS + SLACK_MS;
    while (!t->verdict[0]) {
        if (t->watch->stop && t->watch->stop(t->watch->arg))
            return cay_fail(err, CAY_ERR_UNAVAILABLE, "the build was ended");
        if (cay_clock_mono_ms() > until_ms)
            return cay_fail(err, CAY_ERR_TIMEOUT, "the build did not end");
        int ready = poll(&p, 1, LOOK_MS);
        if (ready == 0 || (ready < 0 && errno == EINTR))
            continue;
        ssize_t n = read(fd, data, sizeof data);
        if (n <= 0)
            break;
        take_bytes(t, data, (size_t)n);
    }
    return 0;
}

static int judge(const struct telling *t, const char *image, struct cay_error *err)
{
    int r;
    if (strcmp(t->verdict, CAY_BUILD_DONE) == 0)
        return 0;
    if (strcmp(t->verdict, CAY_BUILD_NONE) == 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "NO_RECIPE", "no recipe makes %s", image);
    if (strcmp(t->verdict, CAY_BUILD_LATE) == 0)
        return cay_fail_as(err, CAY_ERR_TIMEOUT, "BUILD_FAILED",
                           "the build of %s took longer than %lld minutes", image,
                           CAY_BUILD_MS / 60000);
    if (strcmp(t->verdict, CAY_BUILD_FAILED) == 0)
        r = cay_fail_as(err, CAY_ERR_PROVIDER, "BUILD_FAILED", "cannot build %s", image);
    else
        r = cay_fail_as(err, CAY_ERR_PROVIDER, "BUILD_FAILED", "the build of %s was cut", image);
    cay_str_copy(err->cause, sizeof err->cause, t->last);
    return r;
}

/* A question that brings a file has a connection of its own. */
static int ask_with(struct cay_local *l, const struct cay_engine_request *rq, int file, int *fd_out,
                    struct cay_error *err)
{
    char buf[CAY_MESSAGE_MAX];
    struct cay_engine_reply reply;
    int fds[1], count = 0;
    CAY_AUTO_FD int sock = cay_local_connect(l);
    struct pollfd p = {.fd = sock, .events = POLLIN};
    if (sock < 0 || cay_packet_send(sock, rq, sizeof *rq, NULL, 0, &file, 1) < 0 ||
        poll(&p, 1, ASK_MS) <= 0)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "cannot reach the engine");
    ssize_t n = cay_packet_recv(sock, buf, sizeof buf, fds, 1, &count);
    CAY_AUTO_FD int fd = n > 0 && count ? fds[0] : -1;
    if (n < (ssize_t)sizeof reply)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "the engine is not running");
    memcpy(&reply, buf, sizeof reply);
    if (reply.code < 0)
        return cay_local_told(&reply, err);
    *fd_out = cay_take_fd(&fd);
    return 0;
}

static int ask(struct cay_local *l, const struct cay_recipe *what, int *fd_out,
               struct cay_error *err)
{
    struct cay_engine_request rq = {
        .version = CAY_ENGINE_VERSION, .op = CAY_ENGINE_BUILD, .again = what->again};
    cay_str_copy(rq.image, sizeof rq.image, what->image);
    if (!what->text)
        return cay_local_call(l, &rq, ASK_MS, NULL, 0, NULL, fd_out, err);
    CAY_AUTO_FD int file = memfd_create("recipe", MFD_CLOEXEC);
    ssize_t len = (ssize_t)strlen(what->text);
    if (file < 0 || write(file, what->text, (size_t)len) != len)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a memfd");
    return ask_with(l, &rq, file, fd_out, err);
}

static int run(struct cay_provider *p, const struct cay_recipe *what, struct telling *t,
               struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    int r = ask((struct cay_local *)p, what, &fd, err);
    if (r == 0 && fd < 0)
        r = cay_fail(err, CAY_ERR_PROVIDER, "the engine tells nothing of the build");
    if (r == 0)
        r = listen_to(fd, t, err);
    return r < 0 ? r : judge(t, what->image, err);
}

int cay_local_build(struct cay_provider *p, const struct cay_recipe *what,
                    const struct cay_build_watch *watch, struct cay_error *err)
{
    struct telling t = {.watch = watch};
    return run(p, what, &t, err);
}

int cay_local_recipes(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                      struct cay_error *err)
{
    static const struct cay_build_watch nobody;
    int r = CAY_ERR_UNAVAILABLE;
    for (int i = 0; i < LIST_TRIES && r == CAY_ERR_UNAVAILABLE; i++) {
        struct telling t = {.watch = &nobody, .a = a, .names = out};
        if (i > 0) /* others look too, and that takes a moment */
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        r = run(p, &(struct cay_recipe){.image = ""}, &t, err);
    }
    return r;
}
