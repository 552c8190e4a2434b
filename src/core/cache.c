/* SPDX-License-Identifier: Apache-2.0 */
/* Usage and start command's exit, each behind one second of patience. The first GET that finds a
 * figure old asks anew; those that come meanwhile take the old one, so that a thousand readers make
 * one call. */
#include "core/cache.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/network.h"
#include "log/files.h"
#include "log/reader.h"
#include "model/limits.h"
#include <string.h>

#define PERCENT_MIN_US 20000 /* nearer readings are mostly the kernel's grain */
#define SCAN_MAX 65536       /* records looked at in one go; the next GET goes on */

static unsigned slot_of(const char *id)
{
    unsigned h = 2166136261u;
    for (; *id; id++)
        h = (h ^ (unsigned char)*id) * 16777619u;
    return h % CAY_CACHE_SLOTS;
}

/* What was read last; true when it need not be read anew. Whoever is told false reads, and those
 * that come meanwhile take the old one. */
static bool recall(struct cay_core *core, const char *id, int64_t max_age_ms, bool *known_out,
                   struct cay_stats *out)
{
    struct cay_cache_usage *slot = &core->cache.usage[slot_of(id)];
    int64_t now = cay_clock_mono_ms();
    pthread_mutex_lock(&core->cache.lock);
    bool mine = strcmp(slot->id, id) == 0;
    bool fresh = mine && now - slot->asked_at_ms < max_age_ms;
    *known_out = mine && slot->known;
    if (*known_out)
        *out = slot->last;
    if (!mine)
        *slot = (struct cay_cache_usage){0};
    if (!fresh) {
        cay_str_copy(slot->id, sizeof slot->id, id);
        slot->asked_at_ms = now;
    }
    pthread_mutex_unlock(&core->cache.lock);
    return fresh;
}

static void remember(struct cay_core *core, const char *id, const struct cay_stats *stats)
{
    struct cay_cache_usage *slot = &core->cache.usage[slot_of(id)];
    pthread_mutex_lock(&core->cache.lock);
    if (strcmp(slot->id, id) == 0) {
        slot->last = *stats;
        slot->known = true;
        slot->asked_at_ms = stats->read_at_us / 1000;
    }
    pthread_mutex_unlock(&core->cache.lock);
}

void cay_cache_forget(struct cay_cache *cache, const char *id)
{
    struct cay_cache_usage *slot = &cache->usage[slot_of(id)];
    pthread_mutex_lock(&cache->lock);
    if (strcmp(slot->id, id) == 0)
        *slot = (struct cay_cache_usage){0};
    pthread_mutex_unlock(&cache->lock);
}

/* Two readings too near each other, too far apart, or of two runs tell nothing. */
static double percent_between(const struct cay_stats *before, const struct cay_stats *now)
{
    int64_t us = now->read_at_us - before->read_at_us;
    if (us < PERCENT_MIN_US || us > CAY_STATS_MAX_MS * 2000LL ||
        now->usage.cpu_us < before->usage.cpu_us)
        return -1;
    return 100.0 * (double)(now->usage.cpu_us - before->usage.cpu_us) / (double)us;
}

/* `before` NULL: none. */
static int read_stats(struct cay_core *core, const char *id, const struct cay_stats *before,
                      struct cay_stats *out, struct cay_error *err)
{
    struct cay_stats now = {.cpu_percent = -1};
    int r = cay_provider_usage(core->provider, id, &now.usage, err);
    if (r < 0)
        return r;
    now.read_at_us = cay_clock_mono_us();
    cay_network_moved(core, id, &now.sent_bytes, &now.received_bytes);
    if (before)
        now.cpu_percent = percent_between(before, &now);
    cay_oom_saw(&core->oom, id, now.usage.oom_kills, cay_clock_ms());
    remember(core, id, &now);
    *out = now;
    return 0;
}

static bool is_up(const struct cay_sandbox *sb)
{
    return sb->state == CAY_RUNNING || sb->state == CAY_PAUSED;
}

