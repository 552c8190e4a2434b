/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/hierarchy.h"
#include "base/path.h"
#include "base/str.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static const char *const controller_names[CAY_CG_COUNT] = {"memory", "cpu",     "cpuacct",
                                                           "pids",   "freezer", "unified"};

const char *cay_controller_name(enum cay_controller controller)
{
    return controller_names[controller];
}

/* ---- small files ---- */

int cay_small_write(int dirfd, const char *name, const char *text)
{
    CAY_AUTO_FD int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

bool cay_small_read(int dirfd, const char *name, char *text, size_t size)
{
    CAY_AUTO_FD int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    text[n > 0 ? n : 0] = 0;
    return n >= 0;
}

/* ---- finding the trees ---- */

struct mount_line {
    char root[256], point[256], type[32], options[256];
};

static bool parse_mount(const char *line, struct mount_line *out)
{
    const char *dash = strstr(line, " - ");
    return dash && sscanf(line, "%*s %*s %*s %255s %255s", out->root, out->point) == 2 &&
           sscanf(dash, " - %31s %*s %255s", out->type, out->options) == 2;
}

static bool has_option(const char *options, const char *wanted)
{
    size_t len = strlen(wanted);
    for (const char *at = options; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, wanted, len) == 0 && (at[len] == ',' || at[len] == 0))
            return true;
    }
    return false;
}

static int open_parent(const char *point, const char *instance, int *fd_out, struct cay_error *err)
{
    char name[32];
    CAY_AUTO_FD int top = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the cgroup tree %s", point);
    snprintf(name, sizeof name, "cay-%s", instance);
    return cay_path_open_dir(top, name, 0755, fd_out, err);
}

/* Which controllers that tree has and no other before it: the same may be mounted twice. */
static int missing(const struct cay_cgroups *c, const struct mount_line *m)
{
    bool v2 = strcmp(m->type, "cgroup2") == 0;
    int found = v2 ? 1 << CAY_CG_UNIFIED : 0;
    for (int i = 0; !v2 && i < CAY_CG_UNIFIED; i++)
        if (has_option(m->options, controller_names[i]))
            found |= 1 << i;
    for (int i = 0; i < CAY_CG_COUNT; i++)
        if (c->of[i] >= 0)
            found &= ~(1 << i);
    return c->tree_count == CAY_CG_COUNT ? 0 : found;
}

static void put_tree(struct cay_cgroups *c, const struct mount_line *m, int wanted, int parent_fd)
{
    struct cay_hierarchy *tree = &c->trees[c->tree_count];
    tree->parent_fd = parent_fd;
    tree->v2 = strcmp(m->type, "cgroup2") == 0;
    snprintf(tree->name, sizeof tree->name, "%.15s", strrchr(m->point, '/') + 1);
    for (int i = 0; i < CAY_CG_COUNT; i++)
        if (wanted & 1 << i)
            c->of[i] = c->tree_count;
    c->tree_count++;
}

static int add_tree(struct cay_cgroups *c, const struct mount_line *m, const char *instance,
                    struct cay_error *err)
{
    int parent, wanted = missing(c, m);
    if (!wanted)
        return 0;
    if (strcmp(m->type, "cgroup2") == 0) {
        /* Controllers that live in v2 must be handed down. They are tried one by one, since one
         * that is bound to v1 refuses the whole line. */
        CAY_AUTO_FD int top = open(m->point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)cay_small_write(top, "cgroup.subtree_control", "+memory");
        (void)cay_small_write(top, "cgroup.subtree_control", "+cpu");
        (void)cay_small_write(top, "cgroup.subtree_control", "+pids");
    }
    int r = open_parent(m->point, instance, &parent, err);
    if (r == 0)
        put_tree(c, m, wanted, parent);
    return r;
}

static void drop_tree(struct cay_cgroups *c, int at, const char *instance)
{
    struct cay_cgroups one = {.trees = {c->trees[at]}, .tree_count = 1};
    cay_cgroups_close(&one, instance, true);
    c->trees[at] = c->trees[--c->tree_count];
    for (int i = 0; i < CAY_CG_COUNT; i++) {
        if (c->of[i] == at)
            c->of[i] = -1;
        else if (c->of[i] == c->tree_count)
            c->of[i] = at;
    }
}

/* The v2 tree tells cpu time, and freezes, even where no controller lives in it: then a v1 tree
 * that has nothing else is only one more to enter. */
static void prefer_v2(struct cay_cgroups *c, enum cay_controller controller, const char *instance)
{
    int at = c->of[controller];
    bool alone = at >= 0 && !c->trees[at].v2;
    if (c->of[CAY_CG_UNIFIED] < 0)
        return;
    for (int i = 0; i < CAY_CG_COUNT; i++)
        alone &= i == (int)controller || c->of[i] != at;
    if (alone)
        drop_tree(c, at, instance);
    if (c->of[controller] < 0)
        c->of[controller] = c->of[CAY_CG_UNIFIED];
}

