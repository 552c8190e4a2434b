/* SPDX-License-Identifier: Apache-2.0 */
/* Changes below a directory, as they happen. The kernel watches single directories, so each one
 * found gets a watch, and what appears in it before that is looked up. A reader that does not read
 * fills the pipe, then the kernel's queue; what is lost then is told as an overflow. */
#include "file/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#define EVENTS_BYTES (64 * CAY_KIB)
#define LOOKS                                                                                      \
    (IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM |              \
     IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)

struct spot { /* a directory that is watched */
    int wd;   /* -1: free */
    unsigned depth;
    char *path; /* relative to the top; "" is the top */
};

struct watch {
    int inotify_fd;
    const char *top; /* as the caller named it: directories are found by it */
    unsigned depth_max;
    bool full; /* there are more directories than may be watched */
    struct spot spots[CAY_FILE_WATCHES];
    size_t count;
    /* half of a move, until the other half comes or does not */
    uint32_t cookie;
    bool moved_dir;
    char moved[CAY_MAX_PATH + 1];
};

static struct watch *w;

static bool send_event(enum cay_file_event_kind kind, bool is_dir, const char *path, const char *to)
{
    struct cay_file_event e = {.kind = kind,
                               .is_dir = is_dir,
                               .path_len = (uint16_t)strlen(path),
                               .to_len = (uint16_t)strlen(to)};
    char whole[sizeof e + 2 * CAY_MAX_PATH];
    memcpy(whole, &e, sizeof e);
    memcpy(whole + sizeof e, path, e.path_len);
    memcpy(whole + sizeof e + e.path_len, to, e.to_len);
    return cay_write_all(STDOUT_FILENO, whole, sizeof e + e.path_len + e.to_len);
}

static bool join(char out[CAY_MAX_PATH + 1], const char *dir, const char *name)
{
    int n = snprintf(out, CAY_MAX_PATH + 1, "%s%s%s", dir, dir[0] && name[0] ? "/" : "", name);
    return n >= 0 && n <= CAY_MAX_PATH;
}

static struct spot *find(int wd)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->spots[i].wd == wd)
            return &w->spots[i];
    return NULL;
}

static void drop(struct spot *s)
{
    free(s->path);
    *s = w->spots[--w->count];
}

/* Watches a directory and all below; `news` tells of what is found, which nobody else will. */
static void add(const char *path, unsigned depth, bool news)
{
    char full[2 * CAY_MAX_PATH + 2], below[CAY_MAX_PATH + 1];
    if (depth > w->depth_max || depth > CAY_FILE_DEPTH)
        return;
    (void)snprintf(full, sizeof full, "%s%s%s", w->top, path[0] ? "/" : "", path);
    int wd = w->count < CAY_FILE_WATCHES ? inotify_add_watch(w->inotify_fd, full, LOOKS) : -1;
    if (wd < 0) {
        w->full |= w->count == CAY_FILE_WATCHES || errno == ENOSPC;
        return; /* or it is gone again */
    }
    struct spot *s = find(wd);
    if (s)
        drop(s);
    w->spots[w->count++] = (struct spot){.wd = wd, .depth = depth, .path = strdup(path)};
    DIR *dir = opendir(full);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        bool is_dir = e->d_type == DT_DIR;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            !join(below, path, e->d_name))
            continue;
        if (news && !send_event(CAY_FILE_EVENT_CREATED, is_dir, below, ""))
            _exit(0);
        if (is_dir)
            add(below, depth + 1, news);
    }
    if (dir)
        (void)closedir(dir);
}

/* A directory went elsewhere: the names of its watches are no longer true. */
static void forget(const char *path)
{
    size_t len = strlen(path);
    for (size_t i = w->count; i-- > 0;) {
        struct spot *s = &w->spots[i];
        if (strncmp(s->path, path, len) == 0 && (s->path[len] == 0 || s->path[len] == '/')) {
            (void)inotify_rm_watch(w->inotify_fd, s->wd);
            drop(s);
        }
    }
}

/* The second half did not come: it left what we watch. */
static bool settle_move(void)
{
    if (!w->cookie)
        return true;
    w->cookie = 0;
    if (w->moved_dir)
        forget(w->moved);
    return send_event(CAY_FILE_EVENT_DELETED, w->moved_dir, w->moved, "");
}

