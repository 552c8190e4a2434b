/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's own /proc, read from inside, and signals to whoever is in there.
 *
 * Which execution began a process stands in its environment, which only its own user may read. The
 * worker is root inside, and puts on that user's rights for as long as it opens the file: root
 * alone has none of them without CAP_SYS_PTRACE, which nobody in a sandbox has. */
#include "file/file.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <time.h>

#define STAT_MAX 1024
#define STATUS_MAX 4096
#define ENVIRON_MAX (256 * 1024)
#define PASSWD_MAX (256 * 1024)
#define COMMAND_MAX 512
#define NAME_MAX_USER 64

struct list {
    struct cay_buf entries;
    int64_t now_ms, since_boot_ms, tick_ms;
};

static int64_t clock_ms(clockid_t which)
{
    struct timespec t = {0};
    (void)clock_gettime(which, &t); /* both are there */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* At most size - 1 bytes and a NUL; 0 when there is nothing or the process is gone. */
static size_t read_text(const char *pid, const char *name, char *out, size_t size)
{
    char path[64];
    size_t len = 0;
    (void)snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
    CAY_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && len + 1 < size) {
        ssize_t n = read(fd, out + len, size - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = 0;
    return len;
}

/* name in parentheses, which may hold anything, then numbers. */
static bool read_stat(struct list *l, const char *pid, struct cay_file_process *p,
                      char command[COMMAND_MAX])
{
    char text[STAT_MAX];
    unsigned long long user, kernel, started;
    long threads, pages;
    int parent;
    if (!read_text(pid, "stat", text, sizeof text))
        return false;
    char *open_at = strchr(text, '('), *close_at = strrchr(text, ')');
    if (!open_at || !close_at || close_at < open_at ||
        sscanf(close_at + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %ld %*d %llu "
               "%*u %ld",
               (char *)&p->state, &parent, &user, &kernel, &threads, &started, &pages) != 7)
        return false;
    p->parent = (uint32_t)parent;
    p->threads = (uint32_t)threads;
    p->cpu_ms = (user + kernel) * (uint64_t)l->tick_ms;
    p->memory_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    p->started_at_ms = l->now_ms - (l->since_boot_ms - (int64_t)started * l->tick_ms);
    (void)snprintf(command, COMMAND_MAX, "[%.*s]", (int)(close_at - open_at - 1), open_at + 1);
    return true;
}

/* Ids as the file system sees them, which is what the files of /proc belong to. Memory as well: in
 * `stat` the kernel rounds a small process down to nothing. */
static bool read_status(const char *pid, struct cay_file_process *p, uint32_t *gid)
{
    char text[STATUS_MAX];
    unsigned uid_now, gid_now;
    unsigned long long kib;
    (void)read_text(pid, "status", text, sizeof text);
    const char *uids = strstr(text, "\nUid:"), *gids = strstr(text, "\nGid:");
    const char *memory = strstr(text, "\nVmRSS:"); /* one that has ended has none */
    if (!uids || !gids || sscanf(uids + 5, "%u", &uid_now) != 1 ||
        sscanf(gids + 5, "%u", &gid_now) != 1)
        return false;
    p->uid = uid_now;
    *gid = gid_now;
    if (memory && sscanf(memory + 7, "%llu", &kib) == 1)
        p->memory_bytes = kib * 1024;
    return true;
}

/* Words set off by blanks; one that has none (pid 1, a zombie) keeps its name. */
static void read_command(const char *pid, char command[COMMAND_MAX])
{
    char text[COMMAND_MAX];
    size_t len = read_text(pid, "cmdline", text, sizeof text);
    while (len > 0 && text[len - 1] == 0)
        len--;
    if (len == 0)
        return;
    for (size_t i = 0; i < len; i++)
        command[i] = (char)(text[i] ? text[i] : ' ');
    command[len] = 0;
}

static void read_execution(const char *pid, uint32_t uid, uint32_t gid, char out[CAY_ID_SIZE])
{
    static const char key[] = "CAY_EXECUTION_ID=";
    static char text[ENVIRON_MAX];
    int own_uid = setfsuid(uid), own_gid = setfsgid(gid);
    size_t len = read_text(pid, "environ", text, sizeof text);
    (void)setfsgid((gid_t)own_gid);
    (void)setfsuid((uid_t)own_uid);
    for (size_t at = 0; at < len; at += strlen(text + at) + 1) {
        const char *value = text + at + sizeof key - 1;
        if (strncmp(text + at, key, sizeof key - 1) == 0 && strlen(value) < CAY_ID_SIZE)
            memcpy(out, value, strlen(value) + 1);
    }
}

/* Without NSS, which would ask programs of the tenant's. */
static void find_name(uint32_t uid, char out[NAME_MAX_USER])
{
    struct stat st;
    (void)snprintf(out, NAME_MAX_USER, "%u", uid);
    /* O_NONBLOCK: the tenant may have put a pipe there */
    int fd = open("/etc/passwd", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    bool sound = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= PASSWD_MAX;
    FILE *file = sound ? fdopen(fd, "re") : NULL;
    for (struct passwd *p; file && (p = fgetpwent(file));)
        if (p->pw_uid == uid && p->pw_name[0] && strlen(p->pw_name) < NAME_MAX_USER) {
            (void)snprintf(out, NAME_MAX_USER, "%s", p->pw_name);
            break;
        }
    if (file)
        (void)fclose(file); /* only read from */
    else
        (void)close(fd);
}

/* False when it is gone meanwhile. */
static bool add(struct list *l, const char *pid)
{
    static uint32_t known_uid = UINT32_MAX; /* most are one user's */
    static char user[NAME_MAX_USER];
    struct cay_file_process p = {.pid = (uint32_t)strtoul(pid, NULL, 10)};
    char command[COMMAND_MAX];
    uint32_t gid;
    if (!read_stat(l, pid, &p, command) || !read_status(pid, &p, &gid))
        return false;
    read_command(pid, command);
    read_execution(pid, p.uid, gid, p.execution);
    if (p.uid != known_uid)
        find_name(p.uid, user);
    known_uid = p.uid;
    p.user_len = (uint16_t)strlen(user);
    p.command_len = (uint16_t)strlen(command);
    cay_buf_add(&l->entries, &p, sizeof p);
    cay_buf_add(&l->entries, user, p.user_len);
    cay_buf_add(&l->entries, command, p.command_len);
    return true;
}

/* /proc lists them in order of their numbers. */
enum cay_file_code cay_file_processes(const struct cay_file_request *rq,
                                      struct cay_file_reply *reply)
{
    struct list l = {.now_ms = clock_ms(CLOCK_REALTIME),
                     .since_boot_ms = clock_ms(CLOCK_BOOTTIME),
                     .tick_ms = 1000 / sysconf(_SC_CLK_TCK)};
    (void)rq;
    DIR *dir = opendir("/proc");
    if (!dir)
        return cay_file_code(errno);
    for (struct dirent *d; (d = readdir(dir));) {
        if (!isdigit((unsigned char)d->d_name[0]) || strtol(d->d_name, NULL, 10) == getpid())
            continue;
        if (l.entries.len >= CAY_FILE_PAGE_BYTES) {
            reply->flags |= CAY_FILE_MORE;
            break;
        }
        reply->count += add(&l, d->d_name);
    }
    (void)closedir(dir); /* only read from */
    cay_file_answer(reply, CAY_FILE_OK);
    (void)cay_write_all(STDOUT_FILENO, l.entries.data, l.entries.len); /* nobody else to tell */
    cay_buf_done(&l.entries);
    return CAY_FILE_OK;
}

enum cay_file_code cay_file_signal(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    (void)reply;
    if (rq->pid < 2 || rq->pid > INT_MAX || rq->signal < 1 || rq->signal > 64)
        return CAY_FILE_BAD_REQUEST;
    if ((pid_t)rq->pid == getpid())
        return CAY_FILE_NOT_FOUND; /* by the time of the answer it is so */
    if (kill((pid_t)rq->pid, (int)rq->signal) == 0)
        return CAY_FILE_OK;
    return errno == ESRCH ? CAY_FILE_NOT_FOUND : cay_file_code(errno);
}
