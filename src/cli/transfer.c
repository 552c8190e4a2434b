/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer.h"
#include "base/buf.h"
#include "base/clock.h"
#include "cli/output.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define DRAW_MS 100
#define BAR 24
#define ARGS_MAX 32
#define ANSWER_MS (10 * 60 * 1000LL) /* from an upload's end to its answer */

const char *cay_transfer_path(struct cay_cli *cli, const char *id, const char *what,
                              const char *path, const char *user)
{
    struct cay_arena *a = &cli->arena;
    const char *base = cay_remote_path(cli, "sandbox", id, "files", (const char *)NULL);
    const char *key = "path";
    if (!cay_str_is_utf8(path, strlen(path))) {
        char *text = cay_arena_alloc(a, 4 * ((strlen(path) + 2) / 3) + 1);
        (void)cay_str_base64(path, strlen(path), text);
        path = text;
        key = "pathBase64";
    }
    return cay_arena_printf(a, "%s%s?%s=%s%s%s", base, what, key, cay_remote_quote(a, path),
                            user ? "&user=" : "", user ? cay_remote_quote(a, user) : "");
}

/* ---- progress ---- */

void cay_progress_begin(struct cay_progress *p, const char *name, uint64_t total)
{
    const char *slash = strrchr(name, '/');
    *p = (struct cay_progress){.name = slash && slash[1] ? slash + 1 : name,
                               .shown = isatty(STDERR_FILENO) == 1,
                               .total = total,
                               .began_ms = cay_clock_mono_ms()};
}

static void draw(struct cay_progress *p, int64_t now_ms)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf line = {0};
    int64_t took_ms = now_ms - p->began_ms;
    double rate = took_ms > 0 ? (double)p->done * 1000 / (double)took_ms : 0;
    cay_buf_adds(&line, "\r\033[K");
    cay_output_clean(&line, p->name);
    if (p->total > 0) {
        unsigned percent = (unsigned)(p->done >= p->total ? 100 : p->done * 100 / p->total);
        unsigned full = percent * BAR / 100;
        cay_buf_adds(&line, " [");
        for (unsigned i = 0; i < BAR; i++)
            cay_buf_addc(&line, i < full ? '=' : i == full ? '>' : ' ');
        cay_buf_addf(&line, "] %3u%%", percent);
    }
    if (p->note[0] && p->total == 0 && p->done == 0) {
        cay_buf_adds(&line, "  ");
        cay_output_clean(&line, p->note);
    } else {
        cay_buf_addf(&line, "  %s", cay_output_size(&a, (double)p->done));
        cay_buf_addf(&line, "  %s/s", cay_output_size(&a, rate));
    }
    (void)!write(STDERR_FILENO, line.data, line.len); /* it is only to be looked at */
    p->drawn_ms = now_ms;
}

void cay_progress_add(struct cay_progress *p, size_t bytes)
{
    p->done += bytes;
    if (!p->shown)
        return;
    int64_t now_ms = cay_clock_mono_ms();
    if (now_ms - p->drawn_ms >= DRAW_MS)
        draw(p, now_ms);
}

void cay_progress_end(struct cay_progress *p)
{
    if (!p->shown)
        return;
    draw(p, cay_clock_mono_ms());
    (void)!write(STDERR_FILENO, "\n", 1);
}

/* ---- up ---- */

struct up {
    const struct cay_upload_source *from;
    struct cay_progress *progress;
    uint64_t sent;
};

static int more(void *arg, char *buf, size_t room, size_t *len_out, struct cay_error *err)
{
    struct up *u = arg;
    char byte;
    if (u->from->length >= 0 && (uint64_t)u->from->length - u->sent < room)
        room = (size_t)((uint64_t)u->from->length - u->sent);
    ssize_t n;
    do
        n = room ? read(u->from->fd, buf, room) : 0;
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read %s", u->progress->name);
    if (n == 0 && u->from->length >= 0 && u->sent < (uint64_t)u->from->length)
        return cay_fail(err, CAY_ERR_CONFLICT, "%s became shorter", u->progress->name);
    if (n == 0 && u->from->end_fd >= 0 && read(u->from->end_fd, &byte, 1) != 1)
        return cay_fail(err, CAY_ERR_CONFLICT, "%s changed while it was read", u->progress->name);
    u->sent += (uint64_t)n;
    cay_progress_add(u->progress, (size_t)n);
    *len_out = (size_t)n;
    return 0;
}

