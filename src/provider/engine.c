/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the engine. Connections are kept and used by one call at a time. */
#include "base/clock.h"
#include "base/packet.h"
#include "base/str.h"
#include "provider/local.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define TRIES 3

int cay_local_connect(struct cay_local *n)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d/run/engine.sock", n->data_fd);
    return cay_packet_connect(path);
}

static int take(struct cay_local *n)
{
    int fd = -1;
    pthread_mutex_lock(&n->lock);
    if (n->engine_count)
        fd = n->engine[--n->engine_count];
    pthread_mutex_unlock(&n->lock);
    return fd >= 0 ? fd : cay_local_connect(n);
}

static void give_back(struct cay_local *n, int *fd)
{
    pthread_mutex_lock(&n->lock);
    if (n->engine_count < (int)CAY_COUNT(n->engine))
        n->engine[n->engine_count++] = cay_take_fd(fd);
    pthread_mutex_unlock(&n->lock);
    cay_close_fd(fd);
}

static const char *static_name(const char *name)
{
    static const char *const known[] = {
        "IMAGE_NOT_FOUND",  "SANDBOX_NOT_RUNNING", "SNAPSHOT_NOT_FOUND", "VOLUME_NOT_FOUND",
        "DISK_FULL",        "TOO_MANY_LAYERS",     "MEMORY_IN_USE",      "DISK_IN_USE",
        "BAD_LAYER",        "LAYER_TOO_LARGE",     "LAYER_MISSING",      "DIGEST_MISMATCH",
        "IMAGE_STORE_FULL", "TOO_MANY_BUILDS",     "ENGINE_ELSEWHERE",   "SNAPSHOT_IN_USE"};
    for (size_t i = 0; i < CAY_COUNT(known); i++)
        if (strcmp(known[i], name) == 0)
            return known[i];
    return NULL;
}

int cay_local_told(const struct cay_engine_reply *reply, struct cay_error *err)
{
    *err = (struct cay_error){.code = reply->code, .name = static_name(reply->name)};
    cay_str_copy(err->msg, sizeof err->msg, reply->msg);
    cay_str_copy(err->cause, sizeof err->cause, reply->cause);
    return reply->code;
}

enum outcome { ANSWERED, LOST, LATE };

static enum outcome ask(int sock, const struct cay_engine_request *rq, int64_t until_ms, char *buf,
                        size_t size, ssize_t *len, struct cay_local_fds *fds)
{
    struct pollfd poll_fd = {.fd = sock, .events = POLLIN};
    if (cay_packet_send(sock, rq, sizeof *rq, NULL, 0, NULL, 0) < 0)
        return LOST;
    for (;;) {
        int64_t left = until_ms - cay_clock_mono_ms();
        int r = left <= 0 ? 0 : poll(&poll_fd, 1, (int)left);
        if (r == 0)
            return LATE;
        if (r < 0 && errno == EINTR)
            continue;
        *len = cay_packet_recv(sock, buf, size, fds->at, (int)CAY_COUNT(fds->at), &fds->count);
        return *len < (ssize_t)sizeof(struct cay_engine_reply) ? LOST : ANSWERED;
    }
}

void cay_local_close_fds(struct cay_local_fds *fds)
{
    for (int i = 0; i < fds->count; i++)
        cay_close_fd(&fds->at[i]);
    fds->count = 0;
}

int cay_local_call(struct cay_local *n, const struct cay_engine_request *rq, int64_t wait_ms,
                   void *data, size_t size, size_t *len_out, int *fd_out, struct cay_error *err)
{
    CAY_CLEANUP(cay_local_close_fds) struct cay_local_fds fds = {0};
    int r = cay_local_call_fds(n, rq, wait_ms, data, size, len_out, &fds, err);
    if (r == 0 && fd_out)
        *fd_out = fds.count ? cay_take_fd(&fds.at[0]) : -1;
    return r;
}

int cay_local_call_fds(struct cay_local *n, const struct cay_engine_request *rq, int64_t wait_ms,
                       void *data, size_t size, size_t *len_out, struct cay_local_fds *fds_out,
                       struct cay_error *err)
{
    int64_t until = cay_clock_mono_ms() + wait_ms;
    char buf[CAY_MESSAGE_MAX];
    struct cay_engine_reply reply;
    ssize_t len = 0;

    for (int i = 0; i < TRIES; i++) {
        CAY_CLEANUP(cay_local_close_fds) struct cay_local_fds got = {0};
        CAY_AUTO_FD int sock = take(n);
        if (sock < 0)
            return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot reach the engine");
        enum outcome how = ask(sock, rq, until, buf, sizeof buf, &len, &got);
        if (how == LATE)
            return cay_fail(err, CAY_ERR_TIMEOUT, "the engine did not answer in %lld ms",
                            (long long)wait_ms);
        if (how == LOST)
            continue; /* it died; the next one takes the same question */
        give_back(n, &sock);
        memcpy(&reply, buf, sizeof reply);
        if (reply.code < 0)
            return cay_local_told(&reply, err);
        size_t rest = (size_t)len - sizeof reply;
        if (data)
            memcpy(data, buf + sizeof reply, rest < size ? rest : size);
        if (len_out)
            *len_out = rest < size ? rest : size;
        *fds_out = got;
        got.count = 0;
        return 0;
    }
    return cay_fail(err, CAY_ERR_UNAVAILABLE, "the engine is not running");
}
