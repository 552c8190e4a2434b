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
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define RECORD_MAX 8192 /* the kernel's own bound is below that */
#define AT_ONCE 256     /* records, of which a kill has dozens; the rest wakes us again */
#define KILLS_AT_ONCE 8 /* for each of them all sandboxes are looked at */

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

/* A name may hold anything, also what stands behind it: so that is looked for from the end. What
 * stands before it is more than a name can be: in other lines of the kernel names come first. */
bool cay_victim_parse(const char *record, uint32_t *uid_out, char name_out[16])
{
    static const char *const begins[] = {
        ";Memory cgroup out of memory: Killed process ", ";Out of memory: Killed process ",
        ";Out of memory (oom_kill_allocating_task): Killed process "};
    static const char sizes[] = ") total-vm:", uid[] = ", UID:";
    const char *text = strchr(record, ';'), *who = NULL;
    bool by_kernel = strtoul(record, NULL, 10) < 8; /* a process that writes there gets more */
    for (size_t i = 0; text && by_kernel && !who && i < CAY_COUNT(begins); i++)
        if (strncmp(text, begins[i], strlen(begins[i])) == 0)
            who = text + strlen(begins[i]);
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

/* True: it tells of a kill, be it of one of ours or not. */
static bool note(struct cay_dispatcher *d, const char *record)
{
    struct cay_victim v = {.at_ms = cay_clock_ms()};
    uint32_t uid;
    if (!cay_victim_parse(record, &uid, v.name))
        return false;
    struct cay_box *box = whose(d, uid);
    if (box) {
        memmove(&box->victims[1], &box->victims[0], sizeof box->victims - sizeof v);
        box->victims[0] = v;
    }
    return true;
}

void cay_victims_read(struct cay_dispatcher *d)
{
    char record[RECORD_MAX];
    int kills = 0;
    for (int i = 0; d->kernel_log.fd >= 0 && i < AT_ONCE && kills < KILLS_AT_ONCE; i++) {
        ssize_t n = read(d->kernel_log.fd, record, sizeof record - 1);
        if (n < 0 && errno == EPIPE)
            continue; /* it was too fast for us: some are lost */
        if (n <= 0) {
            if (n == 0 || errno != EAGAIN) {
                cay_dispatcher_unwatch(d, &d->kernel_log);
                cay_close_fd(&d->kernel_log.fd);
            }
            return;
        }
        record[n] = 0;
        kills += note(d, record);
    }
}

int cay_kernel_log_open(void)
{
    struct stat st;
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 11))) {
        cay_close_fd(&fd);
        errno = ENODEV;
    }
    if (fd >= 0)
        (void)lseek(fd, 0, SEEK_END);
    return fd;
}

void cay_victims_open(struct cay_dispatcher *d)
{
    d->kernel_log = (struct cay_source){CAY_FROM_KERNEL_LOG, cay_kernel_log_open()};
    if (d->kernel_log.fd >= 0) /* else nobody is named */
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
