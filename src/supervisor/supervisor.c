/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps engine and server alive. Sandboxes do not depend on any of the three: whoever dies is
 * started again and finds them. */
#include "supervisor/supervisor.h"
#include "api/app.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/packet.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "supervisor/backend.h"
#include "supervisor/certificate.h"
#include "supervisor/house.h"
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define RESTART_MS 500    /* after a death within a second of its start */
#define DRAIN_MS 10200    /* the server's own limit is 10 s */
#define LOCK_WAIT_MS 2000 /* children of a killed supervisor need a moment to go */

struct keeper {
    struct cay_config *cfg;
    struct cay_house house;
    pid_t self, engine, server; /* 0: not there */
    int64_t engine_began_ms, server_began_ms;
    int news_fd; /* where the server hears of a new certificate; -1: none */
    sigset_t signals;
};

/* ---- the two children ---- */

static void begin_child(struct keeper *k, const char *name, const char *who)
{
    sigprocmask(SIG_UNBLOCK, &k->signals, NULL);
    (void)prctl(PR_SET_NAME, name);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != k->self)
        _exit(1); /* it died before that took effect */
    cay_close_fd(&k->house.run_fd);
    cay_close_fd(&k->news_fd);
    cay_log_init(who);
}

static void CAY_NORETURN run_engine(struct keeper *k)
{
    int sock = cay_take_fd(&k->house.engine_fd);
    begin_child(k, "cay-engine", "engine");
    cay_close_fd(&k->cfg->listen_fd);
    cay_close_fd(&k->cfg->admin_fd);
    cay_close_fd(&k->cfg->tls_fd);
    _exit(cay_engine_run(k->cfg, sock));
}