bool cay_core_usage(struct cay_core *core, const struct cay_sandbox *sb, struct cay_stats *out)
{
    struct cay_error ignored; /* a GET is no place to fail for want of figures */
    struct cay_stats stats = {0};
    bool known;
    if (!is_up(sb))
        return false;
    if (!recall(core, sb->id, CAY_CACHE_MS, &known, &stats))
        known = read_stats(core, sb->id, known ? &stats : NULL, &stats, &ignored) == 0;
    if (known)
        *out = stats;
    return known;
}

int cay_core_stats(struct cay_core *core, const struct cay_sandbox *sb, struct cay_stats *out,
                   struct cay_error *err)
{
    struct cay_stats stats = {0};
    bool known;
    if (!is_up(sb))
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING",
                           "the sandbox is %s, not RUNNING", cay_state_name(sb->state));
    bool fresh = recall(core, sb->id, CAY_STATS_MIN_MS, &known, &stats);
    int r = fresh && known ? 0 : read_stats(core, sb->id, known ? &stats : NULL, &stats, err);
    if (r == CAY_ERR_NOT_FOUND) /* the row is there, so reconcile will say so soon */
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "the sandbox is gone");
    if (r == 0)
        *out = stats;
    return r;
}

int cay_core_stats_next(struct cay_core *core, const char *sandbox_id, struct cay_stats *stats,
                        struct cay_error *err)
{
    struct cay_stats before = *stats, last;
    bool known;
    if (!recall(core, sandbox_id, CAY_STATS_MIN_MS / 2, &known, &last) || !known)
        return read_stats(core, sandbox_id, &before, stats, err);
    if (last.read_at_us > before.read_at_us) { /* another stream's, of just now */
        *stats = last;
        stats->cpu_percent = percent_between(&before, &last);
    }
    return 0;
}

/* Reads on where the last look ended. */
static void scan(struct cay_core *core, const char *sandbox_id, struct cay_cache_start *seen)
{
    struct cay_error ignored; /* a log that cannot be read tells nothing */
    struct cay_reader reader;
    struct cay_record rec;
    int fd;
    if (cay_log_open(core->logs_fd, sandbox_id, seen->exec_id, &fd, &ignored) < 0)
        return;
    cay_reader_init(&reader, fd, seen->offset);
    reader.headers_only = true;
    for (int i = 0; i < SCAN_MAX && !seen->ended; i++) {
        if (cay_reader_next(&reader, &rec, &ignored) != CAY_READ_RECORD)
            break;
        seen->offset = rec.next;
        if (rec.kind == CAY_RECORD_EXIT && rec.data)
            seen->ended = cay_record_exit_read(rec.data, rec.len, &seen->end);
    }
    cay_reader_done(&reader);
}

bool cay_core_start_exit(struct cay_core *core, const struct cay_sandbox *sb,
                         struct cay_record_exit *out)
{
    if (!sb->start_exec[0])
        return false;
    struct cay_cache_start *slot = &core->cache.start[slot_of(sb->start_exec)];
    int64_t now = cay_clock_mono_ms();
    pthread_mutex_lock(&core->cache.lock);
    struct cay_cache_start seen = {0};
    bool mine = strcmp(slot->exec_id, sb->start_exec) == 0;
    if (mine)
        seen = *slot;
    bool fresh = mine && (seen.ended || now - seen.asked_at_ms < CAY_CACHE_MS);
    if (!fresh) {
        memcpy(seen.exec_id, sb->start_exec, sizeof seen.exec_id);
        seen.asked_at_ms = now;
        *slot = seen;
    }
    pthread_mutex_unlock(&core->cache.lock);
    if (!fresh) {
        scan(core, sb->id, &seen);
        pthread_mutex_lock(&core->cache.lock);
        *slot = seen;
        pthread_mutex_unlock(&core->cache.lock);
    }
    if (seen.ended)
        *out = seen.end;
    return seen.ended;
}
