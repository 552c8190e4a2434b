/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatcher forks the child, hands on the pipe, and is done with it. The child keeps the time
 * and has the last word; the builder, a script, is its own child and does not outlive it. */
#include "engine/build.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "engine/dispatcher.h"
#include "engine/shelf.h"
#include "image/recipe.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define SUFFIX 8       /* letters that mktemp adds */
#define SWEEP_TRIES 20 /* what goes with an engine that was killed */
#define SWEEP_MS 100   /* is gone by then */

/* ---- recipes ---- */

/* Writes every name to `out`, or finds the file of one. */
static bool look_through(const char *directory, const char *wanted, FILE *out, char *file,
                         size_t size)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error ignored; /* what cannot be read is no recipe */
    bool found = false;
    DIR *dir = opendir(directory);
    struct dirent *e;
    for (int i = 0; dir && !found && i < CAY_MAX_RECIPES && (e = readdir(dir)); i++) {
        char *text;
        if (e->d_name[0] == '.' ||
            cay_path_read(dirfd(dir), e->d_name, CAY_RECIPE_BYTES, &a, &text, NULL, &ignored) < 0)
            continue;
        const char *name;
        if (cay_recipe_name(&a, text, &name, &ignored) < 0)
            continue;
        if (out)
            (void)fprintf(out, "%s\n", name);
        if (wanted && strcmp(name, wanted) == 0) {
            (void)snprintf(file, size, "%s/%s", directory, e->d_name);
            found = true;
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

/* ---- the child ---- */

/* Of our environment only how one gets out of this network. */
static char *const *clean_environment(void)
{
    static const char *const kept[] = {"http_proxy", "https_proxy", "no_proxy",
                                       "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"};
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    static char home[] = "HOME=/root";
    static char *env[CAY_COUNT(kept) + 3] = {path, home};
    static char values[CAY_COUNT(kept)][512];
    size_t count = 2;
    for (size_t i = 0; i < CAY_COUNT(kept); i++) {
        const char *value = getenv(kept[i]);
        if (!value)
            continue;
        (void)snprintf(values[i], sizeof values[i], "%s=%s", kept[i], value);
        env[count++] = values[i];
    }
    return env;
}

/* What is asked for, in the child. */
struct wish {
    const struct cay_engine_request *rq;
    int out;    /* to tell of it */
    int recipe; /* a file with the text of one; -1: the operator's */
};

static void CAY_NORETURN run_builder(const struct cay_engine *e, const struct wish *w,
                                     const char *recipe, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int in = w->recipe >= 0 ? w->recipe : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(w->out, STDOUT_FILENO) < 0 ||
        dup2(w->out, STDERR_FILENO) < 0 || close_range(STDERR_FILENO + 1, ~0U, 0) < 0)
        _exit(1);
    (void)signal(SIGPIPE, SIG_DFL); /* nobody listens: it ends */
    (void)setsid();
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    bool again = w->recipe >= 0 || w->rq->again;
    const char *const argv[] = {e->cfg->builder, again ? "--again" : recipe,
                                again ? recipe : e->cfg->store_path,
                                again ? e->cfg->store_path : NULL, NULL};
    (void)execve(e->cfg->builder, (char *const *)argv, clean_environment());
    printf("cannot run %s: %s\n", e->cfg->builder, strerror(errno));
    (void)fflush(stdout);
    _exit(127);
}

/* Its exit status; -1 when its time was over, or when nobody listens at the other end of `out` any
 * more (-1: that does not count). */
static int wait_for(pid_t pid, int64_t ms, int out)
{
    CAY_AUTO_FD int end = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p[] = {{.fd = end, .events = POLLIN}, {.fd = out}};
    int64_t until_ms = cay_clock_mono_ms() + ms;
    for (;;) {
        int status;
        int64_t left_ms = until_ms - cay_clock_mono_ms();
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
        if (left_ms <= 0 || (p[1].revents & POLLERR))
            return -1;
        (void)poll(p, CAY_COUNT(p), (int)left_ms); /* CAY_BUILD_MS is much less than INT_MAX */
    }
}

static const char *build(const struct cay_engine *e, const struct wish *w)
{
    char recipe[PATH_MAX] = "-";
    if (!e->cfg->builder)
        return CAY_BUILD_NONE;
    if (w->recipe < 0 && (!e->cfg->recipes || !look_through(e->cfg->recipes, w->rq->image, NULL,
                                                            recipe, sizeof recipe)))
        return CAY_BUILD_NONE;
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        run_builder(e, w, recipe, self);
    int status = pid < 0 ? 1 : wait_for(pid, CAY_BUILD_MS, w->out);
    if (status >= 0)
        return status == 0 ? CAY_BUILD_DONE : CAY_BUILD_FAILED;
    (void)kill(-pid, SIGTERM); /* time to remove what is half made */
    if (wait_for(pid, CAY_BUILD_END_MS, -1) < 0)
        (void)kill(-pid, SIGKILL);
    return CAY_BUILD_LATE;
}

/* A copy that nobody else can change while it is read, or -1. */
static int copy_recipe(int fd)
{
    CAY_AUTO_FD int copy = memfd_create("recipe", MFD_CLOEXEC);
    static char text[CAY_RECIPE_BYTES + 1];
    ssize_t n = copy < 0 ? -1 : pread(fd, text, sizeof text, 0);
    if (n <= 0 || n > CAY_RECIPE_BYTES || memchr(text, 0, (size_t)n) ||
        write(copy, text, (size_t)n) != n)
        return -1;
    return cay_take_fd(&copy);
}

/* Of the dispatcher's descriptors nothing stays: a client's copy here would keep his connection
 * open. Then we are where the recipes are. */
static bool leave_engine(const struct cay_engine *e, struct wish *w)
{
    enum { OUT = STDERR_FILENO + 1, RECIPE };
    int host = fcntl(e->host_fd, F_DUPFD_CLOEXEC, RECIPE + 1);
    int pipe = fcntl(w->out, F_DUPFD_CLOEXEC, RECIPE + 1);
    int recipe = w->recipe < 0 ? -1 : fcntl(w->recipe, F_DUPFD_CLOEXEC, RECIPE + 1);
    bool brings = w->recipe >= 0;
    if (host < 0 || pipe < 0 || setns(host, CLONE_NEWNS) < 0 || chdir("/") < 0)
        return false;
    w->out = dup2(pipe, OUT);
    w->recipe = brings ? dup2(recipe, RECIPE) : -1;
    return w->out >= 0 && (!brings || w->recipe >= 0) &&
           close_range(brings ? RECIPE + 1 : OUT + 1, ~0U, 0) == 0;
}

static void CAY_NORETURN run_child(const struct cay_engine *e, struct wish w)
{
    (void)prctl(PR_SET_NAME, "cay-build");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGCHLD, SIG_DFL);        /* the opener ignores it */
    (void)setpriority(PRIO_PROCESS, 0, 5); /* never at the cost of those who have their sandbox */
    (void)signal(SIGPIPE, SIG_IGN);
    bool brings = w.recipe >= 0;
    if (brings && (w.recipe = copy_recipe(w.recipe)) < 0)
        _exit(1);
    FILE *out = leave_engine(e, &w) ? fdopen(w.out, "w") : NULL;
    if (!out)
        _exit(1);
    const char *verdict = CAY_BUILD_DONE;
    if (*w.rq->image)
        verdict = build(e, &w);
    else if (e->cfg->recipes)
        (void)look_through(e->cfg->recipes, NULL, out, NULL, 0);
    (void)fprintf(out, "%s\n", verdict);
    _exit(fclose(out) != 0);
}