int cay_transfer_put(struct cay_cli *cli, const char *path, const struct cay_upload_source *from,
                     struct cay_progress *progress, const struct cay_json **out,
                     struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct up up = {.from = from, .progress = progress};
    struct cay_client_request req = {.method = from->method ? from->method : "PUT",
                                     .path = path,
                                     .more = more,
                                     .more_length = from->length,
                                     .idle_ms = ANSWER_MS,
                                     .arg = &up};
    int r = cay_client_call(cli->client, &req, &answer, err);
    cay_progress_end(progress);
    if (r == 0)
        r = cay_remote_check(cli, &answer, err);
    if (r < 0)
        return r;
    cli->raw = cay_arena_strndup(&cli->arena, answer.body.data, answer.body.len);
    return cay_json_parse(&cli->arena, answer.body.data, answer.body.len, out, err);
}

/* ---- down ---- */

struct down {
    int fd;
    struct cay_progress *progress;
};

static int on_data(void *arg, const char *data, size_t len, struct cay_error *err)
{
    struct down *d = arg;
    if (!cay_write_all(d->fd, data, len))
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write %s", d->progress->name);
    cay_progress_add(d->progress, len);
    return 0;
}

int cay_transfer_get(struct cay_cli *cli, const char *path, int to_fd,
                     struct cay_progress *progress, struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct down down = {to_fd, progress};
    struct cay_client_request req = {
        .method = "GET", .path = path, .accept = "*/*", .on_data = on_data, .arg = &down};
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that has gone is an error to tell of */
    int r = cay_client_call(cli->client, &req, &answer, err);
    cay_progress_end(progress);
    return r < 0 ? r : cay_remote_check(cli, &answer, err);
}

/* ---- our own files ---- */

static CAY_NORETURN void run_child(const struct cay_file_request *rq, const int *theirs)
{
    CAY_AUTO_BUF struct cay_buf strings = {0};
    char *argv[ARGS_MAX + 1] = {0};
    uint32_t argc = cay_file_encode(rq, &strings);
    char *at = strings.data;
    for (uint32_t i = 0; i < argc && i < ARGS_MAX; i++, at += strlen(at) + 1)
        argv[i] = at;
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGINT, SIG_IGN); /* our parent ends us, when it has */
    if (dup2(theirs[0], STDIN_FILENO) < 0 || dup2(theirs[1], STDOUT_FILENO) < 0 ||
        dup2(theirs[2], CAY_FILE_COMMIT_FD) < 0)
        _exit(1);
    (void)close_range(CAY_FILE_COMMIT_FD + 1, ~0U, 0);
    (void)cay_file_main((int)argc, argv);
    _exit(0);
}

/* Above the numbers that the child puts them at. */
static bool make_pipe(bool we_write, int *ours, int *theirs)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;
    *ours = fcntl(fds[we_write], F_DUPFD_CLOEXEC, 10);
    *theirs = fcntl(fds[!we_write], F_DUPFD_CLOEXEC, 10);
    (void)close(fds[0]);
    (void)close(fds[1]);
    return *ours >= 0 && *theirs >= 0;
}

int cay_local_begin(const struct cay_file_request *rq, struct cay_local *out, struct cay_error *err)
{
    int theirs[3] = {-1, -1, -1};
    bool packs = rq->op == CAY_FILE_PACK;
    *out = (struct cay_local){.in_fd = -1, .out_fd = -1, .end_fd = -1};
    if (make_pipe(true, &out->in_fd, &theirs[0]) && make_pipe(false, &out->out_fd, &theirs[1]) &&
        make_pipe(!packs, &out->end_fd, &theirs[2])) {
        out->pid = fork();
        if (out->pid == 0)
            run_child(rq, theirs);
    }
    for (int i = 0; i < 3; i++)
        cay_close_fd(&theirs[i]);
    if (out->pid > 0)
        return 0;
    out->pid = 0;
    return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot start a process");
}

int cay_local_reply(struct cay_local *l, const struct cay_file_request *rq, const char *name,
                    struct cay_error *err)
{
    struct cay_file_reply raw, reply;
    if (!cay_file_get(l->out_fd, &raw, sizeof raw) ||
        !cay_file_reply_parse(&raw, sizeof raw, rq, &reply))
        return cay_fail(err, CAY_ERR_INTERNAL, "%s: the operation was ended", name);
    if (reply.code == CAY_FILE_OK)
        return 0;
    const char *why = reply.error                          ? strerror(reply.error)
                      : reply.code == CAY_FILE_BAD_ARCHIVE ? "the archive cannot be unpacked"
                      : reply.code == CAY_FILE_NOT_A_FILE  ? "not a file"
                                                           : "cannot be done";
    (void)cay_fail(err, CAY_ERR_INTERNAL, "%s: %s", name, why);
    cay_str_copy(err->cause, sizeof err->cause, reply.detail);
    return err->code;
}

void cay_local_end(struct cay_local *l)
{
    cay_close_fd(&l->end_fd); /* first: without its byte the data is not whole */
    cay_close_fd(&l->in_fd);
    cay_close_fd(&l->out_fd);
    if (l->pid > 0)
        (void)waitpid(l->pid, NULL, 0); /* its pipes have ended, so does it */
    l->pid = 0;
}
