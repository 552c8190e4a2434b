/* SPDX-License-Identifier: Apache-2.0 */
#include "core/shift.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core.h"
#include <string.h>

/* The times are those from before the jump: what was counted anew since then is right already, and
 * what was moved is not moved twice. */
struct cay_shift {
    struct cay_shift *next;
    char id[CAY_ID_SIZE];
    char *account_id;
    int64_t expires_at_ms, started_at_ms;
    int64_t by_ms;
};

static struct cay_shift *find(const struct cay_shifts *s, const char *id)
{
    struct cay_shift *at = s->first;
    while (at && strcmp(at->id, id) != 0)
        at = at->next;
    return at;
}

static void add(struct cay_shifts *s, const struct cay_sandbox *sb, int64_t by_ms)
{
    struct cay_shift *at = calloc(1, sizeof *at);
    char *account_id = strdup(sb->account_id);
    if (!at || !account_id)
        abort();
    *at = (struct cay_shift){.next = s->first,
                             .account_id = account_id,
                             .expires_at_ms = sb->expires_at_ms,
                             .started_at_ms = sb->started_at_ms,
                             .by_ms = by_ms};
    cay_str_copy(at->id, sizeof at->id, sb->id);
    s->first = at;
}

static void drop(struct cay_shift **at)
{
    struct cay_shift *gone = *at;
    *at = gone->next;
    free(gone->account_id);
    free(gone);
}

static void read_rows(struct cay_core *core)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_shifts *s = &core->shifts;
    struct cay_sandbox_list rows;
    struct cay_error err = {0};
    if (cay_store_all(core->store, &a, &rows, &err) < 0) {
        cay_log_error(&err, "cannot move the end of sandboxes; none ends until it is done");
        return;
    }
    struct cay_shifts before = *s; /* a row is there once, so only those are looked at */
    for (size_t i = 0; i < rows.count; i++) {
        struct cay_shift *known = find(&before, rows.at[i].id);
        if (known)
            known->by_ms += s->unread_ms;
        else
            add(s, &rows.at[i], s->unread_ms);
    }
    s->unread_ms = 0;
}

/* An update counts from the start that it finds, so its end goes with that. */
static bool move(const struct cay_shift *by, struct cay_sandbox *sb)
{
    bool same_start = sb->started_at_ms && sb->started_at_ms == by->started_at_ms;
    bool same_end = sb->expires_at_ms && sb->expires_at_ms == by->expires_at_ms;
    if (sb->expires_at_ms && (same_end || same_start))
        sb->expires_at_ms += by->by_ms;
    if (same_start) /* what is counted from there still ends then */
        sb->started_at_ms += by->by_ms;
    return same_start || same_end;
}

/* False: it must be tried again. */
static bool move_row(struct cay_core *core, const struct cay_shift *by)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_error err = {0};
    if (!cay_hold_try(&core->holds, by->id, &hold))
        return false;
    int r = cay_store_get(core->store, by->account_id, by->id, &a, &sb, &err);
    if (r == CAY_ERR_NOT_FOUND || (r == 0 && (sb.deleted_at_ms || !move(by, &sb))))
        return true;
    if (r == 0) {
        sb.updated_at_ms = cay_clock_ms();
        r = cay_store_update(core->store, &sb, CAY_SOON, &err);
    }
    if (r < 0)
        cay_log_error(&err, "cannot move the end of sandbox %s", by->id);
    return r == 0;
}

void cay_keeper_shift(struct cay_core *core, int64_t jump_ms)
{
    struct cay_shifts *s = &core->shifts;
    if (jump_ms)
        cay_log_warn("the clock was set by %lld s; nothing expires for a minute",
                     (long long)(jump_ms / 1000));
    s->unread_ms += jump_ms;
    if (s->unread_ms)
        read_rows(core);
    for (struct cay_shift **at = &s->first; *at;)
        if (move_row(core, *at))
            drop(at);
        else
            at = &(*at)->next;
}

bool cay_shift_is_due(const struct cay_core *core, const char *id)
{
    return core->shifts.unread_ms != 0 || find(&core->shifts, id);
}

void cay_shifts_done(struct cay_shifts *s)
{
    while (s->first)
        drop(&s->first);
}
