/* SPDX-License-Identifier: Apache-2.0 */
/* Talking to a sandbox's pid 1: straight, without the engine in between.
 *
 * Nothing pid 1 answers is believed beyond its form, and no descriptor is ever taken from it. A
 * connection serves one call at a time; a call that is late costs its connection. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/packet.h"
#include "init/proto.h"
#include "model/limits.h"
#include "provider/local.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define LATE_MS (10 * CAY_INIT_AWAIT_MS) /* an answer to who waits for an end */

/* ---- what we know of each sandbox ---- */

static struct cay_pid1 **slot(struct cay_local *n, const char *id)
{
    unsigned h = 2166136261U;
    for (const char *at = id; *at; at++)
        h = (h ^ (unsigned char)*at) * 16777619U;
    struct cay_pid1 **at = &n->pid1s[h % CAY_LOCAL_BUCKETS];
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

static void drop_idle(struct cay_local *n, struct cay_pid1 *p)
{
    while (p->idle_count) {
        close(p->idle[--p->idle_count]);
        n->idle_total--;
    }
}

static void keep_idle(struct cay_local *n, struct cay_pid1 *p, int *fd)
{
    if (*fd < 0 || p->idle_count == (int)CAY_COUNT(p->idle) ||
        n->idle_total >= CAY_CONNECTIONS_TO_INIT)
        return; /* the caller's scope closes it */
    p->idle[p->idle_count++] = cay_take_fd(fd);
    n->idle_total++;
}

void cay_pid1_learn(struct cay_local *n, const char *id, const void *data, size_t len, int fd)
{
    CAY_AUTO_FD int sock = fd;
    struct cay_engine_image head;
    if (len < sizeof head)
        return;
    memcpy(&head, data, sizeof head);
    uint64_t strings_len = (uint64_t)head.argv_len + head.env_len;
    if (strings_len > len - sizeof head)
        return;
    pthread_mutex_lock(&n->lock);
    struct cay_pid1 **at = slot(n, id), *p = *at;
    if (!p) {
        p = *at = calloc(1, sizeof *p);
        if (!p)
            abort();
        cay_str_copy(p->id, sizeof p->id, id);
    }
    free(p->strings);
    p->strings = malloc(strings_len + 1);
    if (!p->strings)
        abort();
    memcpy(p->strings, (const char *)data + sizeof head, strings_len);
    p->strings[strings_len] = 0;
    p->argc = head.argc;
    p->argv_len = head.argv_len;
    p->env_count = head.env_count;
    p->env_len = head.env_len;
    cay_str_copy(p->user, sizeof p->user, head.user);
    cay_str_copy(p->workdir, sizeof p->workdir, head.workdir);
    keep_idle(n, p, &sock);
    pthread_mutex_unlock(&n->lock);
}

static void drop_way(struct cay_pid1 *p)
{
    if (p->has_way) {
        cay_close_fd(&p->way.tcp_fd);
        cay_close_fd(&p->way.dns_fd);
    }
    p->has_way = false;
}

void cay_pid1_forget(struct cay_local *n, const char *id)
{
    pthread_mutex_lock(&n->lock);
    struct cay_pid1 **at = slot(n, id), *p = *at;
    if (p) {
        *at = p->next;
        drop_idle(n, p);
        drop_way(p);
        free(p->strings);
        free(p);
    }
    pthread_mutex_unlock(&n->lock);
}

void cay_pid1_keep_way(struct cay_local *n, const char *id, struct cay_way_out way)
{
    pthread_mutex_lock(&n->lock);
    struct cay_pid1 *p = *slot(n, id), gone = {0};
    if (!p)
        p = &gone; /* it died in between */
    drop_way(p);
    p->way = way;
    p->has_way = true;
    drop_way(&gone);
    pthread_mutex_unlock(&n->lock);
}

bool cay_pid1_take_way(struct cay_local *n, const char *id, struct cay_way_out *out)
{
    pthread_mutex_lock(&n->lock);
    struct cay_pid1 *p = *slot(n, id);
    bool had = p && p->has_way;
    if (had) {
        *out = p->way;
        p->has_way = false;
    }
    pthread_mutex_unlock(&n->lock);
    return had;
}

static void copy_known(struct cay_arena *a, const struct cay_pid1 *p, struct cay_pid1 *out)
{
    *out = *p;
    out->strings = cay_arena_alloc(a, p->argv_len + p->env_len + 1);
    memcpy(out->strings, p->strings, p->argv_len + p->env_len);
}

static bool take_idle(struct cay_local *n, const char *id, struct cay_arena *a,
                      struct cay_pid1 *out, int *fd_out)
{
    pthread_mutex_lock(&n->lock);
    struct cay_pid1 *p = *slot(n, id);
    bool found = p && p->idle_count;
    if (found) {
        copy_known(a, p, out);
        *fd_out = p->idle[--p->idle_count];
        n->idle_total--;
    }
    pthread_mutex_unlock(&n->lock);
    return found;
}

/* A connection and a copy of what we know; a fresh one when there is none idle. A fresh one is
 * used at once: put among the idle ones, others could take it first. */
static int take(struct cay_local *n, const char *id, struct cay_arena *a, struct cay_pid1 *out,
                int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    char data[CAY_MESSAGE_MAX];
    size_t len;
    if (take_idle(n, id, a, out, fd_out))
        return 0;
    int r = n->reach(n, id, data, sizeof data, &len, &fd, err);
    if (r < 0)
        return r;
    cay_pid1_learn(n, id, data, len, -1);
    pthread_mutex_lock(&n->lock);
    struct cay_pid1 *p = *slot(n, id);
    if (p)
        copy_known(a, p, out);
    pthread_mutex_unlock(&n->lock);
    if (!p || fd < 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING",
                           "the sandbox ended during the call");
    *fd_out = cay_take_fd(&fd);
    return 0;
}

static void give_back(struct cay_local *n, const char *id, int *fd)
{
    pthread_mutex_lock(&n->lock);
    struct cay_pid1 *p = *slot(n, id);
    if (p)
        keep_idle(n, p, fd);
    pthread_mutex_unlock(&n->lock);
    cay_close_fd(fd);
}

/* ---- one call ---- */

struct call {
    struct cay_init_request head;
    struct cay_buf strings;
    int fds[3]; /* log, stdin; of FILE: its pipes */
    int fd_count;
};

static void call_done(struct call *c)
{
    cay_buf_done(&c->strings);
}

/* Bytes behind a descriptor that nobody can change any more. */
static int sealed_memfd(const void *data, size_t len, struct cay_error *err)
{
    CAY_AUTO_FD int fd = memfd_create("cay", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a memfd");
    if (!cay_write_all(fd, data, len))
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot fill a memfd");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot seal a memfd");
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY | O_CLOEXEC); /* read from its start, and only read */
    return again < 0 ? cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot reopen a memfd") : again;
}

