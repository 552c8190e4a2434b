/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the fake: begun, listed, killed, spoken to. */
#include "provider/fake/inside.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>

int cay_fake_exec(struct cay_provider *p, const char *id, const char *exec_id,
                  const struct cay_exec_spec *spec, int log_fd, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_box *b;
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r == 0)
        r = cay_fake_awake(f, id, &b, err);
    if (r < 0)
        return r;
    if (spec->user && strcmp(spec->user, "nobody-here") == 0)
        return cay_fail_field(err, "user", "no user %s in this sandbox", spec->user);
    if (spec->argv.count == 0)
        return cay_fail_field(err, "command", "the image has no command of its own");
    if (strcmp(spec->argv.at[0], "sleep") != 0) {
        cay_fake_run(b, spec, log_fd);
        return 0;
    }
    struct cay_fake_run *run = calloc(1, sizeof *run);
    if (!run)
        abort();
    cay_str_copy(run->exec_id, sizeof run->exec_id, exec_id);
    run->log_fd = fcntl(log_fd, F_DUPFD_CLOEXEC, 3);
    run->input_fd = -1;
    run->has_terminal = spec->window.cols > 0;
    run->takes_input = spec->open_stdin || run->has_terminal;
    run->next = b->runs;
    b->runs = run;
    return 0;
}

int cay_fake_kill(struct cay_provider *p, const char *id, const char *exec_id, int sig,
                  struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_box *b;
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r == 0)
        r = cay_fake_awake(f, id, &b, err);
    if (r < 0)
        return r;
    struct cay_fake_run *run = cay_fake_take_run(b, exec_id);
    if (!run)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "EXECUTION_NOT_RUNNING",
                           "the execution has ended");
    cay_fake_end_run(run, sig, CAY_REASON_KILLED);
    return 0;
}

static int find_run(struct cay_fake *f, const char *id, const char *exec_id,
                    struct cay_fake_run **out, struct cay_error *err)
{
    struct cay_fake_box *b;
    int r = cay_fake_fails(f, err);
    if (r == 0)
        r = cay_fake_awake(f, id, &b, err);
    if (r < 0)
        return r;
    for (struct cay_fake_run *run = b->runs; run; run = run->next)
        if (strcmp(run->exec_id, exec_id) == 0) {
            *out = run;
            return 0;
        }
    return cay_fail_as(err, CAY_ERR_NOT_FOUND, "EXECUTION_NOT_RUNNING", "the execution has ended");
}

int cay_fake_input(struct cay_provider *p, const char *id, const char *exec_id, int input_fd,
                   int end_fd, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_run *run;
    (void)end_fd;
    CAY_FAKE_LOCKED(f);
    int r = find_run(f, id, exec_id, &run, err);
    if (r < 0)
        return r;
    if (!run->takes_input)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "STDIN_CLOSED", "its stdin is closed");
    cay_close_fd(&run->input_fd);
    run->input_fd = fcntl(input_fd, F_DUPFD_CLOEXEC, 3);
    return 0;
}

int cay_fake_resize(struct cay_provider *p, const char *id, const char *exec_id,
                    struct cay_window window, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_run *run;
    (void)window;
    CAY_FAKE_LOCKED(f);
    int r = find_run(f, id, exec_id, &run, err);
    if (r == 0 && !run->has_terminal)
        r = cay_fail_as(err, CAY_ERR_CONFLICT, "NO_TERMINAL", "it has no terminal");
    return r;
}

/* Small enough for the pipe, so that nobody need read it meanwhile. */
/* Everything is there, but for one user and one directory. */
static void say_stat(const struct cay_file_request *rq, int out_fd)
{
    struct cay_file_reply reply = {.version = CAY_FILE_VERSION};
    if (rq->user && strcmp(rq->user, "nobody-here") == 0)
        reply.code = CAY_FILE_NO_USER;
    else if (strncmp(rq->path, "/nowhere/", 9) == 0)
        reply.code = CAY_FILE_NOT_FOUND;
    (void)!write(out_fd, &reply, sizeof reply); /* a pipe of its own: it fits */
}

int cay_fake_file(struct cay_provider *p, const char *id, const struct cay_file_request *rq,
                  const struct cay_file_pipes *pipes, int64_t timeout_ms, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    CAY_FAKE_LOCKED(f);
    struct cay_fake_box *b;
    int r = cay_fake_fails(f, err);
    (void)rq, (void)timeout_ms;
    if (r == 0)
        r = cay_fake_awake(f, id, &b, err);
    if (r == 0 && f->file_says_len > 0)
        (void)!write(pipes->out, f->file_says, f->file_says_len);
    else if (r == 0 && rq->op == CAY_FILE_STAT && cay_str_ends(rq->path, "/."))
        say_stat(rq, pipes->out);
    return r;
}

void cay_provider_fake_file_says(struct cay_provider *p, const void *data, size_t len)
{
    struct cay_fake *f = cay_fake_of(p);
    CAY_FAKE_LOCKED(f);
    f->file_says = data;
    f->file_says_len = len;
}

int cay_fake_executions(struct cay_provider *p, const char *id, struct cay_arena *a,
                        struct cay_strs *out, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_box *b;
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r == 0)
        r = cay_fake_awake(f, id, &b, err);
    if (r < 0)
        return r;
    *out = (struct cay_strs){0};
    for (struct cay_fake_run *run = b->runs; run; run = run->next)
        cay_strs_push(a, out, cay_arena_strdup(a, run->exec_id));
    return 0;
}
