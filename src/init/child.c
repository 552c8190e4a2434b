/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a child from fork to exec. It is still a copy of pid 1, so the order matters: names
 * are looked up before any right is raised, every descriptor of pid 1 is gone before the tenant's
 * directory is entered, and that happens with the tenant's rights. */
#include "init/init.h"
#include "init/slice.h"
#include "init/user.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define STATUS_FD 3
#define ADDED 5 /* variables of ours */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* user, cwd, argv NULL, env NULL. Touched in the child only. */
static const char *words[2 + CAY_MAX_ARGS + 1 + 4 * CAY_MAX_ENV + ADDED + 1];
static char added[ADDED][CAY_USER_HOME + 16];

static CAY_NORETURN void refuse(int status_fd, enum cay_init_result result, int error)
{
    struct cay_start_status s = {.result = result, .error = error};
    (void)!write(status_fd, &s, sizeof s); /* nobody else to tell */
    _exit(126);
}

/* The shell's own words and codes for a command that cannot be run. */
static CAY_NORETURN void tell(const char *name, int error)
{
    char line[512];
    const char *why = error == ENOENT || error == ENOTDIR ? "not found"
                      : error == EACCES || error == EPERM ? "permission denied"
                      : error == ENOEXEC                  ? "not a program this machine can run"
                      : error == EISDIR                   ? "is a directory"
                                                          : "cannot be run";
    size_t len = strnlen(name, sizeof line - 64);
    char *at = mempcpy(line, "cay: ", 5);
    at = mempcpy(at, name, len);
    at = mempcpy(at, ": ", 2);
    at = mempcpy(at, why, strlen(why));
    *at++ = '\n';
    (void)!write(STDERR_FILENO, line, (size_t)(at - line)); /* the code says it too */
    _exit(error == ENOENT || error == ENOTDIR ? 127 : 126);
}

