/* SPDX-License-Identifier: Apache-2.0 */
/* Images: questions to the engine that bring a file, and may last. Each has a connection of its
 * own: when it is closed the engine gives the work up. */
#include "base/clock.h"
#include "base/packet.h"
#include "model/limits.h"
#include "provider/native/native.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define STEP_MS 250 /* between two reports of progress */

static struct cay_engine_request request(enum cay_engine_op op, const char *name)
{
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = op};
    cay_str_copy(rq.image, sizeof rq.image, name ? name : "");
    return rq;
}

struct call {
    const struct cay_engine_request *rq;
    int fds[CAY_ENGINE_FDS]; /* that go with it */
    int fd_count;
    const struct cay_progress *progress; /* or NULL: then there is no second one */
    int64_t wait_ms;
};

static bool tell(const struct call *c)
{
    uint64_t done = 0;
    if (!c->progress || pread(c->fds[1], &done, sizeof done, 0) != sizeof done)
        return true; /* nothing yet */
    return c->progress->step(c->progress->arg, done);
}

/* 1: the answer is there; 0: the engine died; else an error. */
static int wait_for(const struct call *c, int sock, struct cay_error *err)
{
    int64_t until = cay_clock_mono_ms() + c->wait_ms;
    struct pollfd p = {.fd = sock, .events = POLLIN};
    for (;;) {
        int64_t left = until - cay_clock_mono_ms();
        int r = left <= 0 ? 0 : poll(&p, 1, (int)(left < STEP_MS ? left : STEP_MS));
        if (r > 0)
            return 1;
        if (r < 0 && errno != EINTR)
            return 0;
        if (left <= 0)
            return cay_fail(err, CAY_ERR_TIMEOUT, "the engine did not answer in %lld ms",
                            (long long)c->wait_ms);
        if (!tell(c))
            return cay_fail_as(err, CAY_ERR_CONFLICT, "CANCELLED", "it was given up");
    }
}

/* What the engine does is safe to ask for twice but for an export, which may be half written. */
static int ask(struct cay_local *n, const struct call *c, void *data, size_t size,
               struct cay_error *err)
{
    char buf[CAY_MESSAGE_MAX];
    bool once = c->rq->op == CAY_ENGINE_IMAGE_EXPORT;
    for (int tries = 0; tries < (once ? 1 : 3); tries++) {
        struct cay_engine_reply reply;
        CAY_AUTO_FD int sock = cay_local_connect(n);
        if (sock < 0)
            return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot reach the engine");
        if (cay_packet_send(sock, c->rq, sizeof *c->rq, NULL, 0, c->fds, c->fd_count) < 0)
            continue;
        int r = wait_for(c, sock, err);
        if (r < 0)
            return r;
        ssize_t len = r == 0 ? 0 : cay_packet_recv(sock, buf, sizeof buf, NULL, 0, NULL);
        if (len < (ssize_t)sizeof reply)
            continue; /* it died; the next one takes the same question */
        memcpy(&reply, buf, sizeof reply);
        if (reply.code < 0)
            return cay_local_told(&reply, err);
        if ((size_t)len - sizeof reply < size)
            return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer is too short");
        memcpy(data, buf + sizeof reply, size);
        return 0;
    }
    return cay_fail(err, CAY_ERR_UNAVAILABLE, "the engine is not running");
}

/* With a place for the progress, if anybody wants to hear of it. */
static int ask_long(struct cay_local *n, struct call *c, void *data, size_t size,
                    struct cay_error *err)
{
    CAY_AUTO_FD int progress = c->progress ? memfd_create("progress", MFD_CLOEXEC) : -1;
    if (c->progress && progress < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a memfd");
    c->wait_ms = CAY_IMAGE_DATA_MS + CAY_IMAGE_CALL_MS; /* others may be before us */
    if (progress >= 0)
        c->fds[c->fd_count++] = progress;
    return ask(n, c, data, size, err);
}

int cay_native_image_has(struct cay_provider *p, const char *diff_id, bool *out,
                         struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_IMAGE_HAS, NULL);
    char has;
    size_t len;
    cay_str_copy(rq.layer.diff_id, sizeof rq.layer.diff_id, diff_id);
    int r =
        cay_local_call((struct cay_local *)p, &rq, CAY_ENGINE_CALL_MS, &has, 1, &len, NULL, err);
    if (r == 0 && len != 1)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer is too short");
    if (r == 0)
        *out = has != 0;
    return r;
}

