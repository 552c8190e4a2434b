/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/house.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/process.h"
#include "base/str.h"
#include "model/limits.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#define NAMELESS_ID 61317 /* whom the server runs as where there is no user `cay` */
#define SERVERS_LOCK "lock.server"
#define DEFAULT_RECIPE "node-20-bookworm" /* that makes CAY_DEFAULT_IMAGE */

static int make_parents(const char *path, struct cay_error *err)
{
    char part[PATH_MAX];
    cay_str_copy(part, sizeof part, path);
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return cay_fail_errno(err, CAY_ERR_INVALID, "cannot make %s", part);
        *at = '/';
    }
    return 0;
}

void cay_house_find_user(struct cay_config *cfg)
{
    uint64_t id;
    const char *name = cfg->user ? cfg->user : "cay";
    struct passwd *pw = getpwnam(name);
    cfg->server_uid = pw ? pw->pw_uid : NAMELESS_ID;
    cfg->server_gid = pw ? pw->pw_gid : NAMELESS_ID;
    if (!pw && cay_str_u64(name, 0x7fffffff, &id))
        cfg->server_uid = cfg->server_gid = (unsigned)id;
}

static int open_lock(const struct cay_config *cfg, const char *name, int *fd_out,
                     struct cay_error *err)
{
    int fd = openat(cfg->data_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot open %s/%s", cfg->data, name);
    *fd_out = fd;
    return 0;
}

/* Which supervisor has the lock: its number, and its start, without which a number is anybody's.
 * It stands in the lock itself, so that whoever has that now replaces what the one before wrote;
 * commands that have it for a while leave it empty. */
static void write_holder(const struct cay_house *h, const struct cay_config *cfg)
{
    char text[48];
    int len = cfg->closing ? 0
                           : snprintf(text, sizeof text, "%d %llu\n", getpid(),
                                      (unsigned long long)cay_process_start(getpid()));
    memset(text + len, '\n', sizeof text - (size_t)len);
    /* In place and of one size: a full disk takes it too. Without it nobody is asked to go. */
    (void)!pwrite(h->lock_fd, text, sizeof text, 0);
}

static pid_t read_holder(int lock_fd, uint64_t *start_out)
{
    char text[49] = "", *rest;
    (void)!pread(lock_fd, text, sizeof text - 1, 0);
    long pid = strtol(text, &rest, 10);
    *start_out = strtoull(rest, NULL, 10);
    return pid > 0 && pid <= INT_MAX && *start_out > 0 ? (pid_t)pid : 0;
}

void cay_house_ask_to_go(const struct cay_house *h)
{
    uint64_t start;
    pid_t pid = read_holder(h->lock_fd, &start);
    CAY_AUTO_FD int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    /* Looked at when the descriptor is there: then both speak of one process. */
    if (fd >= 0 && cay_process_start(pid) == start)
        (void)syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0); /* or it has gone */
}

static int in_use(const struct cay_house *h, const struct cay_config *cfg, struct cay_error *err)
{
    uint64_t start;
    pid_t pid = read_holder(h->lock_fd, &start);
    if (pid == 0)
        return cay_fail(err, CAY_ERR_CONFLICT,
                        "the data directory %.100s is in use by another command", cfg->data);
    return cay_fail(err, CAY_ERR_CONFLICT,
                    "the data directory %.100s is in use by another cay serve (pid %d)", cfg->data,
                    pid);
}

static int wait_lock(const struct cay_house *h, int fd, const struct cay_config *cfg,
                     int64_t until_ms, struct cay_error *err)
{
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (cay_clock_mono_ms() > until_ms)
            return in_use(h, cfg, err);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return 0;
}

/* Ours to keep; the servers' only to see that none of an earlier supervisor is left, who would
 * still have the port. */
static int take_lock(struct cay_house *h, const struct cay_config *cfg, int64_t wait_ms,
                     struct cay_error *err)
{
    CAY_AUTO_FD int servers = -1;
    int64_t until_ms = cay_clock_mono_ms() + wait_ms;
    int r = open_lock(cfg, "lock", &h->lock_fd, err);
    if (r == 0)
        r = wait_lock(h, h->lock_fd, cfg, until_ms, err);
    if (r == 0)
        r = open_lock(cfg, SERVERS_LOCK, &servers, err);
    if (r == 0)
        r = wait_lock(h, servers, cfg, until_ms, err);
    if (r == 0)
        write_holder(h, cfg);
    return r;
}

int cay_house_share_lock(struct cay_house *h, const struct cay_config *cfg, struct cay_error *err)
{
    cay_close_fd(&h->lock_fd);
    int r = open_lock(cfg, SERVERS_LOCK, &h->lock_fd, err);
    if (r == 0 && flock(h->lock_fd, LOCK_SH | LOCK_NB) < 0)
        return cay_fail_errno(err, CAY_ERR_CONFLICT, "cannot lock %s/" SERVERS_LOCK, cfg->data);
    return r;
}

