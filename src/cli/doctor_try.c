/* SPDX-License-Identifier: Apache-2.0 */
/* A trial in a child of its own, and what trials share. */
#include "cli/doctor.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PATIENCE_MS 20000
#define MAP "0 1879048192 65536\n" /* ids that nobody has: 0x70000000 */

void cay_doctor_say(struct cay_found *out, enum cay_verdict verdict, const char *fmt, ...)
{
    va_list args;
    out->verdict = verdict;
    va_start(args, fmt);
    (void)vsnprintf(out->detail, sizeof out->detail, fmt, args);
    va_end(args);
}

void cay_doctor_failed(struct cay_found *out, const char *what)
{
    cay_doctor_say(out, CAY_LACKING, "%s: %s", what, strerror(errno));
}

bool cay_doctor_read(const char *path, char *text, size_t size)
{
    CAY_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, " \n")] = 0;
    return n > 0;
}

static void CAY_NORETURN run(const struct cay_probe *p, const struct cay_place *place, int out_fd,
                             pid_t parent)
{
    struct cay_found found = {.verdict = CAY_LACKING};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    p->probe(p, place, &found);
    ssize_t n = write(out_fd, &found, sizeof found);
    _exit(n == sizeof found ? 0 : 1);
}

void cay_doctor_try(const struct cay_probe *p, const struct cay_place *place, struct cay_found *out)
{
    int ends[2], status = 0;
    if (p->root && geteuid() != 0) {
        cay_doctor_say(out, CAY_UNTRIED, "only root can try");
        return;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        cay_doctor_failed(out, "cannot make a pipe");
        return;
    }
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        run(p, place, ends[1], self);
    (void)close(ends[1]);
    struct pollfd answer = {.fd = ends[0], .events = POLLIN};
    bool told = pid > 0 && poll(&answer, 1, PATIENCE_MS) > 0 &&
                read(ends[0], out, sizeof *out) == sizeof *out;
    (void)close(ends[0]);
    if (!told && pid > 0)
        (void)kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!told)
        cay_doctor_say(out, CAY_LACKING, "the trial did not end well (status %d)", status);
}

static bool write_map(pid_t pid, const char *which)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
    CAY_AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, MAP, sizeof MAP - 1) == sizeof MAP - 1;
}

int cay_doctor_user_namespace(void)
{
    int ready[2], fd = -1;
    char path[64], byte;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) { /* keeps it until we have a descriptor of it, or are gone */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWUSER) < 0 || write(ready[1], "", 1) != 1)
            _exit(errno);
        (void)pause();
        _exit(0);
    }
    (void)close(ready[1]);
    if (pid > 0 && read(ready[0], &byte, 1) == 1 && write_map(pid, "uid_map") &&
        write_map(pid, "gid_map")) {
        (void)snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    int saved = errno;
    (void)close(ready[0]);
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    errno = saved ? saved : EPERM;
    return fd;
}

int cay_doctor_map(int dir_fd, const char *path, int user_fd)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)user_fd};
    CAY_AUTO_FD int fd =
        open_tree(dir_fd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -1;
    return cay_take_fd(&fd);
}

bool cay_doctor_has_program(const char *name)
{
    static const char *const places[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                         "/usr/bin",        "/sbin",          "/bin"};
    char path[PATH_MAX];
    for (size_t i = 0; i < CAY_COUNT(places); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", places[i], name);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

bool cay_doctor_in_use(const struct cay_place *place)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/lock", place->data);
    CAY_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}
