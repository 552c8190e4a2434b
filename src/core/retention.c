/* SPDX-License-Identifier: Apache-2.0 */
/* Logs are weighed by the blocks they take. Whose a sandbox is, also one that is gone, its row
 * tells; logs without a row are left to the sweep by age.
 *
 * It is pid 1 that keeps each log short, and pid 1 is the sandbox's: how much they take together is
 * therefore looked at from here, and one that takes too much by what still runs is stopped. */
#include "core/retention.h"
#include "base/log.h"
#include "core/core.h"
#include "core/keeper.h"
#include "log/files.h"
#include "log/reader.h"
#include "model/limits.h"
#include <string.h>

#define AGAIN_MS 1000 /* when somebody else is at the sandbox */

struct weighing {
    struct cay_core *core;
    struct cay_arena a;
    struct cay_sandbox_list rows; /* that live */
    struct cay_buf logs, holders;
    int64_t sandbox_bytes;
};

static void weighing_done(struct weighing *w)
{
    cay_arena_done(&w->a);
    cay_buf_done(&w->logs);
    cay_buf_done(&w->holders);
}

static int oldest_first(const void *a, const void *b)
{
    const struct cay_log_weight *x = a, *y = b;
    return (x->written_ms > y->written_ms) - (x->written_ms < y->written_ms);
}

static size_t count_of(const struct cay_buf *logs)
{
    return logs->len / sizeof(struct cay_log_weight);
}

/* Its place among the holders, which is made when it is new. */
static size_t find_holder(struct weighing *w, const char *account_id)
{
    struct cay_log_holder *at = (struct cay_log_holder *)(void *)w->holders.data;
    size_t count = w->holders.len / sizeof *at;
    for (size_t i = 0; i < count; i++)
        if (strcmp(at[i].account_id, account_id) == 0)
            return i;
    struct cay_log_holder new = {0};
    cay_str_copy(new.account_id, sizeof new.account_id, account_id);
    cay_buf_add(&w->holders, &new, sizeof new);
    return count;
}

/* One look-up for the logs of each sandbox, which lie side by side. */
static int find_holders(struct weighing *w, struct cay_error *err)
{
    struct cay_log_weight *logs = (struct cay_log_weight *)(void *)w->logs.data;
    const char *whose = NULL;
    for (size_t i = 0; i < count_of(&w->logs); i++) {
        bool same = i > 0 && strcmp(logs[i].sandbox_id, logs[i - 1].sandbox_id) == 0;
        int r = same ? 0 : cay_store_whose(w->core->store, logs[i].sandbox_id, &w->a, &whose, err);
        if (r < 0 && r != CAY_ERR_NOT_FOUND)
            return r;
        if (r == CAY_ERR_NOT_FOUND)
            whose = "";
        logs[i].holder = find_holder(w, whose);
        ((struct cay_log_holder *)(void *)w->holders.data)[logs[i].holder].bytes += logs[i].bytes;
    }
    return 0;
}

static const struct cay_sandbox *find_row(const struct weighing *w, const char *id)
{
    for (size_t i = 0; i < w->rows.count; i++)
        if (strcmp(w->rows.at[i].id, id) == 0)
            return &w->rows.at[i];
    return NULL;
}

static bool is_up(const struct cay_sandbox *sb)
{
    return sb->state == CAY_PENDING || sb->state == CAY_RUNNING || sb->state == CAY_PAUSED;
}

/* The log alone says whether it ended, or a fact beside it; who cannot tell says no. Where nothing
 * runs all have ended, and a log that outgrew all of them is not spared for being the first. */
static bool may_go(struct weighing *w, const struct cay_log_weight *log)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;
    struct cay_error ignored;
    const struct cay_sandbox *sb = find_row(w, log->sandbox_id);
    if (!sb)
        return true;
    if (strcmp(sb->start_exec, log->exec_id) == 0)
        return !is_up(sb) && log->bytes > w->sandbox_bytes;
    if (!is_up(sb))
        return true;
    return cay_log_open(w->core->logs_fd, log->sandbox_id, log->exec_id, &fd, &ignored) == 0 &&
           cay_log_summary(fd, &a, &ex, &ignored) == 0 &&
           (ex.status == CAY_EXEC_EXITED || cay_core_lost(w->core, log->sandbox_id, log->exec_id));
}

static void stop(struct cay_core *core, const struct cay_sandbox *seen, int64_t bytes)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_error err = {0};
    if (!cay_hold_try(&core->holds, seen->id, &hold)) {
        cay_keeper_look(core, AGAIN_MS);
        return;
    }
    int r = cay_store_get(core->store, seen->account_id, seen->id, &a, &sb, &err);
    if (r == 0 && sb.state != CAY_RUNNING && sb.state != CAY_PAUSED)
        return;
    struct cay_death why = {
        .reason = "disk",
        .message = cay_arena_printf(&a, "stopped: the logs of its commands took %lld MiB",
                                    (long long)(bytes / CAY_MIB))};
    if (r == 0)
        r = cay_core_stop_held(core, &sb, &why, 0, &err);
    if (r < 0)
        cay_log_error(&err, "cannot stop sandbox %s, whose logs take %lld bytes", seen->id,
                      (long long)bytes);
    else
        cay_log_warn("sandbox %s is stopped: its logs took %lld bytes", seen->id, (long long)bytes);
    if (r == 0)
        cay_keeper_look(core, 0); /* now they may go */
}

