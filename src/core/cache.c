/* SPDX-License-Identifier: Apache-2.0 */
/* Usage and start command's exit, each behind one second of patience. The first GET that finds a
 * figure old asks anew; those that come meanwhile take the old one, so that a thousand readers make
 * one call. */
#include "core/cache.h"
#include "base/clock.h"
#include "core/core.h"
#include "log/files.h"
#include "log/reader.h"
#include <string.h>

#define SCAN_MAX 65536 /* records looked at in one go; the next GET goes on */

static unsigned slot_of(const char *id)
{
    unsigned h = 2166136261u;
    for (; *id; id++)
        h = (h ^ (unsigned char)*id) * 16777619u;
    return h % CAY_CACHE_SLOTS;
}

bool cay_core_usage(struct cay_core *core, const struct cay_sandbox *sb, struct cay_usage *out)
{
    if (sb->state != CAY_RUNNING && sb->state != CAY_PAUSED)
        return false;
    struct cay_cache_usage *slot = &core->cache.usage[slot_of(sb->id)];
    int64_t now = cay_clock_mono_ms();
    pthread_mutex_lock(&core->cache.lock);
    bool mine = strcmp(slot->id, sb->id) == 0;
    bool fresh = mine && now - slot->asked_at_ms < CAY_CACHE_MS;
    bool known = mine && slot->known;
    if (known)
        *out = slot->usage;
    if (!mine)
        *slot = (struct cay_cache_usage){0};
    if (!fresh) {
        memcpy(slot->id, sb->id, sizeof slot->id);
        slot->asked_at_ms = now;
    }
    pthread_mutex_unlock(&core->cache.lock);
    if (fresh)
        return known;

    struct cay_error ignored; /* a GET is no place to fail for want of figures */
    struct cay_usage usage;
    if (cay_provider_usage(core->provider, sb->id, &usage, &ignored) < 0)
        return false;
    cay_oom_saw(&core->oom, sb->id, usage.oom_kills, cay_clock_ms());
    pthread_mutex_lock(&core->cache.lock);
    if (strcmp(slot->id, sb->id) == 0) {
        slot->usage = usage;
        slot->known = true;
    }
    pthread_mutex_unlock(&core->cache.lock);
    *out = usage;
    return true;
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
        if (rec.kind == CAY_RECORD_EXIT && rec.data && rec.len >= sizeof seen->end) {
            memcpy(&seen->end, rec.data, sizeof seen->end);
            seen->ended = true;
        }
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