static int send_call(int sock, struct call *c, struct cay_error *err)
{
    CAY_AUTO_FD int memfd = -1;
    int fds[CAY_PACKET_FDS], count = 0;
    bool large = sizeof c->head + c->strings.len > CAY_MESSAGE_MAX;

    c->head.version = CAY_INIT_VERSION;
    c->head.strings_len = (uint32_t)c->strings.len;
    if (large) {
        memfd = sealed_memfd(c->strings.data, c->strings.len, err);
        if (memfd < 0)
            return memfd;
        c->head.flags |= CAY_INIT_BY_MEMFD;
        fds[count++] = memfd;
    }
    for (int i = 0; i < c->fd_count; i++)
        fds[count++] = c->fds[i];
    if (cay_packet_send(sock, &c->head, sizeof c->head, large ? NULL : c->strings.data,
                        large ? 0 : c->strings.len, fds, count) < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "pid 1 of the sandbox is gone");
    return 0;
}

/* Whoever waits for an end learns of the beginning from the log. */
static bool has_begun(const struct call *c)
{
    return c->head.op == CAY_INIT_EXEC && lseek(c->fds[0], 0, SEEK_CUR) == CAY_INIT_BEGUN;
}

static int receive(int sock, const struct call *c, void *buf, size_t size, size_t *len_out,
                   struct cay_error *err)
{
    struct pollfd fd = {.fd = sock, .events = POLLIN};
    int64_t until = cay_clock_mono_ms() + CAY_INIT_CALL_MS;
    for (;;) {
        int64_t left = until - cay_clock_mono_ms();
        int r = left <= 0 ? 0 : poll(&fd, 1, left < LATE_MS ? (int)left : LATE_MS);
        if ((r < 0 && errno == EINTR) || (r == 0 && left > 0 && !has_begun(c)))
            continue;
        if (r <= 0)
            return cay_fail(err, CAY_ERR_TIMEOUT, "pid 1 of the sandbox did not answer in %d ms",
                            CAY_INIT_CALL_MS);
        ssize_t n = cay_packet_recv(sock, buf, size, NULL, 0, NULL);
        if (n < (ssize_t)sizeof(struct cay_init_reply))
            return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING",
                               "the sandbox ended during the call");
        *len_out = (size_t)n;
        return 0;
    }
}

