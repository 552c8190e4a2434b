/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up a user without NSS. A child of pid 1 does this on its way to exec, never pid 1. */
#include "init/user.h"
#include "base/attr.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define PASSWD_MAX (256 * 1024)
#define FIELDS 7 /* name:password:uid:gid:gecos:home:shell */

struct field {
    const char *at;
    size_t len;
};

/* Digits only, no leading zero, within the range that exists in a sandbox. */
static bool read_id(struct field f, uint32_t *out)
{
    uint32_t value = 0;
    if (!f.len || f.len > 5 || (f.len > 1 && f.at[0] == '0'))
        return false;
    for (size_t i = 0; i < f.len; i++) {
        if (f.at[i] < '0' || f.at[i] > '9')
            return false;
        value = 10 * value + (uint32_t)(f.at[i] - '0');
    }
    if (value > CAY_USER_MAX)
        return false;
    *out = value;
    return true;
}

static bool split(struct field line, struct field out[FIELDS])
{
    for (size_t i = 0; i < FIELDS; i++) {
        const char *end = i + 1 < FIELDS ? memchr(line.at, ':', line.len) : line.at + line.len;
        if (!end)
            return false;
        out[i] = (struct field){line.at, (size_t)(end - line.at)};
        line.len -= out[i].len + (i + 1 < FIELDS);
        line.at = end + 1;
    }
    return memchr(out[FIELDS - 1].at, ':', out[FIELDS - 1].len) == NULL;
}

static bool plain(struct field f, size_t size)
{
    for (size_t i = 0; i < f.len; i++)
        if ((unsigned char)f.at[i] < ' ' || f.at[i] == 0x7f)
            return false;
    return f.len && f.len < size;
}

static void copy(char *dst, struct field f)
{
    memcpy(dst, f.at, f.len);
    dst[f.len] = 0;
}

static bool read_line(struct field line, struct cay_user *out)
{
    struct field f[FIELDS];
    struct cay_user u = {.home = "/"};
    if (!split(line, f) || !plain(f[0], sizeof u.name) || !read_id(f[2], &u.uid) ||
        !read_id(f[3], &u.gid))
        return false;
    copy(u.name, f[0]);
    if (plain(f[5], sizeof u.home) && f[5].at[0] == '/')
        copy(u.home, f[5]);
    *out = u;
    return true;
}

/* The first line whose name, or whose number when name is NULL, is the wanted one. */
static bool search(struct field text, const char *name, uint32_t uid, struct cay_user *out)
{
    while (text.len) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) : text.len;
        struct cay_user u;
        if (read_line((struct field){text.at, len}, &u) &&
            (name ? strcmp(u.name, name) == 0 : u.uid == uid)) {
            *out = u;
            return true;
        }
        len += end != NULL;
        text.at += len;
        text.len -= len;
    }
    return false;
}

bool cay_user_find(const char *passwd, size_t len, const char *user, struct cay_user *out)
{
    static const struct cay_user root = {.name = "root", .home = "/root"};
    const struct field text = {passwd, len};
    struct field first = {user, strcspn(user, ":")};
    uint32_t uid, gid;

    if (strcmp(user, "root") == 0 || strcmp(user, "0") == 0) {
        *out = root;
        return true;
    }
    if (user[0] < '0' || user[0] > '9')
        return search(text, user, 0, out);
    bool with_gid = user[first.len] == ':';
    struct field second = {user + first.len + with_gid, strlen(user + first.len + with_gid)};
    if (!read_id(first, &uid) || (with_gid && !read_id(second, &gid)))
        return false;
    /* A number nobody is named by has a group of its own: the group 0 would be a gift. */
    struct cay_user u = {.uid = uid, .gid = uid, .home = "/"};
    copy(u.name, first);
    if (uid == 0)
        u = root;
    else
        (void)search(text, NULL, uid, &u); /* not found leaves u as it is */
    if (with_gid)
        u.gid = gid;
    *out = u;
    return true;
}

bool cay_user_resolve(const char *user, struct cay_user *out)
{
    static char text[PASSWD_MAX + 1]; /* touched in the child only */
    struct stat st;
    size_t len = 0;
    if (strcmp(user, "root") == 0)
        return cay_user_find("", 0, user, out);
    /* O_NONBLOCK: the tenant may have put a pipe there */
    CAY_AUTO_FD int fd = open("/etc/passwd", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
        cay_close_fd(&fd);
    while (fd >= 0 && len < sizeof text) {
        ssize_t n = read(fd, text + len, sizeof text - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    if (len > PASSWD_MAX)
        len = 0; /* a number still works */
    return cay_user_find(text, len, user, out);
}