static void drop_rights(const struct cay_config *cfg, pid_t supervisor)
{
    if (setgroups(0, NULL) < 0 ||
        setresgid(cfg->server_gid, cfg->server_gid, cfg->server_gid) < 0 ||
        setresuid(cfg->server_uid, cfg->server_uid, cfg->server_uid) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        cay_log_error(NULL, "cannot drop root's rights: %s", strerror(errno));
        _exit(1);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of user cleared it */
    if (getppid() != supervisor)
        _exit(1);
}

static void CAY_NORETURN run_server(struct keeper *k)
{
    struct cay_error err;
    begin_child(k, "cay-server", "server");
    if (cay_house_share_lock(&k->house, k->cfg, &err) < 0) {
        cay_log_error(&err, "the server cannot start");
        _exit(1);
    }
    cay_close_fd(&k->house.engine_fd);
    drop_rights(k->cfg, k->self);
    _exit(cay_server_run(k->cfg));
}

/* 0 when it could not be forked: the watch tries again. */
static pid_t start(struct keeper *k, void (*run)(struct keeper *), const char *name)
{
    pid_t pid = fork();
    if (pid == 0)
        run(k);
    if (pid < 0) {
        cay_log_error(NULL, "cannot fork the %s: %s", name, strerror(errno));
        return 0;
    }
    cay_house_write_pid(&k->house, name, pid);
    return pid;
}

static void start_engine(struct keeper *k)
{
    k->engine = start(k, run_engine, "engine");
    k->engine_began_ms = cay_clock_mono_ms();
}

/* Without one a server keeps the certificate that it began with. */
static void open_news(struct keeper *k)
{
    int pair[2];
    cay_close_fd(&k->news_fd);
    if (k->cfg->tls_fd < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return;
    k->news_fd = pair[0];
    k->cfg->tls_news_fd = pair[1];
}

static void start_server(struct keeper *k)
{
    open_news(k);
    k->server = start(k, run_server, "server");
    k->server_began_ms = cay_clock_mono_ms();
    cay_close_fd(&k->cfg->tls_news_fd);
    k->cfg->announce = false; /* the address is said once */
}

/* One that dies as soon as it starts is not started in a tight loop. */
static void pause_if_young(int64_t began_ms)
{
    if (cay_clock_mono_ms() - began_ms < 1000)
        nanosleep(&(struct timespec){.tv_nsec = RESTART_MS * 1000000L}, NULL);
}

/* ---- the watch ---- */

/* False when the server gave up by itself: it could not be opened at all. */
static bool reap(struct keeper *k, int *status_out)
{
    bool go_on = true;
    for (pid_t pid; (pid = waitpid(-1, status_out, WNOHANG)) > 0;) {
        if (pid == k->engine) {
            cay_log_warn("the engine died; starting it again");
            pause_if_young(k->engine_began_ms);
            start_engine(k);
        } else if (pid == k->server && WIFEXITED(*status_out)) {
            if (WEXITSTATUS(*status_out) == CAY_CRASH_STATUS && getenv("CAY_CRASH_AT"))
                (void)kill(getpid(), SIGKILL);
            k->server = 0;
            go_on = false;
            break;
        } else if (pid == k->server) {
            cay_log_warn("the server died; starting it again");
            pause_if_young(k->server_began_ms);
            start_server(k);
        } /* else: a pid 1 whose engine died before it */
    }
    return go_on;
}

static void end_child(pid_t pid, int signal, int64_t wait_ms)
{
    if (pid <= 0)
        return;
    (void)kill(pid, signal);
    for (int64_t until = cay_clock_mono_ms() + wait_ms; cay_clock_mono_ms() < until;) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static void start_missing(struct keeper *k)
{
    if (k->engine == 0)
        start_engine(k);
    if (k->server == 0)
        start_server(k);
}

/* SIGHUP: for those who connect from now on. What cannot be used changes nothing. */
static void renew_certificate(struct keeper *k)
{
    struct cay_error err;
    int fd;
    if (cay_certificate_read(k->cfg, &fd, &err) < 0) {
        cay_log_error(&err, "the certificate is not renewed; the old one stays");
        return;
    }
    cay_close_fd(&k->cfg->tls_fd);
    k->cfg->tls_fd = fd; /* for servers that are started later */
    if (k->news_fd >= 0 && cay_packet_send(k->news_fd, "1", 1, NULL, 0, &fd, 1) < 0)
        cay_log_warn("the server could not be told of its new certificate: %s", strerror(errno));
    else
        cay_log_info("the certificate is renewed");
}

/* SIGTERM: the server drains and ends with 0; sandboxes stay. A second one does not wait. */
static int watch(struct keeper *k)
{
    int status = 0, terms = 0;
    int64_t drained_ms = 0;
    for (;;) {
        siginfo_t si;
        if (sigtimedwait(&k->signals, &si, &(struct timespec){.tv_nsec = 500000000}) < 0) {
            if (terms && cay_clock_mono_ms() > drained_ms)
                break; /* a request that does not end cannot keep us */
            start_missing(k);
            continue;
        }
        if (si.si_signo == SIGCHLD) {
            if (!reap(k, &status))
                break;
            continue;
        }
        if (si.si_signo == SIGHUP) {
            renew_certificate(k);
            continue;
        }
        if (++terms > 1 || k->server == 0)
            break;
        drained_ms = cay_clock_mono_ms() + DRAIN_MS;
        (void)kill(k->server, SIGTERM);
    }
    end_child(k->server, SIGKILL, 1000);
    end_child(k->engine, SIGTERM, 5000);
    return terms ? 0 : WEXITSTATUS(status);
}

static struct keeper new_keeper(struct cay_config *cfg)
{
    return (struct keeper){.cfg = cfg, .self = getpid(), .news_fd = -1};
}

static int open_keeper(struct keeper *k, struct cay_config *cfg, struct cay_error *err)
{
    struct rlimit files;
    *k = new_keeper(cfg);
    int r = cay_house_open(&k->house, cfg, LOCK_WAIT_MS, err);
    if (r == 0 && cfg->tls_cert)
        r = cay_certificate_read(cfg, &cfg->tls_fd, err);
    if (r < 0)
        return r;
    sigemptyset(&k->signals);
    sigaddset(&k->signals, SIGCHLD);
    sigaddset(&k->signals, SIGTERM);
    sigaddset(&k->signals, SIGINT);
    if (cfg->tls_cert)
        sigaddset(&k->signals, SIGHUP); /* else it ends us, as when a terminal goes */
    sigprocmask(SIG_BLOCK, &k->signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* fewer connections then */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* pid 1s whose engine died are reaped here */
    (void)prctl(PR_SET_NAME, "cay-super");
    umask(022);
    cay_house_write_pid(&k->house, "supervisor", getpid());
    cay_crash_arm(getpid());
    return 0;
}

int cay_supervisor_run(struct cay_config *cfg)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err;
    struct keeper k;

    cay_log_init("supervisor");
    int r = open_keeper(&k, cfg, &err);
    if (r == 0)
        r = cay_backend_identify(cfg, &a, &err);
    if (r == 0)
        r = cay_backend_claim(cfg, &err);
    if (r == 0)
        r = cay_port_open(cfg, &err);
    if (r == 0)
        r = cay_house_admin(&k.house, cfg, &err);
    if (r == 0)
        r = cay_house_find_recipes(cfg, &err);
    if (r == 0)
        r = cay_default_image(cfg, &err);
    if (r < 0) {
        fprintf(stderr, "cay serve: %s%s%s\n", err.msg, *err.cause ? ": " : "", err.cause);
        return 1;
    }
    cfg->announce = true;
    start_engine(&k);
    start_server(&k);
    int status = watch(&k);
    cay_house_close(&k.house);
    return status;
}

/* ---- down ---- */

static int ask_down(struct keeper *k, struct cay_error *err)
{
    char path[64];
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = CAY_ENGINE_DOWN};
    struct cay_engine_reply reply;
    snprintf(path, sizeof path, "/proc/self/fd/%d/engine.sock", k->house.run_fd);
    CAY_AUTO_FD int sock = cay_packet_connect(path);
    if (sock < 0 || cay_packet_send(sock, &rq, sizeof rq, NULL, 0, NULL, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot reach the engine");
    struct pollfd fd = {.fd = sock, .events = POLLIN};
    if (poll(&fd, 1, 60000) <= 0 ||
        cay_packet_recv(sock, &reply, sizeof reply, NULL, 0, NULL) != sizeof reply)
        return cay_fail(err, CAY_ERR_TIMEOUT, "the engine did not end every sandbox in 60 s");
    return reply.code < 0 ? cay_fail(err, reply.code, "%s", reply.msg) : 0;
}

/* For an engine alone: without a port, a certificate, and anything new. */
static struct cay_config bare_config(const char *data_dir)
{
    return (struct cay_config){.data = data_dir,
                               .data_fd = -1,
                               .listen_fd = -1,
                               .admin_fd = -1,
                               .tls_fd = -1,
                               .tls_news_fd = -1,
                               .closing = true};
}

int cay_supervisor_down(const char *data_dir)
{
    struct cay_error err;
    struct keeper k;
    struct cay_config cfg = bare_config(data_dir);
    CAY_AUTO_ARENA struct cay_arena a = {0};

    cay_log_init("supervisor");
    char mark[PATH_MAX];
    snprintf(mark, sizeof mark, "%s/instance", data_dir);
    int r = access(mark, F_OK) < 0 ? cay_fail_errno(&err, CAY_ERR_NOT_FOUND,
                                                    "%s is no data directory of cay", data_dir)
                                   : 0;
    if (r == 0) {
        /* Whoever holds the lock is asked to go first; nobody does: nothing was running. */
        k = new_keeper(&cfg);
        r = cay_house_open(&k.house, &cfg, 0, &err);
        if (r == CAY_ERR_CONFLICT) {
            cay_house_ask_to_go(&k.house);
            cay_house_close(&k.house);
            r = cay_house_open(&k.house, &cfg, DRAIN_MS + 3000, &err);
        }
    }
    if (r == 0)
        r = cay_backend_recall(&cfg, &a, &err);
    if (r >= 0)
        r = cay_backend_identify(&cfg, &a, &err);
    if (r >= 0) {
        start_engine(&k);
        r = strcmp(cfg.provider, "native") == 0 ? ask_down(&k, &err) : cay_backend_down(&cfg, &err);
        end_child(k.engine, SIGTERM, 5000);
        cay_house_close(&k.house);
    }
    if (r < 0)
        fprintf(stderr, "cay down: %s%s%s\n", err.msg, *err.cause ? ": " : "", err.cause);
    return r < 0;
}

/* ---- for a while ---- */

int cay_supervisor_lend(const char *data_dir, int (*work)(void *arg, struct cay_error *err),
                        void *arg, struct cay_error *err)
{
    struct keeper k;
    char mark[PATH_MAX];
    struct cay_config cfg = bare_config(data_dir);
    cay_log_init("supervisor");
    snprintf(mark, sizeof mark, "%s/instance", data_dir);
    if (access(mark, F_OK) < 0)
        return cay_fail_errno(err, CAY_ERR_NOT_FOUND, "%s is no data directory of cay", data_dir);
    k = new_keeper(&cfg);
    int r = cay_house_open(&k.house, &cfg, 0, err);
    if (r == CAY_ERR_CONFLICT) {
        cay_house_close(&k.house);
        return work(arg, err);
    }
    if (r < 0)
        return r;
    start_engine(&k);
    r = work(arg, err);
    end_child(k.engine, SIGTERM, 5000);
    cay_house_close(&k.house);
    return r;
}
