/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the host: a few, each with one request under way. */
#include "init/init.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ACCEPT_REST_MS 100 /* when descriptors or memory are out */

static void close_conn(struct cay_init *in, struct cay_conn *c)
{
    (void)shutdown(c->fd, SHUT_RDWR); /* a child on its way to exec may hold a copy */
    cay_init_unwatch(in, &c->fd);
    c->use++;
    c->waiting = c->muted = false;
}

/* A free slot; with none, the one that has been silent longest makes room. */
static struct cay_conn *find_slot(struct cay_init *in)
{
    struct cay_conn *oldest = NULL;
    for (size_t i = 0; i < CAY_INIT_CONNS; i++) {
        struct cay_conn *c = &in->conns[i];
        if (c->fd < 0)
            return c;
        if (!oldest || (oldest->waiting && !c->waiting) ||
            (oldest->waiting == c->waiting && c->last < oldest->last))
            oldest = c;
    }
    close_conn(in, oldest);
    return oldest;
}

void cay_conn_accept(struct cay_init *in)
{
    int fd = accept4(CAY_INIT_LISTEN_FD, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            (void)epoll_ctl(in->epoll_fd, EPOLL_CTL_DEL, CAY_INIT_LISTEN_FD, NULL);
            in->accept_at_ms = in->now_ms + ACCEPT_REST_MS;
        }
        return;
    }
    if (!cay_alone_may(in, fd)) {
        (void)close(fd);
        return;
    }
    struct cay_conn *c = find_slot(in);
    c->fd = fd;
    c->last = ++in->turn;
    cay_init_watch(in, fd, CAY_TOKEN_CONN, (size_t)(c - in->conns), c->use);
}

static void send_reply(struct cay_init *in, struct cay_conn *c, struct cay_init_reply reply,
                       const char *strings)
{
    struct iovec iov[2] = {{&reply, sizeof reply}, {(void *)(uintptr_t)strings, reply.strings_len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    reply.version = CAY_INIT_VERSION;
    if (sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        close_conn(in, c); /* whoever does not read its answers has no use for more */
}

/* While an EXEC is under way its connection is not read, so that answers keep their order. */
static void set_muted(struct cay_init *in, struct cay_conn *c, bool muted)
{
    struct epoll_event ev = {.events = muted ? 0 : EPOLLIN,
                             .data.u64 =
                                 cay_init_token(CAY_TOKEN_CONN, (size_t)(c - in->conns), c->use)};
    if (c->muted != muted)
        (void)epoll_ctl(in->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev); /* it is in there */
    c->muted = muted;
}

void cay_conn_answer(struct cay_init *in, int conn, uint32_t use, struct cay_init_reply reply)
{
    struct cay_conn *c = &in->conns[conn];
    if (c->fd < 0 || c->use != use)
        return; /* whoever asked is gone; the execution goes on */
    c->waiting = false;
    set_muted(in, c, false);
    send_reply(in, c, reply, "");
}

static void list(struct cay_init *in, struct cay_conn *c)
{
    char ids[CAY_MAX_EXECUTIONS * CAY_ID_SIZE];
    struct cay_init_reply reply = {.result = CAY_INIT_OK};
    for (size_t i = 0; i < in->job_count && reply.count < CAY_MAX_EXECUTIONS; i++) {
        const struct cay_job *job = &in->jobs[i];
        if (job->state != CAY_JOB_STARTING && job->state != CAY_JOB_RUNNING)
            continue;
        size_t len = strlen(job->id) + 1;
        memcpy(ids + reply.strings_len, job->id, len);
        reply.strings_len += (uint32_t)len;
        reply.count++;
    }
    send_reply(in, c, reply, ids);
}

static struct cay_init_reply signal_job(struct cay_init *in, const struct cay_init_request *req)
{
    struct cay_job *job = cay_job_find(in, req->exec_id);
    struct cay_init_reply reply = {.result = CAY_INIT_NO_SUCH_EXEC};
    if (job && cay_job_signal(job, (int)req->signal)) {
        job->asked_signal = (int)req->signal;
        reply.result = CAY_INIT_OK;
    }
    return reply;
}

static void serve(struct cay_init *in, struct cay_conn *c, size_t len, int *fds, unsigned fd_count)
{
    const struct cay_init_request *req = (const void *)in->message;
    struct cay_init_reply reply = {.result = cay_init_check(req, len, fd_count)};
    if (reply.result == CAY_INIT_OK && req->op == CAY_INIT_LIST) {
        list(in, c);
        return;
    }
    if (reply.result == CAY_INIT_OK && req->op == CAY_INIT_KILL)
        reply = signal_job(in, req);
    else if (reply.result == CAY_INIT_OK && req->op == CAY_INIT_INPUT)
        reply = cay_input_add(in, req, fds);
    else if (reply.result == CAY_INIT_OK && req->op == CAY_INIT_RESIZE)
        reply = cay_input_resize(in, req);
    else if (reply.result == CAY_INIT_OK && req->op == CAY_INIT_PING)
        reply.pid = getpid();
    else if (reply.result == CAY_INIT_OK && req->op == CAY_INIT_FILE)
        reply = cay_file_start(in, req, fds);
    else if (reply.result == CAY_INIT_OK && req->op == CAY_INIT_EXEC) {
        reply = cay_job_start(in, req, fds, (int)(c - in->conns));
        if (reply.result == CAY_INIT_OK) {
            c->waiting = true;
            return;
        }
    }
    send_reply(in, c, reply, "");
    if (reply.result == CAY_INIT_OK && req->op == CAY_INIT_STOP)
        cay_reap_stop(in, req->grace_ms, req->signal);
}

/* Every descriptor that came, wanted or not, is in fds or closed. */
static unsigned take_fds(struct msghdr *msg, int fds[CAY_INIT_FDS])
{
    unsigned count = 0;
    for (struct cmsghdr *cm = CMSG_FIRSTHDR(msg); cm; cm = CMSG_NXTHDR(msg, cm)) {
        if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(cm) + i * sizeof fd, sizeof fd);
            if (count < CAY_INIT_FDS)
                fds[count] = fd;
            else
                (void)close(fd); /* not ours to use */
            count++;
        }
    }
    return count;
}

void cay_conn_ready(struct cay_init *in, struct cay_conn *c, bool hung_up)
{
    if (c->waiting) {
        if (hung_up)
            close_conn(in, c);
        else
            set_muted(in, c, true);
        return;
    }
    _Alignas(struct cmsghdr) char control[CMSG_SPACE((CAY_INIT_FDS + 1) * sizeof(int))];
    struct iovec iov = {in->message, sizeof in->message};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fds[CAY_INIT_FDS];
    ssize_t len = recvmsg(c->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len <= 0) {
        close_conn(in, c);
        return;
    }
    unsigned count = take_fds(&msg, fds);
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || (size_t)len < sizeof(struct cay_init_request))
        send_reply(in, c, (struct cay_init_reply){.result = CAY_INIT_BAD_REQUEST}, "");
    else {
        c->last = ++in->turn;
        serve(in, c, (size_t)len, fds, count);
    }
    for (unsigned i = 0; i < count && i < CAY_INIT_FDS; i++)
        cay_close_fd(&fds[i]); /* what is needed longer was taken, or duplicated */
}