static const char *find_env(const char *const *env, const char *key)
{
    size_t len = strlen(key);
    for (; *env; env++)
        if (strncmp(*env, key, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static void default_env(const char **env, size_t *count, int slot, const char *key,
                        const char *value)
{
    if (find_env(env, key))
        return;
    char *at = stpcpy(added[slot], key);
    *at++ = '=';
    (void)stpcpy(at, value); /* a home or a name: both shorter than a slot */
    env[(*count)++] = added[slot];
    env[*count] = NULL;
}

/* Tries each directory of PATH, as execvp does, but never hands a file to a shell. */
static CAY_NORETURN void run(const char *const *argv, const char *const *env)
{
    char path[CAY_MAX_PATH + 1];
    const char *name = argv[0];
    int error = ENOENT;
    char *const *av = (char *const *)(uintptr_t)argv, *const *ev = (char *const *)(uintptr_t)env;
    if (strchr(name, '/')) {
        (void)execve(name, av, ev);
        error = errno;
    }
    size_t name_len = strlen(name);
    const char *dir = strchr(name, '/') ? NULL : find_env(env, "PATH");
    while (dir) {
        size_t len = strcspn(dir, ":");
        const char *next = dir[len] ? dir + len + 1 : NULL;
        if (len + 1 + name_len < sizeof path) {
            char *at = mempcpy(path, len ? dir : ".", len ? len : 1);
            *at++ = '/';
            memcpy(at, name, name_len + 1);
            (void)execve(path, av, ev);
            if (errno == EACCES)
                error = EACCES; /* unless a later directory has one that runs */
            else if (errno != ENOENT && errno != ENOTDIR) {
                error = errno;
                break;
            }
        }
        dir = next;
    }
    if (error == E2BIG)
        refuse(STATUS_FD, CAY_INIT_NO_EXEC, E2BIG);
    tell(name, error);
}

static const char *map_strings(const struct cay_child *c)
{
    if (c->strings)
        return c->strings;
    /* sealed against writing and shrinking: it cannot change or fault under us */
    void *map = mmap(NULL, c->req->strings_len, PROT_READ, MAP_PRIVATE, c->memfd, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* words become user, cwd, argv and env, each list ended by NULL; where env begins. */
static const char **split_words(const struct cay_child *c)
{
    const char *strings = map_strings(c);
    const size_t argc = c->req->argc, envc = c->req->envc;
    if (!strings || !cay_init_unpack(strings, c->req->strings_len, 2 + argc + envc, words))
        return NULL;
    const char **env = words + 2 + argc;
    memmove(env + 1, env, envc * sizeof *env);
    *env++ = NULL;
    env[envc] = NULL;
    for (size_t i = 0; i < envc; i++)
        if (!strchr(env[i], '=') || env[i][0] == '=')
            return NULL;
    return words[0][0] && words[1][0] == '/' && words[2][0] ? env : NULL;
}

static void place_fds(const struct cay_child *c)
{
    if ((c->stdin_fd >= 0 && dup2(c->stdin_fd, STDIN_FILENO) < 0) ||
        dup2(c->stdout_fd, STDOUT_FILENO) < 0 || dup2(c->stderr_fd, STDERR_FILENO) < 0 ||
        dup3(c->status_fd, STATUS_FD, O_CLOEXEC) < 0)
        refuse(c->status_fd, CAY_INIT_NO_PROCESS, errno);
    if (c->has_tty && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
        refuse(STATUS_FD, CAY_INIT_NO_STREAM, errno);
    if (syscall(SYS_close_range, STATUS_FD + 1, ~0U, 0) < 0)
        refuse(STATUS_FD, CAY_INIT_NO_PROCESS, errno);
}

void cay_child_run(const struct cay_child *c)
{
    struct cay_user user;
    char cwd[CAY_MAX_PATH + 1];
    sigset_t none;
    size_t envc = c->req->envc;

    (void)setsid(); /* cannot fail: a forked child leads no group */
    const char **env = split_words(c);
    if (!env)
        refuse(c->status_fd, CAY_INIT_BAD_REQUEST, 0);
    if (!cay_user_resolve(words[0], &user))
        refuse(c->status_fd, CAY_INIT_NO_USER, 0);
    place_fds(c);
    if (cay_caps_raise() < 0)
        refuse(STATUS_FD, CAY_INIT_NO_PROCESS, errno);
    const struct rlimit file = {c->file_bytes, c->file_bytes};
    if (setrlimit(RLIMIT_FSIZE, &file) < 0)
        refuse(STATUS_FD, CAY_INIT_NO_PROCESS, errno);
    /* so that it can open /dev/stdout; where it fails, only that does not work. A terminal stays
     * with its group, whose members may write to it and not read. */
    (void)!fchown(STDOUT_FILENO, user.uid, c->has_tty ? (gid_t)-1 : user.gid);
    (void)!fchown(STDERR_FILENO, user.uid, c->has_tty ? (gid_t)-1 : user.gid);
    if (cay_caps_become(user.uid, user.gid) < 0)
        refuse(STATUS_FD, CAY_INIT_NO_USER, errno);
    if (chdir(words[1]) < 0)
        refuse(STATUS_FD, CAY_INIT_NO_CWD, errno);
    if (!getcwd(cwd, sizeof cwd) || cwd[0] != '/')
        refuse(STATUS_FD, CAY_INIT_NO_CWD, ENOENT);

    env[envc] = NULL;
    default_env(env, &envc, 0, "PATH", DEFAULT_PATH);
    default_env(env, &envc, 1, "HOME", user.home);
    default_env(env, &envc, 2, "USER", user.name);
    default_env(env, &envc, 3, "LOGNAME", user.name);
    if (c->has_tty)
        default_env(env, &envc, 4, "TERM", "xterm-256color");
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    cay_slice_set(CAY_SLICE_USUAL_NS);
    run(words + 2, env);
}
