/* SPDX-License-Identifier: Apache-2.0 */
#include "log/spare.h"
#include "base/attr.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".spare-"
#define KEPT 8
#define FEW 4 /* made one by one they would be in the way of each execution */
#define NAME_SIZE 32

/* Of files or of directories: those from `first` on, before `end`, are there. */
struct row {
    const char *kind;
    unsigned first, end;
};

struct cay_spares {
    int dir_fd;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below; held while one is made, which keeps their order */
    pthread_cond_t wake;
    bool closing, wanted; /* wanted: who never runs anything needs none */
    struct row files, dirs;
};

static void name_of(const struct row *r, unsigned number, char out[NAME_SIZE])
{
    (void)snprintf(out, NAME_SIZE, PREFIX "%s-%u", r->kind, number);
}

static int make_file(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd); /* nothing was written */
    return fd < 0 ? -1 : 0;
}

static int make_dir(int dir_fd, const char *name)
{
    return mkdirat(dir_fd, name, 0700);
}

static bool make_one(struct cay_spares *s, struct row *r, int (*make)(int dir_fd, const char *name))
{
    char name[NAME_SIZE];
    name_of(r, r->end, name);
    if (make(s->dir_fd, name) < 0)
        return false; /* the disk is full: who needs one hears of it */
    r->end++;
    return true;
}

/* One at a time, so that nobody waits for more than one. */
static void *fill(void *arg)
{
    struct cay_spares *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->closing) {
        bool more = false;
        if (s->wanted && s->files.end - s->files.first < KEPT)
            more |= make_one(s, &s->files, make_file);
        if (s->wanted && s->dirs.end - s->dirs.first < KEPT)
            more |= make_one(s, &s->dirs, make_dir);
        if (!more)
            pthread_cond_wait(&s->wake, &s->lock);
        pthread_mutex_unlock(&s->lock);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void remove_all(int logs_fd)
{
    int fd = openat(logs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (strncmp(d->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            unlinkat(logs_fd, d->d_name, 0) < 0 && errno == EISDIR)
            (void)unlinkat(logs_fd, d->d_name, AT_REMOVEDIR); /* stays: the next start meets it */
    if (dir)
        (void)closedir(dir); /* only read from */
    else if (fd >= 0)
        close(fd);
}

struct cay_spares *cay_spares_open(int logs_fd)
{
    struct cay_spares *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->dir_fd = logs_fd;
    s->files.kind = "file";
    s->dirs.kind = "dir";
    remove_all(logs_fd);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    if (pthread_create(&s->thread, NULL, fill, s) != 0)
        abort();
    return s;
}

void cay_spares_close(struct cay_spares *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    remove_all(s->dir_fd);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The oldest becomes `to`; without any, one is made now. -1 and errno. */
static int give_name(struct cay_spares *s, struct row *r, int (*make)(int dir_fd, const char *name),
                     const char *to)
{
    char name[NAME_SIZE];
    if (r->first == r->end && !make_one(s, r, make))
        return -1;
    name_of(r, r->first, name);
    if (renameat2(s->dir_fd, name, s->dir_fd, to, RENAME_NOREPLACE) < 0)
        return -1;
    r->first++;
    s->wanted = true;
    if (r->end - r->first < FEW)
        pthread_cond_signal(&s->wake);
    return 0;
}

int cay_spares_take(struct cay_spares *s, const char *dir, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    pthread_mutex_lock(&s->lock);
    int r = give_name(s, &s->files, make_file, path);
    if (r < 0 && errno == ENOENT && (give_name(s, &s->dirs, make_dir, dir) == 0 || errno == EEXIST))
        r = give_name(s, &s->files, make_file, path);
    int saved = errno;
    pthread_mutex_unlock(&s->lock);
    errno = saved;
    return r < 0 ? -1 : openat(s->dir_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
}