/* ---- what was cut ---- */

/* While its lock is held by somebody who may be about to die. */
static bool take_lock(int fd)
{
    for (int i = 0; i < SWEEP_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = SWEEP_MS * 1000000L}, NULL);
    }
    return false;
}

/* Builds lie in tmp/FILE.XXXXXXXX, and hold lock.FILE. What had become a layer and has no name yet
 * goes with the next prune. */
void cay_build_sweep(int images_fd)
{
    int fd = openat(images_fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[NAME_MAX + 8];
        const char *dot = strrchr(entry->d_name, '.');
        if (entry->d_name[0] == '.' || !dot || strlen(dot) != 1 + SUFFIX)
            continue;
        (void)snprintf(path, sizeof path, "lock.%.*s", (int)(dot - entry->d_name), entry->d_name);
        CAY_AUTO_FD int lock = openat(images_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (lock >= 0 && take_lock(lock))
            cay_trash_remove(fd, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

pid_t cay_builder_begin(const struct cay_engine *e, const struct cay_engine_request *rq,
                        int recipe_fd, int *fd_out, struct cay_error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot start a build");
    CAY_AUTO_FD int from = fds[0], to = fds[1];
    pid_t pid = fork();
    if (pid == 0)
        run_child(e, (struct wish){rq, to, recipe_fd});
    if (pid < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot start a build");
    *fd_out = cay_take_fd(&from);
    return pid;
}

int cay_builder_too_many(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_UNAVAILABLE, "TOO_MANY_BUILDS",
                       "%d images are being built already", CAY_BUILDS);
}

/* ---- the dispatcher's side ---- */

static pid_t *free_place(struct cay_dispatcher *d, bool looks)
{
    size_t end = looks ? CAY_COUNT(d->build_pids) : CAY_BUILDS;
    for (size_t i = looks ? CAY_BUILDS : 0; i < end; i++)
        if (d->build_pids[i] == 0)
            return &d->build_pids[i];
    return NULL;
}

void cay_build_take(struct cay_dispatcher *d, struct cay_pending *p, int recipe_fd)
{
    struct cay_error err;
    CAY_AUTO_FD int fd = -1;
    pid_t *place = free_place(d, !p->request.image[0]);
    pid_t pid = place ? cay_builder_begin(&d->engine, &p->request, recipe_fd, &fd, &err)
                      : cay_builder_too_many(&err);
    if (pid > 0)
        *place = pid;
    cay_dispatcher_answer(d, p, pid < 0 ? &err : NULL, NULL, 0, fd);
}

bool cay_build_child_died(struct cay_dispatcher *d, pid_t pid)
{
    for (size_t i = 0; i < CAY_COUNT(d->build_pids); i++)
        if (d->build_pids[i] == pid) {
            d->build_pids[i] = 0;
            return true;
        }
    return false;
}