static int stream_error(int error, struct cay_error *err)
{
    if (error == ENOTTY)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "NO_TERMINAL", "the execution has no terminal");
    if (error == EPIPE)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "STDIN_CLOSED",
                           "the execution's stdin is closed, or was never open");
    if (error == EBUSY)
        return cay_fail_as(err, CAY_ERR_LIMIT, "TOO_MANY_INPUTS",
                           "at most %d may write to one execution's stdin at once", CAY_MAX_INPUTS);
    return cay_fail_as(err, CAY_ERR_LIMIT, "TOO_MANY_TERMINALS", "cannot make a terminal: %s",
                       strerror(error));
}

/* EAGAIN is what a limit of processes says; the rest is not the sandbox's doing. */
static int no_process(int error, struct cay_error *err)
{
    errno = error;
    if (error == ETIMEDOUT)
        return cay_fail(err, CAY_ERR_TIMEOUT, "the command did not begin in time");
    if (error != EAGAIN)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot start a process in the sandbox");
    return cay_fail_as(err, CAY_ERR_LIMIT, "PROCESS_LIMIT",
                       "the sandbox has as many processes as it may");
}

static int result_error(const struct cay_init_reply *reply, struct cay_error *err)
{
    errno = reply->error;
    switch ((enum cay_init_result)reply->result) {
    case CAY_INIT_OK:
        return 0;
    case CAY_INIT_NO_SUCH_EXEC:
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "EXECUTION_NOT_RUNNING",
                           "the execution is not running");
    case CAY_INIT_TOO_MANY:
        return cay_fail_as(err, CAY_ERR_LIMIT, "TOO_MANY_EXECUTIONS",
                           "the sandbox runs as many executions as it may");
    case CAY_INIT_NO_USER:
        return cay_fail_field(err, "user", "no such user in the sandbox");
    case CAY_INIT_NO_CWD:
        return cay_fail_field(err, "cwd", "cannot enter the directory: %s", strerror(errno));
    case CAY_INIT_NO_PROCESS:
        return no_process(reply->error, err);
    case CAY_INIT_NO_EXEC:
        return cay_fail_field(err, "command", "%s", strerror(errno));
    case CAY_INIT_STOPPING:
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "sandbox is stopping");
    case CAY_INIT_NO_STREAM:
        return stream_error(reply->error, err);
    case CAY_INIT_BAD_REQUEST:
        break;
    }
    return cay_fail(err, CAY_ERR_PROVIDER, "pid 1 of the sandbox refused the request");
}

/* An idle connection may have died with a pid 1 of an earlier run: then sending fails, nothing was
 * asked, and a fresh one is taken. `fill` adds the strings once the sandbox's own are known. */
static int call(struct cay_local *n, const char *id, struct call *c,
                void (*fill)(struct call *, const struct cay_pid1 *, const void *), const void *arg,
                void *buf, size_t size, size_t *len_out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_CLEANUP(cay_turn_end) struct cay_turn turn = {0};
    int r = cay_turn_take(&n->turns, id, &turn, err);
    if (r < 0)
        return r;
    for (int tries = 0;; tries++) {
        CAY_AUTO_FD int sock = -1;
        struct cay_pid1 p;
        r = take(n, id, &a, &p, &sock, err);
        if (r < 0)
            return r;
        c->strings.len = 0;
        if (fill)
            fill(c, &p, arg);
        if (c->head.op == CAY_INIT_EXEC && c->head.argc == 0) {
            give_back(n, id, &sock);
            return cay_fail_field(err, "command", "the image has no command of its own");
        }
        r = send_call(sock, c, err);
        if (r == CAY_ERR_UNAVAILABLE && tries < (int)CAY_COUNT(p.idle) + 1)
            continue;
        if (r == 0)
            r = receive(sock, c, buf, size, len_out, err);
        if (r < 0 && has_begun(c)) { /* it stands still, or is gone: its log tells the rest */
            memset(buf, 0, sizeof(struct cay_init_reply));
            return 0;
        }
        if (r < 0)
            return r;
        give_back(n, id, &sock);
        struct cay_init_reply reply;
        memcpy(&reply, buf, sizeof reply);
        return result_error(&reply, err);
    }
}