/* A socket in DATA/run that outlives those who accept on it. */
static int open_socket(struct cay_house *h, const char *name, int type, int *fd_out,
                       struct cay_error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/%s", h->run_fd, name);
    (void)unlinkat(h->run_fd, name, 0); /* of an earlier supervisor */
    mode_t before = umask(0177);        /* nobody's but root's from its first moment on */
    CAY_AUTO_FD int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&addr, sizeof addr);
    (void)umask(before);
    if (r < 0 || listen(fd, 128) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make the socket %s", name);
    *fd_out = cay_take_fd(&fd);
    return 0;
}

static int open_engine_socket(struct cay_house *h, const struct cay_config *cfg,
                              struct cay_error *err)
{
    int r = open_socket(h, "engine.sock", SOCK_SEQPACKET, &h->engine_fd, err);
    if (r == 0 &&
        (fchownat(h->run_fd, "engine.sock", 0, cfg->server_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
         fchmodat(h->run_fd, "engine.sock", 0660, 0) < 0))
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make the engine's socket");
    return r;
}

int cay_house_admin(struct cay_house *h, struct cay_config *cfg, struct cay_error *err)
{
    int r = open_socket(h, "admin.sock", SOCK_STREAM, &cfg->admin_fd, err);
    if (r == 0 && fchownat(h->run_fd, "admin.sock", cfg->server_uid, cfg->server_gid,
                           AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make the operator's socket");
    return r;
}

/* A directory that somebody uses for something else, and has directories of his own in, is not
 * taken over by a slip of the hand. */
static bool is_ours(int data_fd)
{
    static const char *const marks[] = {"instance", "lock"};
    static const char *const before_us[] = {".", "..", "images", "lost+found"};
    for (size_t i = 0; i < CAY_COUNT(marks); i++)
        if (faccessat(data_fd, marks[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    int fd = openat(data_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool ours = dir != NULL;
    for (struct dirent *e; ours && (e = readdir(dir));) {
        bool known = e->d_type == DT_REG; /* a log or a configuration beside us is fine */
        for (size_t i = 0; i < CAY_COUNT(before_us); i++)
            known = known || strcmp(e->d_name, before_us[i]) == 0;
        ours = known;
    }
    if (dir)
        closedir(dir);
    return ours;
}

/* Root's and the server's share: the server may make files of its own in it, and remove only
 * those; what is the engine's stays root's. */
static int open_data(struct cay_config *cfg, struct cay_error *err)
{
    int r = make_parents(cfg->data, err);
    if (r < 0)
        return r;
    r = cay_path_open_dir(AT_FDCWD, cfg->data, 0700, &cfg->data_fd, err);
    if (r < 0)
        return r;
    if (!is_ours(cfg->data_fd))
        return cay_fail(err, CAY_ERR_INVALID,
                        "%.100s holds other things and no data of cay: give an empty directory",
                        cfg->data);
    return 0;
}

/* Who only ends or copies what is there was told of no user: all stays whose it is. */
static int set_owners(struct cay_config *cfg, struct cay_error *err)
{
    static const char *const servers[] = {"logs", "events", "audit", "history"}; /* its folders */
    struct stat st;
    if (cfg->closing && fstatat(cfg->data_fd, servers[0], &st, AT_SYMLINK_NOFOLLOW) == 0) {
        cfg->server_uid = st.st_uid;
        cfg->server_gid = st.st_gid;
    }
    if (!cfg->closing &&
        (fchown(cfg->data_fd, 0, cfg->server_gid) < 0 || fchmod(cfg->data_fd, 01771) < 0))
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot set the owner of %s (not root?)",
                              cfg->data);
    for (size_t i = 0; i < CAY_COUNT(servers); i++) {
        CAY_AUTO_FD int dir = -1;
        int r = cay_path_open_dir(cfg->data_fd, servers[i], 0700, &dir, err);
        if (r < 0)
            return r;
        if (!cfg->closing && fchown(dir, cfg->server_uid, cfg->server_gid) < 0)
            return cay_fail_errno(err, CAY_ERR_INVALID, "cannot set the owner of %s", servers[i]);
    }
    return 0;
}

int cay_house_open(struct cay_house *h, struct cay_config *cfg, int64_t wait_ms,
                   struct cay_error *err)
{
    *h = (struct cay_house){-1, -1, -1};
    cay_house_find_user(cfg);
    int r = open_data(cfg, err);
    if (r == 0)
        r = take_lock(h, cfg, wait_ms, err);
    if (r == 0)
        r = set_owners(cfg, err);
    if (r == 0)
        r = cay_path_open_dir(cfg->data_fd, "run", 0755, &h->run_fd, err);
    return r < 0 ? r : open_engine_socket(h, cfg, err);
}

void cay_house_close(struct cay_house *h)
{
    cay_close_fd(&h->engine_fd);
    cay_close_fd(&h->run_fd);
    cay_close_fd(&h->lock_fd);
}

void cay_house_write_pid(const struct cay_house *h, const char *name, int pid)
{
    char file[32], text[16];
    struct cay_error ignored; /* a pid file is a help to people; nothing depends on it */
    snprintf(file, sizeof file, "%s.pid", name);
    int len = snprintf(text, sizeof text, "%d\n", pid);
    (void)cay_path_replace(h->run_fd, file, text, (size_t)len, 0644, &ignored);
}

/* ---- the port ---- */

static int split_address(const char *listen_on, char *host, size_t size, const char **port,
                         struct cay_error *err)
{
    const char *colon = strrchr(listen_on, ':');
    size_t len = colon ? (size_t)(colon - listen_on) : 0;
    if (!colon || len == 0 || len >= size || !colon[1])
        return cay_fail(err, CAY_ERR_INVALID, "cannot listen on %s: not of the form ADDRESS:PORT",
                        listen_on);
    bool brackets = listen_on[0] == '[' && listen_on[len - 1] == ']';
    snprintf(host, size, "%.*s", (int)(brackets ? len - 2 : len), listen_on + brackets);
    *port = colon + 1;
    return 0;
}

int cay_port_open(struct cay_config *cfg, struct cay_error *err)
{
    char host[128];
    const char *port = "";
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    int r = split_address(cfg->listen, host, sizeof host, &port, err);
    if (r < 0)
        return r;
    r = getaddrinfo(host, port, &hints, &found);
    if (r != 0)
        return cay_fail(err, CAY_ERR_INVALID, "cannot listen on %s: %s", cfg->listen,
                        gai_strerror(r));
    CAY_AUTO_FD int fd =
        socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    r = bind(fd, found->ai_addr, found->ai_addrlen) < 0 ? -1 : listen(fd, 1024);
    int error = errno;
    freeaddrinfo(found);
    errno = error;
    if (r < 0 || getsockname(fd, (struct sockaddr *)&bound, &len) < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot listen on %s", cfg->listen);
    char service[16];
    (void)getnameinfo((struct sockaddr *)&bound, len, host, sizeof host, service, sizeof service,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    bool six = strchr(host, ':') != NULL;
    snprintf(cfg->url, sizeof cfg->url, "%s://%s%.48s%s:%s", cfg->tls_cert ? "https" : "http",
             six ? "[" : "", host, six ? "]" : "", service);
    cfg->listen_fd = cay_take_fd(&fd);
    return 0;
}

/* ---- the default image ---- */

/* The builder and its recipes lie in the source tree or where `make install` puts them. */
int cay_house_find_recipes(struct cay_config *cfg, struct cay_error *err)
{
    static const char *const places[] = {"..", "../share/cay"};
    static char builder[PATH_MAX], recipes[PATH_MAX]; /* as long as we are */
    char self[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    const char *wanted = cfg->recipes;
    if (slash)
        *slash = 0;
    for (size_t i = 0; slash && !cfg->builder && i < CAY_COUNT(places); i++) {
        snprintf(path, sizeof path, "%s/%s/tools/image-build", self, places[i]);
        if (access(path, X_OK) == 0 && realpath(path, builder))
            cfg->builder = builder;
        snprintf(path, sizeof path, "%s/%s/recipes", self, places[i]);
        if (cfg->builder && !wanted && realpath(path, recipes))
            cfg->recipes = recipes;
    }
    if (wanted && !realpath(wanted, recipes))
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot open the recipes in %s", wanted);
    if (wanted)
        cfg->recipes = recipes; /* wherever we are */
    return 0;
}

static int make_image(const struct cay_config *cfg, const char *store, struct cay_error *err)
{
    char ref[PATH_MAX + 64], recipe[PATH_MAX + 64];
    snprintf(ref, sizeof ref, "%s/refs/" CAY_DEFAULT_IMAGE, store);
    if (access(ref, R_OK) == 0)
        return 0;
    snprintf(recipe, sizeof recipe, "%s/" DEFAULT_RECIPE, cfg->recipes ? cfg->recipes : "");
    if (!cfg->builder || access(recipe, R_OK) != 0)
        return cay_fail(err, CAY_ERR_NOT_FOUND,
                        "no image " CAY_DEFAULT_IMAGE " in %.60s and no recipe to build it", store);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout says only when we are ready */
        execl(cfg->builder, cfg->builder, recipe, store, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return cay_fail(err, CAY_ERR_PROVIDER, "cannot build the image " CAY_DEFAULT_IMAGE);
    return 0;
}

int cay_default_image(struct cay_config *cfg, struct cay_error *err)
{
    static char path[PATH_MAX]; /* as long as we are */
    char store[PATH_MAX];
    if (cfg->images)
        snprintf(store, sizeof store, "%s", cfg->images);
    else
        snprintf(store, sizeof store, "%s/images", cfg->data);
    int r = make_image(cfg, store, err);
    if (r == 0 && !realpath(store, path))
        r = cay_fail_errno(err, CAY_ERR_INVALID, "cannot open the images in %s", store);
    cfg->store_path = path;
    return r;
}
