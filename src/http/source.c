/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor as the source of an answer. What it gives is believed to be whole when it has the
 * length that was promised, or when whoever wrote it said so before closing it. */
#include "http/response.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

struct source {
    struct cay_stream stream; /* its watch_fd is the source, owned */
    int end_fd;
    bool counted;
    uint64_t left;
};

static enum cay_pull end(const struct source *src)
{
    char byte;
    if (src->counted)
        return src->left == 0 ? CAY_PULL_END : CAY_PULL_ABORT;
    return read(src->end_fd, &byte, 1) == 1 ? CAY_PULL_END : CAY_PULL_ABORT;
}

static enum cay_pull pull(struct cay_stream *stream, struct cay_buf *out, size_t room)
{
    struct source *src = (struct source *)stream;
    size_t want = src->counted && src->left < room ? (size_t)src->left : room;
    if (want == 0)
        return end(src);
    ssize_t n = read(stream->watch_fd, cay_buf_room(out, want), want);
    if (n < 0)
        return errno == EAGAIN ? CAY_PULL_WAIT : errno == EINTR ? CAY_PULL_MORE : CAY_PULL_ABORT;
    if (n == 0)
        return end(src);
    out->len += (size_t)n;
    if (src->counted)
        src->left -= (uint64_t)n;
    return src->counted && src->left == 0 ? CAY_PULL_END : CAY_PULL_MORE;
}

static enum cay_pull move(struct cay_stream *stream, int socket_fd)
{
    struct source *src = (struct source *)stream;
    size_t want = src->counted && src->left < CAY_HTTP_MOVE ? (size_t)src->left : CAY_HTTP_MOVE;
    if (want == 0)
        return end(src);
    ssize_t n = splice(stream->watch_fd, NULL, socket_fd, NULL, want, SPLICE_F_NONBLOCK);
    if (n <= 0)
        return CAY_PULL_WAIT;
    if (src->counted)
        src->left -= (uint64_t)n;
    return src->counted && src->left == 0 ? CAY_PULL_END : CAY_PULL_MORE;
}

static void close_source(struct cay_stream *stream)
{
    struct source *src = (struct source *)stream;
    cay_close_fd(&stream->watch_fd);
    cay_close_fd(&src->end_fd);
    free(src);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_source, .move = move};

int cay_resp_fd(struct cay_resp *resp, int status, const char *content_type, int fd, int64_t length,
                int end_fd)
{
    struct stat st;
    struct source *src = calloc(1, sizeof *src);
    if (!src)
        abort();
    *src = (struct source){.stream = {.ops = &ops, .watch_fd = fd}, .end_fd = end_fd};
    src->stream.is_pipe = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode);
    src->counted = resp->counted = length >= 0;
    src->left = resp->length = length >= 0 ? (uint64_t)length : 0;
    return cay_resp_stream(resp, status, content_type, &src->stream);
}
