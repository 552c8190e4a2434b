/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in a sandbox: begun, listed, killed; their logs opened. */
#include "base/clock.h"
#include "core/core.h"
#include "core/metrics.h"
#include "core/once.h"
#include "core/seal.h"
#include "core/state.h"
#include "core/validate.h"
#include "log/files.h"
#include "model/limits.h"
#include <fcntl.h>
#include <string.h>

/* The sandbox's settings below, its secrets, and the command's own on top. */
static int complete(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                    const struct cay_exec_spec *spec, struct cay_arena *a,
                    struct cay_exec_spec *out, struct cay_error *err)
{
    struct cay_exec_spec full = *spec;
    struct cay_pairs env = {0};
    cay_pairs_set(a, &env, "CAY_SANDBOX_ID", sb->id);
    for (size_t i = 0; i < sb->spec.env.count; i++)
        cay_pairs_set(a, &env, sb->spec.env.at[i].key, sb->spec.env.at[i].value);
    int r = cay_unseal_all(core, sb->account_id, &sb->spec.secrets, a, &env, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < spec->env.count; i++)
        cay_pairs_set(a, &env, spec->env.at[i].key, spec->env.at[i].value);
    cay_pairs_set(a, &env, "CAY_EXECUTION_ID", exec_id); /* its children are known by it */
    full.env = env;
    if (!full.cwd)
        full.cwd = sb->spec.workdir;
    if (!full.user)
        full.user = sb->spec.user;
    *out = full;
    return 0;
}

/* The execution's id is held until the provider runs it: whoever sees its log meanwhile must not
 * take it for lost. More than 0: it was awaited and has ended. */
static int begin(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                 const struct cay_exec_spec *spec, struct cay_arena *a, int *fd_out,
                 struct cay_error *err)
{
    CAY_AUTO_FD int log_fd = -1;
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_exec_spec full;
    int64_t began_us = cay_clock_mono_us();
    int r = complete(core, sb, exec_id, spec, a, &full, err);
    if (r < 0)
        return r;
    (void)cay_hold_try(&core->holds, exec_id, &hold); /* nobody else knows this id */
    r = cay_log_create(core->logs_fd, sb->id, exec_id, spec, &log_fd, err);
    if (r < 0)
        return r;
    full.awaited = spec->awaited && atomic_fetch_add(&core->awaiting, 1) < CAY_INIT_AWAITING;
    r = cay_provider_exec(core->provider, sb->id, exec_id, &full, log_fd, err);
    if (spec->awaited)
        atomic_fetch_sub(&core->awaiting, 1);
    if (r < 0) {
        cay_metric_add(&cay_core_refused, 1);
        cay_log_remove(core->logs_fd, sb->id, exec_id);
        return r;
    }
    cay_metric_add(&cay_core_begun, 1);
    cay_core_took(CAY_TOOK_EXEC, began_us + r);
    if (fd_out)
        *fd_out = cay_take_fd(&log_fd);
    return r;
}

int cay_core_run_start(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_exec_spec spec = {.argv = sb->spec.start, .text = sb->spec.start_text};
    char exec_id[CAY_ID_SIZE];
    if (!cay_spec_has_start(&sb->spec))
        return 0;
    cay_id_execution(exec_id);
    int r = begin(core, sb, exec_id, &spec, &a, NULL, err);
    if (r == 0)
        cay_str_copy(sb->start_exec, sizeof sb->start_exec, exec_id);
    return r;
}

/* What an earlier request with the same key began, if there was one. */
static int find_first(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                      const struct cay_once *once, struct cay_arena *a, struct cay_execution *out,
                      bool *found, int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    int r = cay_log_open(core->logs_fd, sb->id, exec_id, &fd, err);
    if (r == CAY_ERR_NOT_FOUND)
        return 0;
    *found = true;
    if (r == 0)
        r = cay_core_summary(core, sb, exec_id, fd, a, out, err);
    if (r == 0)
        r = cay_once_same(once, out->fingerprint, err);
    if (r == 0 && fd_out)
        *fd_out = cay_take_fd(&fd);
    return r;
}

int cay_core_check_exec(const struct cay_exec_spec *spec, struct cay_error *err)
{
    int r = cay_validate_exec(spec, err);
    return r < 0 ? r : cay_core_check_files(spec, err);
}