int cay_local_stop(struct cay_local *l, const char *id, int64_t grace_ms, struct cay_error *err)
{
    CAY_CLEANUP(call_done)
    struct call c = {.head = {.op = CAY_INIT_STOP, .grace_ms = (uint32_t)grace_ms}};
    struct cay_init_reply reply;
    size_t len;
    return call(l, id, &c, NULL, NULL, &reply, sizeof reply, &len, err);
}

/* ---- EXEC ---- */

static bool has_key(const struct cay_pairs *env, const char *pair)
{
    size_t len = strcspn(pair, "=");
    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->at[i].key, pair, len) == 0 && env->at[i].key[len] == 0)
            return true;
    return false;
}

static void add_string(struct cay_buf *b, const char *s)
{
    cay_buf_add(b, s, strlen(s) + 1);
}

static void fill_exec(struct call *c, const struct cay_pid1 *p, const void *arg)
{
    const struct cay_exec_spec *spec = arg;
    struct cay_buf *b = &c->strings;

    add_string(b, spec->user ? spec->user : p->user);
    add_string(b, spec->cwd ? spec->cwd : p->workdir);
    bool own = spec->argv.count == 0; /* the image's */
    c->head.argc = own ? p->argc : (uint32_t)spec->argv.count;
    if (own)
        cay_buf_add(b, p->strings, p->argv_len);
    for (size_t i = 0; i < spec->argv.count; i++)
        add_string(b, spec->argv.at[i]);
    c->head.envc = 0;
    const char *at = p->strings + p->argv_len, *end = at + p->env_len;
    for (uint32_t i = 0; i < p->env_count && at < end; i++, at += strlen(at) + 1) {
        if (has_key(&spec->env, at))
            continue;
        add_string(b, at);
        c->head.envc++;
    }
    for (size_t i = 0; i < spec->env.count; i++) {
        cay_buf_adds(b, spec->env.at[i].key);
        cay_buf_addc(b, '=');
        add_string(b, spec->env.at[i].value);
        c->head.envc++;
    }
    if (!cay_pairs_get(&spec->env, "CAY_SANDBOX_ID")) {
        cay_buf_adds(b, "CAY_SANDBOX_ID=");
        add_string(b, p->id);
        c->head.envc++;
    }
}

static uint32_t pack_window(struct cay_window w)
{
    return (uint32_t)w.cols | (uint32_t)w.rows << 16;
}

int cay_local_exec(struct cay_provider *provider, const char *id, const char *exec_id,
                   const struct cay_exec_spec *spec, int log_fd, struct cay_error *err)
{
    struct cay_local *n = (struct cay_local *)provider;
    CAY_CLEANUP(call_done)
    struct call c = {.head = {.op = CAY_INIT_EXEC,
                              .grace_ms = CAY_EXEC_GRACE_MS,
                              .timeout_ms = (uint64_t)spec->timeout_ms,
                              .log_head_bytes = n->log_head_bytes,
                              .log_tail_bytes = n->log_tail_bytes},
                     .fds = {log_fd, -1},
                     .fd_count = 1};
    CAY_AUTO_FD int input = -1;
    struct cay_init_reply reply;
    size_t len;

    cay_str_copy(c.head.exec_id, sizeof c.head.exec_id, exec_id);
    if (spec->stdin_text) {
        input = sealed_memfd(spec->stdin_text, spec->stdin_len, err);
        if (input < 0)
            return input;
        c.fds[c.fd_count++] = input;
        c.head.flags |= CAY_INIT_HAS_STDIN;
    } else if (spec->window.cols) {
        c.head.flags |= CAY_INIT_TTY;
        c.head.window = pack_window(spec->window);
    } else if (spec->open_stdin) {
        c.head.flags |= CAY_INIT_OPEN_STDIN;
    } else if (spec->awaited) {
        c.head.await_ms = CAY_INIT_AWAIT_MS;
    }
    int r = call(n, id, &c, fill_exec, spec, &reply, sizeof reply, &len, err);
    return r < 0 ? r : reply.ran_us <= INT32_MAX ? (int)reply.ran_us : 0;
}

