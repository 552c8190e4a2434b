/* SPDX-License-Identifier: Apache-2.0 */
/* The engine beside another provider: it makes no sandboxes, but opens for the server what that has
 * no rights to, and hands it over.
 *
 * Whoever may speak to a Docker Engine can be root on its machine, so nothing here guards against
 * that; but where to connect to is the operator's word, and a net namespace is entered only if the
 * pid that was named is of the very container that was named, and the cay-init in it: a pid that is
 * another's by now, or was counted on another machine, leads nowhere. */
#include "engine/opener.h"
#include "base/log.h"
#include "base/packet.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/foreign.h"
#include "engine/image.h"
#include "engine/message.h"
#include "engine/socket.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define CLIENTS 256
#define CGROUP_BYTES 8192
#define UNIX_SCHEME "unix://"
#define USUAL_SOCKET "/var/run/docker.sock"

struct opener {
    const struct cay_config *cfg;
    struct cay_engine engine;                 /* as far as builds need it */
    int trust_fd;                             /* whom the operator believes, in sealed memory */
    struct pollfd fds[1 + CLIENTS];           /* the listener first; -1: free */
    int builds[CAY_BUILDS + CAY_BUILD_LOOKS]; /* pidfds; those of builds first; 0: none */
};

/* What an answer carries beside its head. */
struct answer {
    struct cay_sockets s;
    char text[CAY_MESSAGE_MAX / 2];
    size_t len;
};

static int dial(const struct opener *o, struct answer *out, struct cay_error *err)
{
    const char *host = o->cfg->docker_host ? o->cfg->docker_host : UNIX_SCHEME USUAL_SOCKET;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strncmp(host, UNIX_SCHEME, strlen(UNIX_SCHEME)) != 0 ||
        strlen(host) - strlen(UNIX_SCHEME) > CAY_MAX_SOCKET_PATH)
        return cay_fail(err, CAY_ERR_INVALID, "%s is no socket of this machine", host);
    host += strlen(UNIX_SCHEME);
    cay_str_copy(to.sun_path, sizeof to.sun_path, host);
    CAY_AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "no Docker Engine at %s", host);
    out->s.fds[out->s.count++] = cay_take_fd(&fd);
    return 0;
}

static int open_programs(const struct opener *o, struct answer *out, struct cay_error *err)
{
    static const char *const names[] = {"cay-init", "cay-file"};
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        int fd = cay_engine_open_program(names[i], err);
        if (fd < 0)
            return fd;
        out->s.fds[out->s.count++] = fd;
    }
    int fd = fcntl(o->trust_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot hand over certificates");
    out->s.fds[out->s.count++] = fd;
    return 0;
}

/* ---- an image's files ---- */

/* In a mount namespace of the child's own: several layers become one tree, by the kernel. */
static void CAY_NORETURN pack(int images_fd, const struct cay_image *image, int out)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf options = {0};
    const char *root = cay_arena_printf(&a, "layers/%s", image->layers.at[0]);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
    if (fchdir(images_fd) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(1);
    if (image->layers.count > 1) {
        for (size_t i = 0; i < image->layers.count; i++)
            cay_buf_addf(&options, "%slayers/%s", i ? ":" : "lowerdir=", image->layers.at[i]);
        cay_buf_addc(&options, 0);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0 ||
            mount("overlay", "tmp", "overlay", MS_RDONLY, options.data) < 0)
            _exit(1);
        root = "tmp";
    }
    (void)execlp("tar", "tar", "--create", "--numeric-owner", "--xattrs", "--one-file-system",
                 "--sort=name", "-C", root, "-f", "-", ".", (char *)NULL);
    _exit(1);
}

