/* SPDX-License-Identifier: Apache-2.0 */
/* Rights and numbers of this machine that bound how much a server can do. */
#include "base/str.h"
#include "cli/doctor.h"
#include "model/limits.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <time.h>

#define KNOWN_PAST 1735689600 /* 2025 began: this program did not exist before */

static void try_root(const struct cay_probe *p, const struct cay_place *place,
                     struct cay_found *out)
{
    (void)p, (void)place;
    if (geteuid() == 0)
        cay_doctor_say(out, CAY_FINE, "%s", "");
    else
        cay_doctor_say(out, CAY_NOTED, "not root: `cay serve` needs it, and so do some trials");
}

static bool has_right(int cap)
{
    cap_flag_value_t value = CAP_CLEAR;
    cap_t caps = cap_get_proc();
    (void)cap_get_flag(caps, cap, CAP_EFFECTIVE, &value); /* not there when it fails */
    cap_free(caps);
    return value == CAP_SET;
}

static void try_rights(const struct cay_probe *p, const struct cay_place *place,
                       struct cay_found *out)
{
    static const int needed[] = {CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID,     CAP_SETPCAP,
                                 CAP_CHOWN,     CAP_FOWNER, CAP_KILL,       CAP_DAC_OVERRIDE,
                                 CAP_NET_ADMIN, CAP_MKNOD,  CAP_SYS_CHROOT, CAP_SYS_PTRACE};
    char missing[160] = "";
    (void)p, (void)place;
    for (size_t i = 0; i < CAY_COUNT(needed); i++) {
        if (has_right(needed[i]))
            continue;
        char *name = cap_to_name(needed[i]);
        size_t len = strlen(missing);
        (void)snprintf(missing + len, sizeof missing - len, " %s", name ? name : "?");
        cap_free(name);
    }
    if (missing[0])
        cay_doctor_say(out, CAY_LACKING, "without%s", missing);
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

static void try_right(const struct cay_probe *p, const struct cay_place *place,
                      struct cay_found *out)
{
    (void)place;
    cay_doctor_say(out, has_right((int)p->number) ? CAY_FINE : CAY_LACKING, "%s", "");
}

static void say_number(struct cay_found *out, uint64_t value, uint64_t enough)
{
    if (value >= enough)
        cay_doctor_say(out, CAY_FINE, "%" PRIu64, value);
    else
        cay_doctor_say(out, CAY_LACKING, "only %" PRIu64 ", %" PRIu64 " would do", value, enough);
}

/* text: a file with a number; number: how much is enough */
static void try_number(const struct cay_probe *p, const struct cay_place *place,
                       struct cay_found *out)
{
    char text[32];
    uint64_t value = 0;
    (void)place;
    if (!cay_doctor_read(p->text, text, sizeof text) || !cay_str_u64(text, INT64_MAX, &value))
        cay_doctor_say(out, CAY_UNTRIED, "cannot read %s", p->text);
    else
        say_number(out, value, (uint64_t)p->number);
}

static void try_files(const struct cay_probe *p, const struct cay_place *place,
                      struct cay_found *out)
{
    struct rlimit files;
    (void)place;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        cay_doctor_failed(out, "getrlimit");
    else
        say_number(out, files.rlim_max, (uint64_t)p->number);
}

static void try_memory(const struct cay_probe *p, const struct cay_place *place,
                       struct cay_found *out)
{
    char line[128];
    long long kib = -1;
    FILE *f = fopen("/proc/meminfo", "re");
    (void)place;
    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
            kib = -1;
    if (f)
        (void)fclose(f);
    cay_doctor_say(out, kib * CAY_KIB >= p->number ? CAY_FINE : CAY_LACKING, "%lld MiB available",
                   kib / 1024);
}

static void try_clock(const struct cay_probe *p, const struct cay_place *place,
                      struct cay_found *out)
{
    struct tm tm;
    char text[32] = "";
    time_t now = time(NULL);
    (void)p, (void)place;
    if (gmtime_r(&now, &tm))
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    cay_doctor_say(out, now > KNOWN_PAST ? CAY_FINE : CAY_LACKING, "%s", text);
}

#define SYSCTL "raise it with sysctl"

const struct cay_probe cay_doctor_limits[] = {
    {"root", false, false, try_root, "", "", 0, NULL},
    {"capabilities", true, true, try_rights, "sandboxes cannot be made",
     "start as root, with all capabilities", 0, NULL},
    {"CAP_SYS_RESOURCE", false, true, try_right,
     "limits can only be lowered; the engine is no safer from the OOM killer than others, and what"
     " runs in a sandbox may make itself as safe",
     "give root this capability", CAP_SYS_RESOURCE, NULL},
    {"user namespaces", true, false, try_number, "no sandbox", SYSCTL, 1,
     "/proc/sys/user/max_user_namespaces"},
    {"net namespaces", false, false, try_number, "no more sandboxes than that", SYSCTL, 4096,
     "/proc/sys/user/max_net_namespaces"},
    {"process ids", false, false, try_number, "all sandboxes share so many processes", SYSCTL,
     65536, "/proc/sys/kernel/pid_max"},
    {"open files", false, false, try_files, "fewer connections and sandboxes at once",
     "raise the hard limit: LimitNOFILE= in the unit, or ulimit -Hn", 65536, NULL},
    {"files of the host", false, false, try_number,
     "one sandbox can hold so many open that the server gets none", "set fs.file-max by sysctl",
     512LL * 65536, "/proc/sys/fs/file-max"},
    {"inotify watches", false, false, try_number, "who follows output is woken ten times a second",
     SYSCTL, 8192, "/proc/sys/fs/inotify/max_user_watches"},
    {"inotify instances", false, false, try_number, "the server may not start", SYSCTL, 16,
     "/proc/sys/fs/inotify/max_user_instances"},
    {"memory", false, false, try_memory, "few sandboxes", "free some memory", 512 * CAY_MIB, NULL},
    {"clock", false, false, try_clock, "times on records, and expiry over a restart, are wrong",
     "set the clock", 0, NULL},
    {0},
};