static bool moved_to(const char *path, bool is_dir, unsigned depth, uint32_t cookie)
{
    bool whole = w->cookie == cookie && cookie;
    bool ok = whole || settle_move();
    if (whole && is_dir)
        forget(w->moved);
    ok = ok && (whole ? send_event(CAY_FILE_EVENT_MOVED, is_dir, w->moved, path)
                      : send_event(CAY_FILE_EVENT_CREATED, is_dir, path, ""));
    w->cookie = whole ? 0 : w->cookie;
    if (ok && is_dir)
        add(path, depth + 1, !whole);
    return ok;
}

/* False: nobody reads us, or there is nothing left to watch. */
static bool take(const struct inotify_event *e)
{
    char path[CAY_MAX_PATH + 1];
    struct spot *s = find(e->wd);
    if (e->mask & IN_Q_OVERFLOW)
        return settle_move() && send_event(CAY_FILE_EVENT_OVERFLOW, false, "", "");
    if (!s)
        return true;
    unsigned depth = s->depth;
    bool is_top = s->path[0] == 0, is_dir = e->mask & IN_ISDIR;
    if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) {
        if (is_top)
            (void)send_event(CAY_FILE_EVENT_GONE, true, "", "");
        return !is_top;
    }
    if (e->mask & IN_IGNORED) {
        drop(s);
        return true;
    }
    if (!e->len || !join(path, s->path, e->name))
        return true;
    if (e->mask & IN_MOVED_TO)
        return moved_to(path, is_dir, depth, e->cookie);
    if (!settle_move())
        return false;
    if (e->mask & IN_MOVED_FROM) {
        w->cookie = e->cookie;
        w->moved_dir = is_dir;
        memcpy(w->moved, path, sizeof path);
        return true;
    }
    enum cay_file_event_kind kind = e->mask & IN_CREATE   ? CAY_FILE_EVENT_CREATED
                                    : e->mask & IN_DELETE ? CAY_FILE_EVENT_DELETED
                                    : e->mask & IN_ATTRIB ? CAY_FILE_EVENT_ATTRIBUTES
                                                          : CAY_FILE_EVENT_MODIFIED;
    if (!send_event(kind, is_dir, path, ""))
        return false;
    if (is_dir && kind == CAY_FILE_EVENT_CREATED)
        add(path, depth + 1, true);
    return true;
}

static bool take_all(void)
{
    static _Alignas(struct inotify_event) char buf[EVENTS_BYTES];
    ssize_t n = read(w->inotify_fd, buf, sizeof buf);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    for (char *at = buf; at < buf + n;) {
        const struct inotify_event *e = (const void *)at;
        at += sizeof *e + e->len;
        if (!take(e))
            return false;
    }
    /* the halves of a move come together, or the second one does not come */
    return settle_move();
}

enum cay_file_code cay_file_watch(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    static char top[CAY_MAX_PATH + 1];
    struct stat st;
    w = cay_file_alloc(sizeof *w);
    w->top = top;
    w->depth_max = rq->depth ? (unsigned)rq->depth : 1;
    /* By name, and from the root: a directory that we are in, or hold, would not tell of its end */
    if (stat(rq->path, &st) < 0 || !realpath(rq->path, top) || chdir("/") < 0)
        return cay_file_code(errno);
    if (!S_ISDIR(st.st_mode))
        return cay_file_code(ENOTDIR);
    w->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->inotify_fd < 0)
        return errno == EMFILE ? CAY_FILE_TOO_MANY : cay_file_code(errno);
    add("", 1, false);
    if (w->full || w->count == 0)
        return CAY_FILE_TOO_MANY;
    reply->info = cay_file_info(&st);
    reply->length = CAY_FILE_UNKNOWN;
    cay_file_answer(reply, CAY_FILE_OK);
    for (bool go = true; go;) {
        struct pollfd fds[] = {{.fd = w->inotify_fd, .events = POLLIN}, {.fd = STDOUT_FILENO}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        go = !(fds[1].revents & (POLLERR | POLLHUP)) && (!(fds[0].revents & POLLIN) || take_all());
        if (go && w->full) { /* a directory that we cannot watch: the same as losing events */
            w->full = false;
            go = send_event(CAY_FILE_EVENT_OVERFLOW, false, "", "");
        }
    }
    return CAY_FILE_OK;
}
