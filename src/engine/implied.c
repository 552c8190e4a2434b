/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/implied.h"
#include "base/beneath.h"
#include "base/path.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define OPAQUE "trusted.overlay.opaque"
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static bool has(int fd, const char *mark)
{
    return fgetxattr(fd, mark, NULL, 0) >= 0;
}

/* No part is empty or a dot: each can be gone into by itself. */
static bool is_plain(const char *path)
{
    for (const char *at = path;; at++) {
        size_t n = strcspn(at, "/");
        if (n == 0 || (n <= 2 && strspn(at, ".") >= n))
            return false;
        at += n;
        if (!*at)
            return true;
    }
}

void cay_implied_mark(int dir, bool implied)
{
    if (implied)
        (void)fsetxattr(dir, CAY_IMPLIED_MARK, "y", 1, 0); /* without, it is like any other */
    else
        (void)fremovexattr(dir, CAY_IMPLIED_MARK); /* it may have had none */
}

void cay_implied_note(int tree, const char *path, struct cay_buf *list)
{
    size_t len = strlen(path);
    if (!is_plain(path) || list->len + len >= (size_t)CAY_IMPLIED_BYTES)
        return;
    CAY_AUTO_FD int fd =
        cay_open_beneath(tree, path, DIR_FLAGS, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd >= 0 && has(fd, CAY_IMPLIED_MARK))
        cay_buf_add(list, path, len + 1);
}

static const char *name_of(const char *diff_id, char out[96])
{
    snprintf(out, 96, "meta/%.64s.dirs", diff_id);
    return out;
}

int cay_implied_write(int images_fd, const char *diff_id, const struct cay_buf *list,
                      struct cay_error *err)
{
    char path[96];
    return list->len ? cay_path_replace(images_fd, name_of(diff_id, path), list->data, list->len,
                                        0644, err)
                     : 0;
}

/* ---- in an image ---- */

enum found { NOT_HERE, IMPLIED, NAMED };

/* The directory in one layer; *over_out when lower ones do not show through it. */
static enum found look_in(int images_fd, const char *layer, const char *path, struct stat *out,
                          bool *over_out)
{
    char name[NAME_MAX + 1];
    snprintf(name, sizeof name, "layers/%s", layer);
    CAY_AUTO_FD int at = openat(images_fd, name, DIR_FLAGS);
    for (const char *from = path; at >= 0; from++) {
        size_t n = strcspn(from, "/");
        snprintf(name, sizeof name, "%.*s", (int)n, from);
        int next = openat(at, name, DIR_FLAGS);
        if (next < 0)
            *over_out |= errno != ENOENT; /* a whiteout, a file, a link */
        cay_close_fd(&at);
        at = next;
        *over_out |= at >= 0 && has(at, OPAQUE);
        from += n;
        if (!*from)
            break;
    }
    if (at < 0 || fstat(at, out) < 0)
        return NOT_HERE;
    return has(at, CAY_IMPLIED_MARK) ? IMPLIED : NAMED;
}

/* What it is like: as the topmost layer says that names it. */
static bool look(int images_fd, const struct cay_image *image, const char *path, struct stat *out)
{
    bool over = false;
    for (size_t i = 0; i < image->layers.count && !over; i++)
        if (look_in(images_fd, image->layers.at[i], path, out, &over) == NAMED)
            return true;
    return false;
}

static int set(int fd, const struct stat *st)
{
    const struct timespec times[2] = {st->st_mtim, st->st_mtim};
    return fchown(fd, st->st_uid, st->st_gid) < 0 || fchmod(fd, st->st_mode & 07777) < 0
               ? -1
               : futimens(fd, times);
}

/* With those that it lies in. What the fitting layer has already stays as it is. */
static int make(int images_fd, const struct cay_image *image, int fit, char *path,
                struct cay_error *err)
{
    struct stat st;
    if (!look(images_fd, image, path, &st))
        return 0;
    CAY_AUTO_FD int at = openat(fit, ".", DIR_FLAGS);
    for (char *from = path; at >= 0; from++) {
        size_t n = strcspn(from, "/");
        char end = from[n];
        from[n] = 0;
        bool made = mkdirat(at, from, 0755) == 0;
        int next = openat(at, from, DIR_FLAGS);
        cay_close_fd(&at);
        at = next;
        int r = made && at >= 0 && look(images_fd, image, path, &st) ? set(at, &st) : 0;
        from[n] = end;
        if (r < 0 || (made && at < 0))
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make %.100s of a fitting layer",
                                  path);
        from += n;
        if (!end)
            break;
    }
    return 0;
}

int cay_implied_fit(int images_fd, const struct cay_image *image, int fit, struct cay_error *err)
{
    int r = 0, count = 0;
    for (size_t i = 0; r == 0 && i < image->layers.count; i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error none; /* nothing is implied */
        char path[96], *text;
        size_t len;
        if (cay_path_read(images_fd, name_of(image->layers.at[i], path), CAY_IMPLIED_BYTES, &a,
                          &text, &len, &none) < 0)
            continue;
        for (char *at = text; r == 0 && at < text + len; at += strlen(at) + 1)
            if (is_plain(at) && ++count <= CAY_IMPLIED_DIRS)
                r = make(images_fd, image, fit, at, err);
    }
    return r;
}