static int export_image(const struct opener *o, const char *name, struct answer *out,
                        struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_image image;
    const char *text;
    const char *where =
        o->cfg->images ? o->cfg->images : cay_arena_printf(&a, "%s/images", o->cfg->data);
    CAY_AUTO_FD int images = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTO_FD int from = -1, to = -1;
    int ends[2];
    if (images < 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", "image not found: %s", name);
    int r = cay_image_find(images, name, &a, &image, &text, err);
    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a pipe");
    from = ends[0];
    to = ends[1];
    pid_t pid = strlen(text) < sizeof out->text ? fork() : -1;
    if (pid == 0)
        pack(images, &image, to);
    if (pid < 0)
        return cay_fail(err, CAY_ERR_PROVIDER, "cannot pack the image %s", name);
    out->len = strlen(text);
    memcpy(out->text, text, out->len);
    out->s.fds[out->s.count++] = cay_take_fd(&from);
    return 0;
}

static bool has_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static int build(struct opener *o, const struct cay_engine_request *rq, int recipe_fd,
                 struct answer *out, struct cay_error *err)
{
    bool looks = !rq->image[0];
    size_t i = looks ? CAY_BUILDS : 0, end = looks ? CAY_COUNT(o->builds) : CAY_BUILDS;
    int fd = -1;
    while (i < end && o->builds[i] && !has_ended(o->builds[i]))
        i++;
    if (i == end)
        return cay_builder_too_many(err);
    if (o->builds[i])
        cay_close_fd(&o->builds[i]);
    o->builds[i] = 0;
    pid_t pid = cay_builder_begin(&o->engine, rq, recipe_fd, &fd, err);
    if (pid < 0)
        return pid;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    o->builds[i] = pidfd > 0 ? pidfd : 0; /* it has ended already */
    out->s.fds[out->s.count++] = fd;
    return 0;
}

/* ---- into a sandbox ---- */

/* Whether the process whose directory in /proc this is belongs to the container: every runtime
 * names its cgroups by it. False as well when it is gone, whoever has its number then. */
static bool is_of(int proc, const char *container)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = openat(proc, "cgroup", O_RDONLY | O_CLOEXEC);
    char *text = cay_arena_alloc(&a, CGROUP_BYTES + 1);
    size_t len = 0;
    for (ssize_t n = 1; fd >= 0 && n > 0 && len<CGROUP_BYTES; len += n> 0 ? (size_t)n : 0)
        n = read(fd, text + len, CGROUP_BYTES - len);
    text[len] = 0;
    return strstr(text, container) != NULL;
}

/* Connected to the cay-init that is `pid`, and to nobody else. */
static int connect_pid1(pid_t pid, struct cay_sockets *out, struct cay_error *err)
{
    struct ucred who = {0};
    socklen_t len = sizeof who;
    int r = cay_sockets_make(pid, CAY_SOCKET_PID1, out, err);
    if (r == 0 &&
        (out->count != 1 || getsockopt(out->fds[0], SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
         who.pid != pid))
        return cay_fail(err, CAY_ERR_FORBIDDEN, "that is not a sandbox of ours");
    return r;
}

static int find(const struct cay_engine_request *rq, int *proc_out, struct cay_error *err)
{
    char path[32];
    if (rq->pid < 2 || rq->pid > INT32_MAX || !memchr(rq->container, 0, sizeof rq->container) ||
        strspn(rq->container, "0123456789abcdef") != sizeof rq->container - 1)
        return cay_fail(err, CAY_ERR_INVALID, "not a sandbox's pid");
    (void)snprintf(path, sizeof path, "/proc/%u", rq->pid);
    CAY_AUTO_FD int proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0 || !is_of(proc, rq->container))
        return cay_fail_as(err, CAY_ERR_UNSUPPORTED, "ENGINE_ELSEWHERE",
                           "the container is not on this machine");
    *proc_out = cay_take_fd(&proc);
    return 0;
}

/* The directory stays that process's, so what it says at the end was so all the time. */
static int join(const struct cay_engine_request *rq, uint32_t kind, struct cay_sockets *out,
                struct cay_error *err)
{
    CAY_AUTO_FD int proc = -1;
    int r = find(rq, &proc, err);
    if (r == 0)
        r = connect_pid1((pid_t)rq->pid, out, err);
    if (r == 0 && kind != CAY_SOCKET_PID1) {
        cay_sockets_close(out);
        r = cay_sockets_make((pid_t)rq->pid, kind, out, err);
    }
    if (r == 0 && !is_of(proc, rq->container))
        r = cay_fail(err, CAY_ERR_PROVIDER, "the sandbox has just ended");
    return r;
}

/* What is asked of one that ran a moment ago. */
static int manage(const struct cay_engine_request *rq, struct answer *out, struct cay_error *err)
{
    struct cay_usage usage;
    CAY_AUTO_FD int proc = -1;
    int r = find(rq, &proc, err);
    if (r == CAY_ERR_UNSUPPORTED)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "the sandbox has ended");
    if (r < 0)
        return r;
    if (rq->op == CAY_ENGINE_LIMIT)
        return cay_foreign_limit(proc, rq, err);
    if (rq->op == CAY_ENGINE_HOLD)
        return cay_foreign_hold(proc, &out->s, err);
    r = cay_foreign_usage(proc, (pid_t)rq->pid, &usage, err);
    if (r < 0)
        return r;
    out->len = sizeof usage;
    memcpy(out->text, &usage, sizeof usage);
    return 0;
}

