/* SPDX-License-Identifier: Apache-2.0 */
/* A list of the commands that were begun, for each account whose quota bounds them. That one ended
 * is not told here: when the list is full, the logs are asked, and what ended goes. So no way in
 * which a command can end is forgotten, and a command within the quota costs a look at a number.
 *
 * The list is made from the logs when it is first wanted, so a server that was killed leaves
 * nothing wrong behind. A log without an end whose command never began is settled as lost
 * meanwhile. Start commands are not counted: the quota of sandboxes bounds them. */
#include "core/running.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/retention.h"
#include "log/files.h"
#include "log/reader.h"
#include "model/limits.h"
#include <string.h>

struct entry {
    char sandbox_id[CAY_ID_SIZE], exec_id[CAY_ID_SIZE];
};

struct cay_running_account {
    struct cay_running_account *next;
    char id[CAY_ID_SIZE];
    pthread_mutex_t lock; /* of what follows */
    bool known;
    uint64_t turn;          /* rises when it is forgotten */
    struct cay_buf entries; /* struct entry */
};

void cay_running_init(struct cay_running *r)
{
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->weighing, NULL);
    pthread_mutex_init(&r->weights, NULL);
}

void cay_running_done(struct cay_running *r)
{
    while (r->first) {
        struct cay_running_account *gone = r->first;
        r->first = gone->next;
        cay_buf_done(&gone->entries);
        pthread_mutex_destroy(&gone->lock);
        free(gone);
    }
    cay_buf_done(&r->weighed);
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->weighing);
    pthread_mutex_destroy(&r->weights);
}

/* Those who have a quota are few; NULL only when `make` is not said. */
static struct cay_running_account *find(struct cay_running *r, const char *id, bool make)
{
    pthread_mutex_lock(&r->lock);
    struct cay_running_account *at = r->first;
    while (at && strcmp(at->id, id) != 0)
        at = at->next;
    if (!at && make) {
        at = calloc(1, sizeof *at);
        if (!at)
            abort();
        cay_str_copy(at->id, sizeof at->id, id);
        pthread_mutex_init(&at->lock, NULL);
        at->next = r->first;
        r->first = at;
    }
    pthread_mutex_unlock(&r->lock);
    return at;
}

/* ---- who has no quota ---- */

static struct cay_unbounded *slot_of(struct cay_running *r, const char *id)
{
    unsigned hash = 0;
    for (; *id; id++)
        hash = 31 * hash + (unsigned char)*id;
    return &r->unbounded[hash % CAY_UNBOUNDED];
}

static bool is_unbounded(struct cay_running *r, const char *id, uint64_t *turn_out)
{
    pthread_mutex_lock(&r->lock);
    const struct cay_unbounded *slot = slot_of(r, id);
    bool is = strcmp(slot->id, id) == 0 && cay_clock_mono_ms() < slot->look_again_ms;
    *turn_out = r->turn;
    pthread_mutex_unlock(&r->lock);
    return is;
}

