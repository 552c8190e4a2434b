/* SPDX-License-Identifier: Apache-2.0 */
/* A file as a JSON string, written while it is read. Characters that lie across two readings are
 * put together again; what is no UTF-8 becomes U+FFFD. */
#include "api/gateway/gateway.h"
#include <errno.h>
#include <string.h>

#define CHUNK (16 * CAY_KIB) /* read at once; escaped it is at most six times that */
#define CHAR_MAX_LEN 4

struct text {
    struct cay_stream base; /* its watch_fd is the pipe, owned */
    struct cay_gateway_window window;
    uint64_t left;
    char bytes[CHUNK + CHAR_MAX_LEN];
    size_t held; /* of a character whose end has not come */
    bool begun;
};

static void begin(struct text *t, struct cay_buf *out)
{
    struct cay_json_writer w = {.buf = out};
    cay_jw_object(&w, NULL);
    cay_jw_int(&w, "size", (int64_t)t->window.length);
    cay_jw_int(&w, "total_size", (int64_t)t->window.total);
    cay_jw_int(&w, "offset", (int64_t)t->window.offset);
    cay_jw_bool(&w, "truncated", t->window.length < t->window.total);
    cay_buf_adds(out, ",\"content\":\"");
    t->begun = true;
}

/* All but a begun character, unless nothing follows. */
static void put(struct text *t, struct cay_buf *out, size_t len)
{
    size_t whole = t->left > 0 ? cay_str_utf8_whole(t->bytes, len) : len;
    cay_json_escape(out, t->bytes, whole);
    t->held = len - whole;
    memmove(t->bytes, t->bytes + whole, t->held);
}

static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct text *t = (struct text *)s;
    (void)room;
    if (!t->begun)
        begin(t, out);
    if (t->left > 0) {
        size_t want = t->left < CHUNK ? (size_t)t->left : CHUNK;
        ssize_t n = read(s->watch_fd, t->bytes + t->held, want);
        if (n < 0)
            return errno == EAGAIN  ? CAY_PULL_WAIT
                   : errno == EINTR ? CAY_PULL_MORE
                                    : CAY_PULL_ABORT;
        if (n == 0)
            return CAY_PULL_ABORT; /* it has less than was promised */
        t->left -= (uint64_t)n;
        put(t, out, t->held + (size_t)n);
    }
    if (t->left > 0)
        return CAY_PULL_MORE;
    cay_buf_adds(out, "\"}");
    return CAY_PULL_END;
}

static void close_text(struct cay_stream *s)
{
    cay_close_fd(&s->watch_fd);
    free(s);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_text};

int cay_gateway_text(struct cay_resp *resp, const struct cay_gateway_window *window, int fd)
{
    struct text *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->base = (struct cay_stream){.ops = &ops, .watch_fd = fd, .is_pipe = fd >= 0};
    t->window = *window;
    t->left = window->length;
    return cay_resp_stream(resp, 200, "application/json", &t->base);
}