int cay_core_exec(struct cay_core *core, const struct cay_account *owner, const char *id,
                  const struct cay_exec_spec *spec, struct cay_arena *a, struct cay_execution *out,
                  int *fd_out, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold turn = {0};
    struct cay_sandbox sb;
    char exec_id[CAY_ID_SIZE];
    bool found = false;
    int r = cay_core_find(core, owner, id, a, &sb, err);
    if (r == 0)
        r = cay_core_check_exec(spec, err);
    cay_id_execution(exec_id);
    if (r == 0 && spec->once) {
        cay_once_execution(core, sb.id, spec->once, exec_id);
        r = cay_hold_wait(&core->holds, exec_id, &turn, err);
        if (r == 0)
            r = find_first(core, &sb, exec_id, spec->once, a, out, &found, fd_out, err);
    }
    if (r == 0 && !found)
        r = cay_state_apply(&sb.state, CAY_EXEC, err);
    if (r == 0 && !found)
        r = cay_core_put_files(core, &sb, spec, err);
    if (r < 0 || found)
        return r;
    struct cay_execution ex = {.status = CAY_EXEC_RUNNING,
                               .tty = spec->window.cols > 0,
                               .argv = spec->argv,
                               .text = spec->text,
                               .started_at_ms = cay_clock_ms()};
    if (!spec->once)
        (void)cay_hold_try(&core->holds, exec_id, &turn); /* nobody else knows this id */
    r = cay_running_add(core, &sb, exec_id, err);
    if (r < 0)
        return r;
    struct cay_tracked *due = cay_history_expect(core, &sb, exec_id, spec);
    r = begin(core, &sb, exec_id, spec, a, fd_out, err);
    cay_history_began(core, due, r >= 0);
    if (r < 0) {
        cay_running_drop(core, &sb, exec_id);
        return r;
    }
    cay_str_copy(ex.id, sizeof ex.id, exec_id);
    cay_str_copy(ex.sandbox_id, sizeof ex.sandbox_id, sb.id);
    bool told = r > 0 && fd_out && cay_core_exited(core, &ex, *fd_out, a, out);
    if (!told)
        *out = ex;
    return 0;
}

/* The sandbox's row is asked for first, so that ownership is decided before any file is opened. */
static int open_log(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const char *exec_id, struct cay_arena *a, struct cay_sandbox *sb, int *fd_out,
                    struct cay_error *err)
{
    int r = cay_core_find(core, owner, id, a, sb, err);
    if (r < 0)
        return r;
    if (!cay_id_is_execution(exec_id))
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "EXECUTION_NOT_FOUND", "execution not found");
    return cay_log_open(core->logs_fd, sb->id, exec_id, fd_out, err);
}

int cay_core_execution(struct cay_core *core, const struct cay_account *owner, const char *id,
                       const char *exec_id, struct cay_arena *a, struct cay_execution *out,
                       int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    struct cay_sandbox sb;
    int r = open_log(core, owner, id, exec_id, a, &sb, &fd, err);
    if (r == 0)
        r = cay_core_summary(core, &sb, exec_id, fd, a, out, err);
    if (r == 0 && fd_out)
        *fd_out = cay_take_fd(&fd);
    return r;
}

/* The row was read when it was begun. It is asked for again only when the log does not tell. */
int cay_core_outcome(struct cay_core *core, const struct cay_account *owner,
                     const struct cay_execution *begun, struct cay_arena *a,
                     struct cay_execution *out, int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    if (cay_log_open(core->logs_fd, begun->sandbox_id, begun->id, &fd, err) == 0 &&
        cay_core_exited(core, begun, fd, a, out)) {
        *fd_out = cay_take_fd(&fd);
        return 0;
    }
    return cay_core_execution(core, owner, begun->sandbox_id, begun->id, a, out, fd_out, err);
}

int cay_core_executions(struct cay_core *core, const struct cay_account *owner, const char *id,
                        int64_t page, int64_t per_page, struct cay_arena *a,
                        struct cay_execution_list *out, struct cay_error *err)
{
    struct cay_sandbox sb;
    struct cay_strs ids;
    struct cay_error ignored; /* a log that goes while we list is simply not in the list */
    int r = cay_core_find(core, owner, id, a, &sb, err);
    if (r == 0)
        r = cay_log_list(core->logs_fd, sb.id, a, &ids, err);
    if (r < 0)
        return r;
    struct cay_execution_list list = {.total = (int64_t)ids.count};
    int64_t from = (page - 1) * per_page, to = from + per_page;
    if (to > list.total)
        to = list.total;
    if (from < to)
        list.at = cay_arena_alloc(a, (size_t)(to - from) * sizeof *list.at);
    for (int64_t i = from; i < to; i++) {
        CAY_AUTO_FD int fd = -1;
        if (cay_log_open(core->logs_fd, sb.id, ids.at[i], &fd, &ignored) == 0 &&
            cay_core_summary(core, &sb, ids.at[i], fd, a, &list.at[list.count], &ignored) == 0)
            list.count++;
    }
    *out = list;
    return 0;
}

