/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, in whichever version each controller has here. A group is made and removed; what
 * version 2 hands down to its groups is left as it is, since that would outlive the trial. */
#include "cli/doctor.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct tree {
    char point[256];
    bool v2;
};

static bool has_word(const char *list, const char *word, const char *between)
{
    size_t len = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, between), at += strspn(at, between))
        if (strncmp(at, word, len) == 0 && (!at[len] || strchr(between, at[len])))
            return true;
    return false;
}

static bool v2_has(const char *point, const char *controller)
{
    char path[320], text[512];
    (void)snprintf(path, sizeof path, "%s/cgroup.controllers", point);
    CAY_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    return has_word(text, controller, " \n");
}

/* Version 1 names controllers in a mount's options, version 2 in a file. Without a controller: any
 * tree of version 2, whose groups can be frozen. */
static bool find_tree(const char *v1_name, const char *v2_name, struct tree *out)
{
    char line[1024], type[32], options[512];
    bool found = false;
    FILE *f = fopen("/proc/self/mounts", "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%*s %255s %31s %511s", out->point, type, options) != 3)
            continue;
        out->v2 = strcmp(type, "cgroup2") == 0;
        if (out->v2)
            found = !v2_name || v2_has(out->point, v2_name);
        else if (strcmp(type, "cgroup") == 0)
            found = v1_name && has_word(options, v1_name, ",");
    }
    if (f)
        (void)fclose(f);
    return found;
}

static bool make_group(const struct tree *tree, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/cay-doctor-%d", tree->point, getpid());
    return mkdir(path, 0755) == 0;
}

static void try_group(const struct cay_probe *p, const struct cay_place *place,
                      struct cay_found *out)
{
    struct tree tree;
    char path[320];
    (void)p, (void)place;
    if (!find_tree("memory", "memory", &tree) && !find_tree("pids", NULL, &tree)) {
        cay_doctor_say(out, CAY_LACKING, "none is mounted");
        return;
    }
    if (!make_group(&tree, path, sizeof path)) {
        cay_doctor_failed(out, tree.point);
        return;
    }
    (void)rmdir(path); /* empty, and ours */
    cay_doctor_say(out, CAY_FINE, "version %d at %s", tree.v2 ? 2 : 1, tree.point);
}

/* text: "v1 name, v1 file, v2 name, v2 file" */
static void try_controller(const struct cay_probe *p, const struct cay_place *place,
                           struct cay_found *out)
{
    char v1[32], v1_file[64], v2[32], v2_file[64], path[320], file[400];
    struct tree tree;
    (void)place;
    if (sscanf(p->text, "%31s %63s %31s %63s", v1, v1_file, v2, v2_file) != 4 ||
        !find_tree(v1, strcmp(v2, "-") == 0 ? NULL : v2, &tree)) {
        cay_doctor_say(out, CAY_LACKING, "this host has no such controller");
        return;
    }
    if (tree.v2 && strcmp(v2, "-") != 0) { /* its files appear when it is handed down */
        cay_doctor_say(out, CAY_FINE, "version 2");
        return;
    }
    if (!make_group(&tree, path, sizeof path)) {
        cay_doctor_failed(out, tree.point);
        return;
    }
    (void)snprintf(file, sizeof file, "%s/%s", path, tree.v2 ? v2_file : v1_file);
    if (access(file, F_OK) == 0)
        cay_doctor_say(out, CAY_FINE, "version %d", tree.v2 ? 2 : 1);
    else
        cay_doctor_say(out, CAY_LACKING, "version %d, without %s", tree.v2 ? 2 : 1,
                       strrchr(file, '/') + 1);
    (void)rmdir(path);
}

static void try_swap(const struct cay_probe *p, const struct cay_place *place,
                     struct cay_found *out)
{
    char line[256];
    int lines = 0;
    FILE *f = fopen("/proc/swaps", "re");
    while (f && fgets(line, sizeof line, f))
        lines++;
    if (f)
        (void)fclose(f);
    if (lines <= 1)
        cay_doctor_say(out, CAY_FINE, "this host has no swap");
    else
        try_controller(p, place, out);
}

#define FIX "mount cgroup2 on /sys/fs/cgroup, with this controller in cgroup.controllers"

const struct cay_probe cay_doctor_cgroups[] = {
    {"cgroups", true, true, try_group, "sandboxes cannot be made",
     "mount cgroup2 on /sys/fs/cgroup, writable for root", 0, NULL},
    {"cgroup memory", false, true, try_controller, "no memory limit", FIX, 0,
     "memory memory.limit_in_bytes memory memory.max"},
    {"cgroup cpu", false, true, try_controller, "no CPU limit", FIX, 0,
     "cpu cpu.cfs_quota_us cpu cpu.max"},
    {"cgroup pids", false, true, try_controller, "no limit of processes", FIX, 0,
     "pids pids.max pids pids.max"},
    {"cgroup freezer", false, true, try_controller, "no pause and resume", FIX, 0,
     "freezer freezer.state - cgroup.freeze"},
    {"swap accounting", false, true, try_swap, "a sandbox may take swap beyond its memory limit",
     "boot with swapaccount=1, or turn swap off", 0,
     "memory memory.memsw.limit_in_bytes memory memory.swap.max"},
    {0},
};
