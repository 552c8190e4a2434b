/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/victim.h"
#include "base/clock.h"
#include "base/str.h"
#include "engine/dispatcher.h"
#include "engine/hierarchy.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD_MAX 8192 /* the kernel's own bound is below that */
#define AT_ONCE 256     /* records; the rest wakes us again */

static const char *last_of(const char *text, const char *what)
{
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, what)); at++)
        found = at;
    return found;
}

/* What is no plain character comes as \\x and two digits. */
static void copy_name(const char *from, const char *end, char out[16])
{
    size_t len = 0;
    while (from < end && len < 15) {
        bool escaped = *from == '\\';
        out[len++] = escaped ? '?' : *from;
        from += escaped ? 4 : 1;
    }
    out[len] = 0;
}

/* A name may hold anything, also what stands behind it: so that is looked for from the end. */
bool cay_victim_parse(const char *record, uint32_t *uid_out, char name_out[16])
{
    static const char *const begins[] = {";Memory cgroup out of memory", ";Out of memory"};
    static const char killed[] = ": Killed process ", sizes[] = ") total-vm:", uid[] = ", UID:";
    const char *text = strchr(record, ';');
    bool meant = false;
    for (size_t i = 0; text && i < CAY_COUNT(begins); i++)
        meant |= strncmp(text, begins[i], strlen(begins[i])) == 0;
    const char *who = meant ? strstr(text, killed) : NULL;
    const char *name = who ? strchr(who, '(') : NULL, *end = name ? last_of(name, sizes) : NULL;
    const char *id = end ? strstr(end, uid) : NULL;
    if (!id)
        return false;
    *uid_out = (uint32_t)strtoul(id + strlen(uid), NULL, 10);
    copy_name(name + 1, end, name_out);
    return true;
}

static struct cay_box *whose(struct cay_dispatcher *d, uint32_t uid)
{
    for (size_t i = 0; i < CAY_BOX_BUCKETS; i++)
        for (struct cay_box *box = d->boxes[i]; box; box = box->next)
            if (box->record.running && box->base && uid - box->base < CAY_BERTH_IDS)
                return box;
    return NULL;
}

static void note(struct cay_dispatcher *d, const char *record)
{
    struct cay_victim v = {.at_ms = cay_clock_ms()};
    uint32_t uid;
    struct cay_box *box = cay_victim_parse(record, &uid, v.name) ? whose(d, uid) : NULL;
    if (!box)
        return;
    memmove(&box->victims[1], &box->victims[0], sizeof box->victims - sizeof v);
    box->victims[0] = v;
}

void cay_victims_read(struct cay_dispatcher *d)
{
    char record[RECORD_MAX];
    for (int i = 0; d->kernel_log.fd >= 0 && i < AT_ONCE; i++) {
        ssize_t n = read(d->kernel_log.fd, record, sizeof record - 1);
        if (n < 0 && errno == EPIPE)
            continue; /* it was too fast for us: some are lost */
        if (n <= 0)
            return;
        record[n] = 0;
        note(d, record);
    }
}

/* Not every host lets us. Then nobody is named. */
void cay_victims_open(struct cay_dispatcher *d)
{
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    d->kernel_log = (struct cay_source){CAY_FROM_KERNEL_LOG, fd};
    if (fd < 0)
        return;
    (void)lseek(fd, 0, SEEK_END); /* what was before is none of ours */
    cay_dispatcher_watch(d, &d->kernel_log, EPOLLIN);
}

uint32_t cay_victims_base_of(pid_t first)
{
    char path[32], map[64];
    unsigned inside = 1, base = 0;
    snprintf(path, sizeof path, "/proc/%d/uid_map", first);
    if (!cay_small_read(AT_FDCWD, path, map, sizeof map) ||
        sscanf(map, "%u %u", &inside, &base) != 2 || inside != 0)
        return 0;
    return base;
}
