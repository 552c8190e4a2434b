/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatcher forks the child, hands on the pipe, and is done with it. The child keeps the time
 * and has the last word; the builder, a script, is its own child and does not outlive it. */
#include "engine/build.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "engine/dispatcher.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* ---- recipes ---- */

/* What stands behind `name` in it; or NULL. */
static const char *name_in(char *text)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        line += strspn(line, " \t");
        if (strncmp(line, "name", 4) != 0 || !isblank((unsigned char)line[4]))
            continue;
        line += 4 + strspn(line + 4, " \t");
        line[strcspn(line, " \t\r")] = 0;
        return line;
    }
    return NULL;
}

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
        const char *name = name_in(text);
        if (name && out)
            (void)fprintf(out, "%s\n", name);
        if (name && wanted && strcmp(name, wanted) == 0) {
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

static void CAY_NORETURN run_builder(const struct cay_engine *e, const char *recipe, int out,
                                     pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0 || close_range(STDERR_FILENO + 1, ~0U, 0) < 0)
        _exit(1);
    (void)signal(SIGPIPE, SIG_DFL); /* nobody listens: it ends */
    (void)setsid();
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    const char *const argv[] = {e->cfg->builder, recipe, e->cfg->store_path, NULL};
    (void)execve(e->cfg->builder, (char *const *)argv, clean_environment());
    printf("cannot run %s: %s\n", e->cfg->builder, strerror(errno));
    (void)fflush(stdout);
    _exit(127);
}

/* Its exit status; -1 when its time was over. SIGCHLD is blocked, so it is waited for. */
static int wait_for(pid_t pid, int64_t ms)
{
    sigset_t set;
    int status;
    int64_t until_ms = cay_clock_mono_ms() + ms;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (;;) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
        int64_t left_ms = until_ms - cay_clock_mono_ms();
        struct timespec t = {left_ms / 1000, left_ms % 1000 * 1000000};
        if (left_ms <= 0)
            return -1;
        (void)sigtimedwait(&set, NULL, &t);
    }
}

static const char *build(const struct cay_engine *e, const char *name, int out)
{
    char recipe[PATH_MAX];
    if (!e->cfg->builder || !e->cfg->recipes ||
        !look_through(e->cfg->recipes, name, NULL, recipe, sizeof recipe))
        return CAY_BUILD_NONE;
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        run_builder(e, recipe, out, self);
    int status = pid < 0 ? 1 : wait_for(pid, CAY_BUILD_MS);
    if (status >= 0)
        return status == 0 ? CAY_BUILD_DONE : CAY_BUILD_FAILED;
    (void)kill(-pid, SIGTERM); /* time to remove what is half made */
    if (wait_for(pid, CAY_BUILD_END_MS) < 0)
        (void)kill(-pid, SIGKILL);
    return CAY_BUILD_LATE;
}

/* Of the dispatcher's descriptors nothing stays: a client's copy here would keep his connection
 * open. Then we are where the recipes are. */
static bool leave_engine(const struct cay_engine *e, int *out)
{
    int host = fcntl(e->host_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 2);
    int pipe = fcntl(*out, F_DUPFD_CLOEXEC, STDERR_FILENO + 2);
    if (host < 0 || pipe < 0 || setns(host, CLONE_NEWNS) < 0 || chdir("/") < 0)
        return false;
    *out = dup2(pipe, STDERR_FILENO + 1);
    return *out >= 0 && close_range((unsigned)*out + 1, ~0U, 0) == 0;
}

static void CAY_NORETURN run_child(const struct cay_engine *e, const char *name, int fd)
{
    (void)prctl(PR_SET_NAME, "cay-build");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpriority(PRIO_PROCESS, 0, 5); /* never at the cost of those who have their sandbox */
    (void)signal(SIGPIPE, SIG_IGN);
    FILE *out = leave_engine(e, &fd) ? fdopen(fd, "w") : NULL;
    if (!out)
        _exit(1);
    const char *verdict = CAY_BUILD_DONE;
    if (*name)
        verdict = build(e, name, fd);
    else if (e->cfg->recipes)
        (void)look_through(e->cfg->recipes, NULL, out, NULL, 0);
    (void)fprintf(out, "%s\n", verdict);
    _exit(fclose(out) != 0);
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

void cay_build_take(struct cay_dispatcher *d, struct cay_pending *p)
{
    struct cay_error err;
    int fds[2] = {-1, -1};
    pid_t *place = free_place(d, !p->request.image[0]);
    if (!place) {
        (void)cay_fail_as(&err, CAY_ERR_UNAVAILABLE, "TOO_MANY_BUILDS",
                          "%d images are being built already", CAY_BUILDS);
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
        return;
    }
    pid_t pid = pipe2(fds, O_CLOEXEC) < 0 ? -1 : fork();
    if (pid == 0)
        run_child(&d->engine, p->request.image, fds[1]);
    if (pid > 0)
        *place = pid;
    else
        (void)cay_fail_errno(&err, CAY_ERR_PROVIDER, "cannot start a build");
    cay_dispatcher_answer(d, p, pid < 0 ? &err : NULL, NULL, 0, pid < 0 ? -1 : fds[0]);
    cay_close_fd(&fds[0]);
    cay_close_fd(&fds[1]);
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