static int act(struct opener *o, const struct cay_engine_request *rq, int recipe_fd,
               struct answer *out, struct cay_error *err)
{
    const struct cay_engine_hello hello = {.version = CAY_VERSION, .disk = "none"};
    if (rq->version != CAY_ENGINE_VERSION)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "message version %u is not ours", rq->version);
    if (!memchr(rq->image, 0, sizeof rq->image))
        return cay_fail(err, CAY_ERR_INVALID, "a string without its end");
    switch (rq->op) {
    case CAY_ENGINE_HELLO:
        out->len = sizeof hello;
        memcpy(out->text, &hello, sizeof hello);
        return 0;
    case CAY_ENGINE_DIAL:
        return dial(o, out, err);
    case CAY_ENGINE_PROGRAMS:
        return open_programs(o, out, err);
    case CAY_ENGINE_EXPORT:
        return export_image(o, rq->image, out, err);
    case CAY_ENGINE_BUILD:
        return build(o, rq, recipe_fd, out, err);
    case CAY_ENGINE_SETTLE:
        return join(rq, o->cfg->egress_allow ? CAY_SOCKET_UNGUARDED : CAY_SOCKET_GUARDED, &out->s,
                    err);
    case CAY_ENGINE_JOIN:
        return join(rq, CAY_SOCKET_PID1, &out->s, err);
    case CAY_ENGINE_USAGE:
    case CAY_ENGINE_LIMIT:
    case CAY_ENGINE_HOLD:
        return manage(rq, out, err);
    case CAY_ENGINE_COPY:
        return cay_foreign_copy(rq, &out->s, err);
    case CAY_ENGINE_SOCKET:
        return rq->socket > CAY_SOCKET_OUT
                   ? cay_fail(err, CAY_ERR_INVALID, "no kind of socket %u", rq->socket)
                   : join(rq, rq->socket, &out->s, err);
    default:
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "this engine makes no sandboxes");
    }
}

/* ---- the loop ---- */

/* False: the client is gone. */
static bool serve(struct opener *o, int sock)
{
    struct cay_engine_request rq;
    struct cay_error err = {0};
    struct answer a = {.len = 0};
    int fds[1] = {-1}, count = 0;
    ssize_t n = cay_packet_recv(sock, &rq, sizeof rq, fds, 1, &count);
    CAY_AUTO_FD int recipe = count ? fds[0] : -1; /* of a build; nobody else brings any */
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n != sizeof rq)
        return false;
    int r = act(o, &rq, recipe, &a, &err);
    if (r < 0) {
        a.len = 0;
        cay_sockets_close(&a.s);
    }
    struct cay_engine_reply reply = {
        .version = CAY_ENGINE_VERSION, .code = r, .len = (uint32_t)a.len};
    cay_str_copy(reply.name, sizeof reply.name, err.name ? err.name : "");
    cay_str_copy(reply.msg, sizeof reply.msg, err.msg);
    cay_str_copy(reply.cause, sizeof reply.cause, err.cause);
    bool sent = cay_packet_send(sock, &reply, sizeof reply, a.text, a.len, a.s.fds, a.s.count) == 0;
    cay_sockets_close(&a.s);
    return sent;
}

static void take_client(struct opener *o)
{
    struct ucred who;
    socklen_t len = sizeof who;
    CAY_AUTO_FD int fd = accept4(o->fds[0].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
        (who.uid != 0 && who.uid != o->cfg->server_uid))
        return;
    for (size_t i = 1; i < CAY_COUNT(o->fds); i++)
        if (o->fds[i].fd < 0) {
            o->fds[i].fd = cay_take_fd(&fd);
            return;
        }
}

/* Read once and by root, who may be the only one that can. */
static int hold_trust(struct opener *o, struct cay_error *err)
{
    int r = cay_trust_read(o->cfg->trust_ca, &o->engine.trust, err);
    if (r < 0)
        return r;
    size_t len = strlen(o->engine.trust.text);
    o->trust_fd = memfd_create("trust", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (o->trust_fd < 0 || !cay_write_all(o->trust_fd, o->engine.trust.text, len) ||
        fcntl(o->trust_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot hold certificates in memory");
    return 0;
}

int cay_opener_run(const struct cay_config *cfg, int listen_fd)
{
    static struct opener o;
    char instance[17];
    struct cay_error err;
    CAY_AUTO_FD int data = open(cfg->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    o.cfg = o.engine.cfg = cfg;
    if (cay_engine_instance(data, instance, &err) < 0 || hold_trust(&o, &err) < 0) {
        cay_log_error(&err, "the engine cannot start");
        return 1;
    }
    o.engine.host_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < CAY_COUNT(o.fds); i++)
        o.fds[i] = (struct pollfd){.fd = i ? -1 : listen_fd, .events = POLLIN};
    (void)fcntl(listen_fd, F_SETFL,
                O_NONBLOCK); /* one that went before it was taken stops nobody */
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGCHLD, SIG_IGN); /* nobody asks how packing ended: its pipe tells */
    for (;;) {
        if (poll(o.fds, CAY_COUNT(o.fds), -1) < 0 && errno != EINTR)
            return 1;
        if (o.fds[0].revents)
            take_client(&o);
        for (size_t i = 1; i < CAY_COUNT(o.fds); i++)
            if (o.fds[i].fd >= 0 && o.fds[i].revents && !serve(&o, o.fds[i].fd))
                cay_close_fd(&o.fds[i].fd);
    }
}