/* Those of one sandbox, which lie side by side. Returns what is left of them. */
static int64_t trim(struct weighing *w, struct cay_log_weight *logs, size_t count, int64_t bytes)
{
    long long removed = 0;
    qsort(logs, count, sizeof *logs, oldest_first);
    for (size_t i = 0; i < count && bytes > w->sandbox_bytes; i++) {
        if (!may_go(w, &logs[i]))
            continue;
        cay_log_remove(w->core->logs_fd, logs[i].sandbox_id, logs[i].exec_id);
        bytes -= logs[i].bytes;
        logs[i].bytes = 0;
        removed++;
    }
    if (removed > 0)
        cay_log_info("sandbox %s had more than %lld bytes of logs: the oldest %lld are removed",
                     logs[0].sandbox_id, (long long)w->sandbox_bytes, removed);
    return bytes;
}

/* Where the logs of the next sandbox begin, and what those of this one take. */
static size_t next_sandbox(const struct weighing *w, size_t from, int64_t *bytes_out)
{
    const struct cay_log_weight *logs = (const struct cay_log_weight *)(void *)w->logs.data;
    size_t to = from;
    *bytes_out = 0;
    for (; to < count_of(&w->logs) && strcmp(logs[to].sandbox_id, logs[from].sandbox_id) == 0; to++)
        *bytes_out += logs[to].bytes;
    return to;
}

static bool is_too_much(const struct weighing *w, int64_t account_bytes)
{
    int64_t all = 0, bytes;
    for (size_t at = 0; at < count_of(&w->logs); all += bytes) {
        at = next_sandbox(w, at, &bytes);
        if (bytes > w->sandbox_bytes)
            return true;
    }
    return all > account_bytes;
}

static void mind_sandboxes(struct weighing *w)
{
    struct cay_log_weight *logs = (struct cay_log_weight *)(void *)w->logs.data;
    int64_t bytes;
    for (size_t at = 0, next; at < count_of(&w->logs); at = next) {
        next = next_sandbox(w, at, &bytes);
        if (bytes <= w->sandbox_bytes)
            continue;
        bytes = trim(w, logs + at, next - at, bytes);
        const struct cay_sandbox *sb = find_row(w, logs[at].sandbox_id);
        if (sb && bytes > w->sandbox_bytes * CAY_LOG_SANDBOX_STOP)
            stop(w->core, sb, bytes);
    }
}

static void remove_oldest(struct weighing *w, int64_t account_bytes)
{
    const struct cay_log_weight *logs = (const struct cay_log_weight *)(void *)w->logs.data;
    struct cay_log_holder *holders = (struct cay_log_holder *)(void *)w->holders.data;
    for (size_t i = 0; i < count_of(&w->logs); i++) {
        struct cay_log_holder *h = &holders[logs[i].holder];
        if (!h->account_id[0] || h->bytes <= account_bytes || logs[i].bytes == 0 ||
            !may_go(w, &logs[i]))
            continue;
        cay_log_remove(w->core->logs_fd, logs[i].sandbox_id, logs[i].exec_id);
        h->bytes -= logs[i].bytes;
        h->removed++;
    }
    for (size_t i = 0; i < w->holders.len / sizeof *holders; i++)
        if (holders[i].removed > 0)
            cay_log_info("account %s had more than %lld bytes of logs: the oldest %lld are removed",
                         holders[i].account_id, (long long)account_bytes,
                         (long long)holders[i].removed);
}

int cay_retention_weigh(struct cay_core *core, struct cay_buf *out, struct cay_error *err)
{
    CAY_CLEANUP(weighing_done) struct weighing w = {.core = core};
    cay_log_weigh(core->logs_fd, &w.logs);
    int r = find_holders(&w, err);
    if (r == 0)
        cay_buf_add(out, w.holders.data, w.holders.len);
    return r;
}

int cay_retention_run(struct cay_core *core, int64_t sandbox_bytes, int64_t account_bytes,
                      struct cay_error *err)
{
    CAY_CLEANUP(weighing_done)
    struct weighing w = {.core = core, .sandbox_bytes = sandbox_bytes};
    cay_log_weigh(core->logs_fd, &w.logs);
    if (!is_too_much(&w, account_bytes))
        return 0;
    int r = cay_store_all(core->store, &w.a, &w.rows, err);
    if (r < 0)
        return r;
    mind_sandboxes(&w);
    r = find_holders(&w, err);
    if (r < 0)
        return r;
    qsort(w.logs.data, count_of(&w.logs), sizeof(struct cay_log_weight), oldest_first);
    remove_oldest(&w, account_bytes);
    return 0;
}