/* A running execution that something is asked of. */
static int find_running(struct cay_core *core, const struct cay_account *owner, const char *id,
                        const char *exec_id, struct cay_arena *a, struct cay_sandbox *sb,
                        struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    int r = open_log(core, owner, id, exec_id, a, sb, &fd, err);
    if (r == 0 && sb->state == CAY_PAUSED) /* pid 1, which acts, stands still as well */
        r = cay_state_apply(&sb->state, CAY_EXEC, err);
    return r;
}

/* What a provider says when execution or sandbox have ended, in one word for callers. */
static int not_running(int r, struct cay_error *err)
{
    const char *name = r < 0 ? cay_error_name(err) : "";
    if (r == CAY_ERR_NOT_FOUND || strcmp(name, "SANDBOX_NOT_RUNNING") == 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "EXECUTION_NOT_RUNNING",
                           "the execution does not run any more");
    return r;
}

int cay_core_input(struct cay_core *core, const struct cay_account *owner, const char *id,
                   const char *exec_id, bool closes, struct cay_input_ends *out,
                   struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int input = -1, end = -1, sink = -1, end_sink = -1;
    struct cay_sandbox sb;
    int fds[2];
    int r = find_running(core, owner, id, exec_id, &a, &sb, err);
    if (r < 0)
        return r;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a pipe");
    input = fds[0];
    sink = fds[1];
    if (closes && pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a pipe");
    if (closes) {
        end = fds[0];
        end_sink = fds[1];
    }
    r = not_running(cay_provider_input(core->provider, sb.id, exec_id, input, end, err), err);
    if (r == 0)
        *out = (struct cay_input_ends){cay_take_fd(&sink), cay_take_fd(&end_sink)};
    return r;
}

int cay_core_resize(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const char *exec_id, struct cay_window window, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox sb;
    int r = cay_validate_window(&window, err);
    if (r == 0)
        r = find_running(core, owner, id, exec_id, &a, &sb, err);
    return r < 0
               ? r
               : not_running(cay_provider_resize(core->provider, sb.id, exec_id, window, err), err);
}

int cay_core_kill(struct cay_core *core, const struct cay_account *owner, const char *id,
                  const char *exec_id, int signal, struct cay_arena *a, struct cay_execution *out,
                  struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    struct cay_sandbox sb;
    if (signal < 1 || signal > 64)
        return cay_fail_field(err, "signal", "a signal is a number from 1 to 64 or its name");
    int r = open_log(core, owner, id, exec_id, a, &sb, &fd, err);
    if (r == 0 && sb.state == CAY_PAUSED) /* pid 1, which sends signals, stands still as well */
        r = cay_state_apply(&sb.state, CAY_EXEC, err);
    if (r < 0)
        return r;
    r = cay_provider_kill(core->provider, sb.id, exec_id, signal, err);
    if (r == CAY_ERR_NOT_FOUND || r == CAY_ERR_CONFLICT)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "EXECUTION_NOT_RUNNING",
                           "the execution does not run any more");
    if (r < 0)
        return r;
    return cay_core_summary(core, &sb, exec_id, fd, a, out, err);
}

int cay_core_forget(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const char *exec_id, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = -1;
    struct cay_sandbox sb;
    struct cay_execution ex;
    int r = open_log(core, owner, id, exec_id, &a, &sb, &fd, err);
    if (r == 0)
        r = cay_core_summary(core, &sb, exec_id, fd, &a, &ex, err);
    if (r < 0)
        return r;
    if (ex.status == CAY_EXEC_RUNNING)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "EXECUTION_RUNNING",
                           "the execution runs: kill it first");
    if (!sb.deleted_at_ms && strcmp(sb.start_exec, exec_id) == 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "START_COMMAND",
                           "the start command's log goes with its sandbox");
    cay_log_remove(core->logs_fd, sb.id, exec_id);
    return 0;
}
