/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/box.h"
#include "base/arena.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/leftover.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define RECORD_SIZE 512 /* one sector: it is written whole or not at all */
#define SPARES 32

/* Files whose sandbox is gone, kept for the next one: ext4 without a journal looks at every inode
 * that was given up in the last minute before it takes a new one, and so a busy engine would slow
 * itself down, and all others on that disk. Until it is written anew such a file holds another's
 * record, under another id. */
static unsigned spares;

void cay_box_begin(int records_fd, const char *id)
{
    char name[CAY_LEFTOVER_NAME];
    if (spares == 0)
        return;
    cay_leftover_name(name, --spares);
    (void)renameat2(records_fd, name, records_fd, id, RENAME_NOREPLACE); /* else save makes one */
}

int cay_box_remove(int records_fd, const char *id, struct cay_error *err)
{
    char name[CAY_LEFTOVER_NAME];
    cay_leftover_name(name, spares);
    if (spares < SPARES && renameat(records_fd, id, records_fd, name) == 0) {
        spares++;
        return 0;
    }
    if (unlinkat(records_fd, id, 0) < 0 && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot remove the record of %s", id);
    return 0;
}

int cay_box_save(int records_fd, const struct cay_box_record *r, struct cay_error *err)
{
    char text[RECORD_SIZE];
    const struct cay_engine_entry *e = &r->entry;
    int len = snprintf(
        text, sizeof text,
        "version=1\nid=%s\nrunning=%d\nintent=%d\npid=%d\nstart_ticks=%llu\nboot_id=%s\n"
        "started_at_ms=%lld\nended_at_ms=%lld\nreason=%s\nexit_code=%d\nsignal=%d\n"
        "cpu_us=%llu\nmemory_peak_bytes=%llu\noom_kills=%llu\npaused=%d\n"
        "volume=%s\ndrop_volume=%d\n",
        e->id, r->running, r->intent, r->pid, (unsigned long long)r->start_ticks, r->boot_id,
        (long long)e->started_at_ms, (long long)e->ended_at_ms, e->reason, e->exit_code, e->signal,
        (unsigned long long)e->cpu_us, (unsigned long long)e->memory_peak_bytes,
        (unsigned long long)e->oom_kills, r->paused, r->volume, r->drop_volume);
    assert(len < RECORD_SIZE);
    memset(text + len, '\n', sizeof text - (size_t)len);
    /* In place, because a rename would give up an inode each time, and ext4 looks at everyone that
     * was given up in the last minute before it takes a new one. */
    CAY_AUTO_FD int fd =
        openat(records_fd, e->id, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || pwrite(fd, text, sizeof text, 0) != sizeof text)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot write the record of %s", e->id);
    return 0;
}

int cay_box_renew(int records_fd, const struct cay_box_record *r, struct cay_error *err)
{
    int rc = cay_box_save(records_fd, r, err);
    if (rc < 0)
        return rc;
    CAY_AUTO_FD int fd = openat(records_fd, r->entry.id, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, RECORD_SIZE) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot cut the record of %s", r->entry.id);
    return 0;
}

static void set_field(struct cay_box_record *r, const char *key, const char *value)
{
    struct cay_engine_entry *e = &r->entry;
    const struct {
        const char *key;
        uint64_t *u64;
        int64_t *i64;
        int32_t *i32;
    } numbers[] = {
        {"start_ticks", &r->start_ticks, NULL, NULL},
        {"cpu_us", &e->cpu_us, NULL, NULL},
        {"memory_peak_bytes", &e->memory_peak_bytes, NULL, NULL},
        {"oom_kills", &e->oom_kills, NULL, NULL},
        {"started_at_ms", NULL, &e->started_at_ms, NULL},
        {"ended_at_ms", NULL, &e->ended_at_ms, NULL},
        {"exit_code", NULL, NULL, &e->exit_code},
        {"signal", NULL, NULL, &e->signal},
        {"pid", NULL, NULL, &r->pid},
    };
    int64_t n = 0;

    if (strcmp(key, "boot_id") == 0)
        cay_str_copy(r->boot_id, sizeof r->boot_id, value);
    else if (strcmp(key, "reason") == 0)
        cay_str_copy(e->reason, sizeof e->reason, value);
    else if (strcmp(key, "volume") == 0 && cay_id_is_volume(value))
        cay_str_copy(r->volume, sizeof r->volume, value);
    if (!cay_str_i64(value, &n))
        return;
    if (strcmp(key, "running") == 0)
        r->running = n == 1;
    else if (strcmp(key, "paused") == 0)
        r->paused = n == 1;
    else if (strcmp(key, "drop_volume") == 0)
        r->drop_volume = n == 1;
    else if (strcmp(key, "intent") == 0)
        r->intent = n == 1 || n == 2 ? (enum cay_intent)n : CAY_INTENT_NONE;
    for (size_t i = 0; i < CAY_COUNT(numbers); i++) {
        if (strcmp(key, numbers[i].key) != 0)
            continue;
        if (numbers[i].u64)
            *numbers[i].u64 = (uint64_t)n;
        if (numbers[i].i64)
            *numbers[i].i64 = n;
        if (numbers[i].i32)
            *numbers[i].i32 = (int32_t)n;
    }
}

int cay_box_load(int records_fd, const char *id, struct cay_box_record *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    char *text, *rest = NULL;
    int r = cay_path_read(records_fd, id, 8 * RECORD_SIZE, &a, &text, NULL, err);
    if (r < 0)
        return r;
    if (!*text)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "the record of %s was never written", id);
    if (strlen(text) != RECORD_SIZE)
        return cay_fail(err, CAY_ERR_PROVIDER, "the record of %s is damaged", id);
    *out = (struct cay_box_record){0};
    cay_str_copy(out->entry.id, sizeof out->entry.id, id);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        if (!value)
            continue;
        *value++ = 0;
        if (strcmp(line, "id") == 0 && strcmp(value, id) != 0)
            return cay_fail(err, CAY_ERR_NOT_FOUND, "the record of %s was never written", id);
        set_field(out, line, value);
    }
    out->entry.state = !out->running ? CAY_ENGINE_STOPPED
                       : out->paused ? CAY_ENGINE_PAUSED
                                     : CAY_ENGINE_RUNNING;
    return 0;
}