/* Nothing when a quota was set since the caller looked: it may have been this one's. */
static void note_unbounded(struct cay_running *r, const char *id, uint64_t turn)
{
    pthread_mutex_lock(&r->lock);
    struct cay_unbounded *slot = slot_of(r, id);
    if (turn == r->turn) {
        cay_str_copy(slot->id, sizeof slot->id, id);
        slot->look_again_ms = cay_clock_mono_ms() + CAY_UNBOUNDED_MS;
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- commands ---- */

static bool runs(struct cay_core *core, const struct entry *e)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex = {0};
    struct cay_error ignored; /* a log that is gone, or none, is of no command that runs */
    return cay_hold_is(&core->holds, e->exec_id) ||
           (cay_log_open(core->logs_fd, e->sandbox_id, e->exec_id, &fd, &ignored) == 0 &&
            cay_log_summary(fd, &a, &ex, &ignored) == 0 && ex.status == CAY_EXEC_RUNNING &&
            !cay_core_lost(core, e->sandbox_id, e->exec_id));
}

static size_t count_of(const struct cay_buf *entries)
{
    return entries->len / sizeof(struct entry);
}

/* What ended goes; the last one takes its place. */
static void remove_ended(struct cay_core *core, struct cay_buf *entries)
{
    struct entry *at = (struct entry *)(void *)entries->data;
    for (size_t i = count_of(entries); i-- > 0;)
        if (!runs(core, &at[i])) {
            at[i] = at[count_of(entries) - 1];
            entries->len -= sizeof *at;
        }
}

/* A log without an end may be of a command that never began: that is found out in the background,
 * and until then it counts. */
static int add_of(struct cay_core *core, const struct cay_sandbox *sb, bool settle,
                  struct cay_arena *a, struct cay_buf *out, struct cay_error *err)
{
    struct cay_strs ids;
    if (sb->state != CAY_RUNNING && sb->state != CAY_PAUSED)
        return 0;
    int r = cay_log_list(core->logs_fd, sb->id, a, &ids, err);
    for (size_t i = 0; i < ids.count && r == 0; i++) {
        struct entry e;
        cay_str_copy(e.sandbox_id, sizeof e.sandbox_id, sb->id);
        cay_str_copy(e.exec_id, sizeof e.exec_id, ids.at[i]);
        if (strcmp(e.exec_id, sb->start_exec) == 0 || !runs(core, &e))
            continue;
        cay_buf_add(out, &e, sizeof e);
        if (settle)
            (void)cay_settle(core, sb->id, e.exec_id); /* else when somebody asks for it */
    }
    return r;
}

static int read_all(struct cay_core *core, const char *account_id, bool settle, struct cay_buf *out,
                    struct cay_error *err)
{
    struct cay_list_filter filter = {
        .account_id = account_id, .page = 1, .per_page = CAY_MAX_PER_PAGE};
    bool more = true;
    int r = 0;
    for (; more && r == 0; filter.page++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_sandbox_list rows = {0};
        r = cay_store_list(core->store, &filter, &a, &rows, err);
        for (size_t i = 0; i < rows.count && r == 0; i++)
            r = add_of(core, &rows.at[i], settle, &a, out, err);
        more = filter.page * filter.per_page < rows.total;
    }
    return r;
}

/* Locked on success. The logs are read without the lock: others of the account do the same rather
 * than wait, and whoever is first is believed. */
static int lock_known(struct cay_core *core, struct cay_running_account *account,
                      struct cay_error *err)
{
    pthread_mutex_lock(&account->lock);
    while (!account->known) {
        CAY_AUTO_BUF struct cay_buf entries = {0};
        uint64_t turn = account->turn;
        pthread_mutex_unlock(&account->lock);
        int r = read_all(core, account->id, true, &entries, err);
        if (r < 0)
            return r;
        pthread_mutex_lock(&account->lock);
        if (account->known || account->turn != turn)
            continue;
        struct cay_buf old = account->entries;
        account->entries = entries;
        entries = old;
        account->known = true;
    }
    return 0;
}

static int add_command(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                       int64_t quota, struct cay_error *err)
{
    struct cay_running_account *account = find(&core->running, sb->account_id, true);
    struct entry e;
    cay_str_copy(e.sandbox_id, sizeof e.sandbox_id, sb->id);
    cay_str_copy(e.exec_id, sizeof e.exec_id, exec_id);
    int r = lock_known(core, account, err);
    if (r < 0)
        return r;
    if ((int64_t)count_of(&account->entries) >= quota)
        remove_ended(core, &account->entries);
    int64_t count = (int64_t)count_of(&account->entries);
    if (count >= quota)
        r = cay_fail_quota(err, cay_quota_name(CAY_QUOTA_EXECUTIONS), (double)quota, (double)count);
    else
        cay_buf_add(&account->entries, &e, sizeof e);
    pthread_mutex_unlock(&account->lock);
    return r;
}

void cay_running_drop(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id)
{
    struct cay_running_account *account = find(&core->running, sb->account_id, false);
    if (!account)
        return;
    pthread_mutex_lock(&account->lock);
    struct entry *at = (struct entry *)(void *)account->entries.data;
    for (size_t i = count_of(&account->entries); i-- > 0;)
        if (strcmp(at[i].exec_id, exec_id) == 0) {
            at[i] = at[count_of(&account->entries) - 1];
            account->entries.len -= sizeof *at;
            break;
        }
    pthread_mutex_unlock(&account->lock);
}

void cay_running_forget(struct cay_core *core, const char *account_id)
{
    struct cay_running *all = &core->running;
    pthread_mutex_lock(&all->lock);
    all->turn++;
    slot_of(all, account_id)->look_again_ms = 0;
    pthread_mutex_unlock(&all->lock);
    struct cay_running_account *account = find(all, account_id, false);
    if (!account)
        return;
    pthread_mutex_lock(&account->lock);
    account->known = false;
    account->turn++;
    account->entries.len = 0;
    pthread_mutex_unlock(&account->lock);
}

/* ---- logs ---- */

/* One weighing serves all accounts; who comes while it is made takes the last one. */
static int weigh(struct cay_core *core, int64_t max_age_ms, struct cay_error *err)
{
    struct cay_running *all = &core->running;
    pthread_mutex_lock(&all->weights);
    bool never = all->weighed_at_ms == 0;
    bool fresh = !never && cay_clock_mono_ms() - all->weighed_at_ms < max_age_ms;
    pthread_mutex_unlock(&all->weights);
    if (fresh)
        return 0;
    if (never)
        pthread_mutex_lock(&all->weighing);
    else if (pthread_mutex_trylock(&all->weighing) != 0)
        return 0;
    CAY_AUTO_BUF struct cay_buf holders = {0};
    int r = cay_retention_weigh(core, &holders, err);
    if (r == 0) {
        pthread_mutex_lock(&all->weights);
        struct cay_buf old = all->weighed;
        all->weighed = holders;
        holders = old;
        all->weighed_at_ms = cay_clock_mono_ms();
        pthread_mutex_unlock(&all->weights);
    }
    pthread_mutex_unlock(&all->weighing);
    return r;
}

static int64_t weight_of(struct cay_running *all, const char *account_id)
{
    int64_t bytes = 0;
    pthread_mutex_lock(&all->weights);
    const struct cay_log_holder *at = (const struct cay_log_holder *)(void *)all->weighed.data;
    for (size_t i = 0; i < all->weighed.len / sizeof *at; i++)
        if (strcmp(at[i].account_id, account_id) == 0)
            bytes = at[i].bytes;
    pthread_mutex_unlock(&all->weights);
    return bytes;
}

/* Nobody is refused for what he has just removed. */
static int check_logs(struct cay_core *core, const char *account_id, int64_t quota,
                      struct cay_error *err)
{
    int r = weigh(core, CAY_LOG_WEIGH_MS, err);
    if (r == 0 && weight_of(&core->running, account_id) >= quota)
        r = weigh(core, CAY_LOG_WEIGH_AGAIN_MS, err);
    int64_t bytes = r == 0 ? weight_of(&core->running, account_id) : 0;
    if (r == 0 && bytes >= quota)
        r = cay_fail_quota(err, cay_quota_name(CAY_QUOTA_LOG_BYTES), (double)quota, (double)bytes);
    return r;
}

int cay_running_add(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                    struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_holder holder;
    uint64_t turn;
    if (is_unbounded(&core->running, sb->account_id, &turn))
        return 0;
    int r = cay_core_holder(core, sb->account_id, &a, &holder, err);
    if (r == CAY_ERR_NOT_FOUND) /* nobody has set a quota for one that nobody knows */
        return 0;
    if (r < 0)
        return r;
    int64_t bytes = holder.quota.at[CAY_QUOTA_LOG_BYTES];
    int64_t commands = holder.quota.at[CAY_QUOTA_EXECUTIONS];
    if (bytes == CAY_QUOTA_NONE && commands == CAY_QUOTA_NONE)
        note_unbounded(&core->running, sb->account_id, turn);
    if (bytes != CAY_QUOTA_NONE)
        r = check_logs(core, sb->account_id, bytes, err);
    if (r == 0 && commands != CAY_QUOTA_NONE)
        r = add_command(core, sb, exec_id, commands, err);
    return r;
}

/* Who has no quota has no list. */
static int count_commands(struct cay_core *core, const struct cay_holder *holder, int64_t *out,
                          struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf entries = {0};
    int r;
    if (holder->quota.at[CAY_QUOTA_EXECUTIONS] == CAY_QUOTA_NONE) {
        r = read_all(core, holder->id, false, &entries, err);
        *out = (int64_t)count_of(&entries);
        return r;
    }
    struct cay_running_account *account = find(&core->running, holder->id, true);
    r = lock_known(core, account, err);
    if (r < 0)
        return r;
    remove_ended(core, &account->entries);
    *out = (int64_t)count_of(&account->entries);
    pthread_mutex_unlock(&account->lock);
    return 0;
}

int cay_running_usage(struct cay_core *core, const struct cay_holder *holder,
                      struct cay_quota *used, struct cay_error *err)
{
    int64_t commands;
    int r = count_commands(core, holder, &commands, err);
    if (r == 0)
        r = weigh(core, CAY_LOG_WEIGH_AGAIN_MS, err);
    if (r < 0)
        return r;
    used->at[CAY_QUOTA_EXECUTIONS] = commands;
    used->at[CAY_QUOTA_LOG_BYTES] = weight_of(&core->running, holder->id);
    return 0;
}