int cay_native_image_layer(struct cay_provider *p, const struct cay_layer *layer, int fd,
                           const struct cay_progress *progress, struct cay_unpacked *out,
                           struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_IMAGE_LAYER, NULL);
    struct cay_engine_unpacked got;
    struct call c = {.rq = &rq, .fds = {fd}, .fd_count = 1, .progress = progress};
    cay_str_copy(rq.layer.digest, sizeof rq.layer.digest, layer->digest ? layer->digest : "");
    cay_str_copy(rq.layer.diff_id, sizeof rq.layer.diff_id, layer->diff_id);
    rq.layer.offset = layer->offset;
    rq.layer.size = layer->size;
    int r = ask_long((struct cay_local *)p, &c, &got, sizeof got, err);
    if (r == 0)
        *out = (struct cay_unpacked){got.found != 0, got.bytes, got.entries};
    return r;
}

int cay_native_image_put(struct cay_provider *p, const char *name, const char *text,
                         struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_IMAGE_PUT, name);
    CAY_AUTO_FD int fd = memfd_create("text", MFD_CLOEXEC);
    struct call c = {.rq = &rq, .fds = {fd}, .fd_count = 1, .wait_ms = CAY_IMAGE_CALL_MS};
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a memfd");
    return ask((struct cay_local *)p, &c, NULL, 0, err);
}

/* Records one behind the other, see message.h. */
static int read_list(int fd, struct cay_arena *a, struct cay_image_list *out, struct cay_error *err)
{
    struct stat st;
    struct cay_engine_listed one;
    *out = (struct cay_image_list){0};
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine sent no list");
    for (off_t at = 0; at < st.st_size; at += (off_t)(sizeof one + one.text_len)) {
        if (pread(fd, &one, sizeof one, at) != sizeof one || one.text_len > CAY_IMAGE_TEXT_BYTES)
            return cay_fail(err, CAY_ERR_PROVIDER, "cannot read the engine's list");
        char *text = cay_arena_alloc(a, one.text_len + 1);
        if (pread(fd, text, one.text_len, at + (off_t)sizeof one) != (ssize_t)one.text_len)
            return cay_fail(err, CAY_ERR_PROVIDER, "cannot read the engine's list");
        out->at = cay_arena_room(a, out->at, out->count, sizeof *out->at);
        one.name[sizeof one.name - 1] = 0;
        out->at[out->count++] =
            (struct cay_image_entry){cay_arena_strdup(a, one.name), text, one.bytes, one.uses};
    }
    return 0;
}

int cay_native_image_list(struct cay_provider *p, const char *name, struct cay_arena *a,
                          struct cay_image_list *out, struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_IMAGE_LIST, name);
    CAY_AUTO_FD int fd = -1;
    int r = cay_local_call((struct cay_local *)p, &rq, CAY_IMAGE_CALL_MS, NULL, 0, NULL, &fd, err);
    return r < 0 ? r : read_list(fd, a, out, err);
}

int cay_native_image_remove(struct cay_provider *p, const char *name, struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_IMAGE_REMOVE, name);
    return cay_local_call((struct cay_local *)p, &rq, CAY_IMAGE_CALL_MS, NULL, 0, NULL, NULL, err);
}

int cay_native_image_prune(struct cay_provider *p, struct cay_pruned *out, struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_IMAGE_PRUNE, NULL);
    struct cay_engine_pruned got;
    struct call c = {.rq = &rq, .wait_ms = CAY_IMAGE_CALL_MS};
    int r = ask((struct cay_local *)p, &c, &got, sizeof got, err);
    if (r == 0)
        *out = (struct cay_pruned){got.bytes, got.layers};
    return r;
}

int cay_native_image_export(struct cay_provider *p, const char *name_or_snapshot, const char *tag,
                            int fd, const struct cay_progress *progress, struct cay_error *err)
{
    bool snapshot = cay_id_is_snapshot(name_or_snapshot);
    struct cay_engine_request rq =
        request(CAY_ENGINE_IMAGE_EXPORT, snapshot ? tag : name_or_snapshot);
    struct call c = {.rq = &rq, .fds = {fd}, .fd_count = 1, .progress = progress};
    if (snapshot)
        cay_str_copy(rq.id, sizeof rq.id, name_or_snapshot);
    return ask_long((struct cay_local *)p, &c, NULL, 0, err);
}