int cay_local_kill(struct cay_provider *provider, const char *id, const char *exec_id, int signal,
                   struct cay_error *err)
{
    CAY_CLEANUP(call_done)
    struct call c = {.head = {.op = CAY_INIT_KILL, .signal = (uint32_t)signal}};
    struct cay_init_reply reply;
    size_t len;
    cay_str_copy(c.head.exec_id, sizeof c.head.exec_id, exec_id);
    return call((struct cay_local *)provider, id, &c, NULL, NULL, &reply, sizeof reply, &len, err);
}

int cay_local_input(struct cay_provider *provider, const char *id, const char *exec_id,
                    int input_fd, int end_fd, struct cay_error *err)
{
    CAY_CLEANUP(call_done)
    struct call c = {.head = {.op = CAY_INIT_INPUT, .flags = end_fd < 0 ? 0 : CAY_INIT_CLOSE},
                     .fds = {input_fd, end_fd},
                     .fd_count = end_fd < 0 ? 1 : 2};
    struct cay_init_reply reply;
    size_t len;
    cay_str_copy(c.head.exec_id, sizeof c.head.exec_id, exec_id);
    return call((struct cay_local *)provider, id, &c, NULL, NULL, &reply, sizeof reply, &len, err);
}

int cay_local_resize(struct cay_provider *provider, const char *id, const char *exec_id,
                     struct cay_window window, struct cay_error *err)
{
    CAY_CLEANUP(call_done)
    struct call c = {.head = {.op = CAY_INIT_RESIZE, .window = pack_window(window)}};
    struct cay_init_reply reply;
    size_t len;
    cay_str_copy(c.head.exec_id, sizeof c.head.exec_id, exec_id);
    return call((struct cay_local *)provider, id, &c, NULL, NULL, &reply, sizeof reply, &len, err);
}

static void fill_file(struct call *c, const struct cay_pid1 *p, const void *arg)
{
    struct cay_file_request rq = *(const struct cay_file_request *)arg;
    if (!rq.cwd)
        rq.cwd = p->workdir;
    add_string(&c->strings, rq.user ? rq.user : p->user);
    c->head.argc = cay_file_encode(&rq, &c->strings);
}

int cay_local_file(struct cay_provider *provider, const char *id, const struct cay_file_request *rq,
                   const struct cay_file_pipes *pipes, int64_t timeout_ms, struct cay_error *err)
{
    CAY_CLEANUP(call_done)
    struct call c = {.head = {.op = CAY_INIT_FILE, .timeout_ms = (uint64_t)timeout_ms},
                     .fds = {pipes->out},
                     .fd_count = 1};
    struct cay_init_reply reply = {0};
    size_t len;
    if (pipes->in >= 0) {
        c.fds[c.fd_count++] = pipes->in;
        c.head.flags |= CAY_INIT_HAS_STDIN;
    }
    if (pipes->end >= 0) {
        c.fds[c.fd_count++] = pipes->end;
        c.head.flags |= CAY_INIT_HAS_END;
    }
    int r =
        call((struct cay_local *)provider, id, &c, fill_file, rq, &reply, sizeof reply, &len, err);
    if (r < 0 && reply.result == CAY_INIT_TOO_MANY)
        return cay_fail_as(err, CAY_ERR_LIMIT, "TOO_MANY_FILE_OPERATIONS",
                           "at most %d operations on files at once", CAY_MAX_FILE_CALLS);
    if (r < 0 && reply.result == CAY_INIT_BAD_REQUEST)
        return cay_fail_as(err, CAY_ERR_UNSUPPORTED, "RESTART_NEEDED",
                           "the sandbox began with an older version: stop and start it first");
    return r;
}

int cay_local_executions(struct cay_provider *provider, const char *id, struct cay_arena *a,
                         struct cay_strs *out, struct cay_error *err)
{
    CAY_CLEANUP(call_done) struct call c = {.head = {.op = CAY_INIT_LIST}};
    struct cay_init_reply reply;
    char buf[CAY_MESSAGE_MAX];
    size_t len;
    int r = call((struct cay_local *)provider, id, &c, NULL, NULL, buf, sizeof buf, &len, err);
    if (r < 0)
        return r;
    memcpy(&reply, buf, sizeof reply);
    *out = (struct cay_strs){0};
    const char *at = buf + sizeof reply, *end = buf + len;
    for (uint32_t i = 0; i < reply.count && at < end; i++) {
        const char *nul = memchr(at, 0, (size_t)(end - at));
        if (!nul)
            break;
        if (cay_id_is_execution(at))
            cay_strs_push(a, out, cay_arena_strdup(a, at));
        at = nul + 1;
    }
    return 0;
}