/* On a v2 host the controllers are in the unified tree. */
static void find_v2_controllers(struct cay_cgroups *c)
{
    char text[256];
    int unified = c->of[CAY_CG_UNIFIED];
    if (unified < 0)
        return;
    int fd = c->trees[unified].parent_fd;
    if (!cay_small_read(fd, "cgroup.controllers", text, sizeof text))
        return;
    text[strcspn(text, "\n")] = 0;
    for (char *space = text; (space = strchr(space, ' ')); space++)
        *space = ',';
    for (int i = 0; i < CAY_CG_UNIFIED; i++) {
        char enable[32];
        if (c->of[i] >= 0 || !has_option(text, controller_names[i]))
            continue;
        snprintf(enable, sizeof enable, "+%s", controller_names[i]);
        if (cay_small_write(fd, "cgroup.subtree_control", enable) == 0)
            c->of[i] = unified;
    }
}

/* A v2 tree without controllers can be entered by a thread, which is the one way in that does not
 * hold up the whole host (cay_cgroup_enter). But only from within the same domain of threads: the
 * tree's root, where we go, and whoever we start. Where that is refused it is entered by process.
 * In a container the tree's top is no root: made threaded, it would be of no use to its others. */
static void thread_v2(struct cay_cgroups *c)
{
    int at = c->of[CAY_CG_UNIFIED];
    if (at < 0 || c->of[CAY_CG_MEMORY] == at || c->of[CAY_CG_CPU] == at || c->of[CAY_CG_PIDS] == at)
        return;
    int parent = c->trees[at].parent_fd;
    if (!cay_cgroups_move(c) || faccessat(parent, "../cgroup.type", F_OK, 0) == 0)
        return;
    /* In this order: a tree that is one of threads takes no process from elsewhere any more. */
    c->trees[at].threaded = cay_small_write(parent, "../cgroup.procs", "0") == 0 &&
                            cay_small_write(parent, "cgroup.type", "threaded") == 0;
}

/* With no tree yet. */
static FILE *open_mounts(struct cay_cgroups *c)
{
    *c = (struct cay_cgroups){0};
    for (int i = 0; i < CAY_CG_COUNT; i++)
        c->of[i] = -1;
    return fopen("/proc/self/mountinfo", "re");
}

int cay_hierarchies_find(struct cay_cgroups *c, const char *instance, struct cay_error *err)
{
    char line[2048];
    FILE *f = open_mounts(c);
    if (!f)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read /proc/self/mountinfo");
    int r = 0;
    while (r == 0 && fgets(line, sizeof line, f)) {
        struct mount_line m;
        if (parse_mount(line, &m) && strncmp(m.type, "cgroup", 6) == 0)
            r = add_tree(c, &m, instance, err);
    }
    fclose(f);
    if (r < 0)
        return r;
    find_v2_controllers(c);
    prefer_v2(c, CAY_CG_CPUACCT, instance);
    prefer_v2(c, CAY_CG_FREEZER, instance);
    thread_v2(c);
    return 0;
}

/* Where a process is in that tree, by the lines of its /proc/PID/cgroup. */
static bool find_place(const char *lines, const struct mount_line *m, char place[256])
{
    bool v2 = strcmp(m->type, "cgroup2") == 0;
    for (const char *at = lines; at; at = strchr(at, '\n')) {
        char of[128];
        at += *at == '\n';
        if (v2 && sscanf(at, "0::%255[^\n]", place) == 1)
            return true;
        if (v2 || sscanf(at, "%*u:%127[^:]:%255[^\n]", of, place) != 2)
            continue;
        of[strcspn(of, ",")] = 0;
        if (has_option(m->options, of))
            return true;
    }
    return false;
}

/* All trees have it under one name; where it has another it is not its own, but a daemon's. */
static void add_place(struct cay_cgroups *c, const struct mount_line *m, const char *lines,
                      char name[CAY_CGROUP_NAME])
{
    char place[256], path[600];
    int wanted = missing(c, m);
    size_t root = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root); /* what is mounted of it */
    if (!wanted || !find_place(lines, m, place) || strncmp(place, m->root, root) != 0)
        return;
    char *last = strrchr(place + root, '/');
    if (!last || !last[1] || strlen(last + 1) >= CAY_CGROUP_NAME ||
        (*name && strcmp(name, last + 1) != 0))
        return;
    cay_str_copy(name, CAY_CGROUP_NAME, last + 1);
    *last = 0;
    snprintf(path, sizeof path, "%s%s", m->point, place + root);
    int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0)
        put_tree(c, m, wanted, parent);
}

int cay_cgroups_of(struct cay_cgroups *c, int proc, char name[CAY_CGROUP_NAME],
                   struct cay_error *err)
{
    char lines[4096], line[2048];
    struct mount_line m;
    *name = 0;
    FILE *f = open_mounts(c);
    bool found = f && cay_small_read(proc, "cgroup", lines, sizeof lines);
    for (int v2 = 0; found && v2 < 2; v2++) { /* its name is the one that it has in v1 */
        rewind(f);
        while (fgets(line, sizeof line, f))
            if (parse_mount(line, &m) && strcmp(m.type, v2 ? "cgroup2" : "cgroup") == 0)
                add_place(c, &m, lines, name);
    }
    if (f)
        fclose(f);
    for (int i = 0; i < CAY_CG_COUNT; i++)
        if (c->of[i] < 0)
            c->of[i] = c->of[CAY_CG_UNIFIED];
    return c->tree_count ? 0 : cay_fail(err, CAY_ERR_PROVIDER, "cannot find a process's cgroups");
}
