/* SPDX-License-Identifier: Apache-2.0 */
/* The id of an event counts only once the event is handled, so that a stream which broke in the
 * middle of one goes on with that one. */
#include "cli/sse.h"
#include "base/str.h"
#include <string.h>

struct field {
    const char *name, *value;
    size_t len;
};

static struct field split(struct cay_buf *line)
{
    char *colon = memchr(line->data, ':', line->len);
    size_t name_len = colon ? (size_t)(colon - line->data) : line->len;
    size_t value = colon ? name_len + 1 : line->len;
    if (value < line->len && line->data[value] == ' ')
        value++;
    line->data[name_len] = 0;
    return (struct field){line->data, line->data + value, line->len - value};
}

static int take_event(struct cay_sse *s, cay_sse_handler handler, void *arg, struct cay_error *err)
{
    int r = 0;
    if (s->has_data) {
        cay_buf_addc(&s->data, 0);
        r = handler(arg, s->event, s->data.data, s->data.len - 1, err);
    }
    s->data.len = 0;
    s->has_data = false;
    s->event[0] = 0;
    return r;
}

static int take_line(struct cay_sse *s, cay_sse_handler handler, void *arg, struct cay_error *err)
{
    if (s->line.len == 0) {
        int r = take_event(s, handler, arg, err);
        if (r >= 0 && s->next_id[0])
            cay_str_copy(s->id, sizeof s->id, s->next_id);
        s->next_id[0] = 0;
        return r;
    }
    if (s->line.data[0] == ':')
        return 0; /* a comment: the server is alive */
    cay_buf_addc(&s->line, 0);
    s->line.len--;
    struct field f = split(&s->line);
    if (strcmp(f.name, "event") == 0) {
        cay_str_copy(s->event, sizeof s->event, f.value);
    } else if (strcmp(f.name, "id") == 0) {
        if (f.len >= sizeof s->next_id) /* without it a reconnect would double the output */
            return cay_fail(err, CAY_ERR_TOO_LARGE, "an event's id is too long");
        cay_str_copy(s->next_id, sizeof s->next_id, f.value);
    } else if (strcmp(f.name, "data") == 0) {
        if (s->has_data)
            cay_buf_addc(&s->data, '\n');
        if (s->data.len + f.len > CAY_SSE_EVENT_MAX)
            return cay_fail(err, CAY_ERR_TOO_LARGE, "an event of the stream is too large");
        cay_buf_add(&s->data, f.value, f.len);
        s->has_data = true;
    }
    return 0;
}

int cay_sse_feed(struct cay_sse *s, const char *bytes, size_t len, cay_sse_handler handler,
                 void *arg, struct cay_error *err)
{
    size_t at = 0;
    while (at < len) {
        if (s->cr && bytes[at] == '\n') { /* the second half of a CRLF */
            s->cr = false;
            at++;
            continue;
        }
        s->cr = false;
        size_t n = 0;
        while (at + n < len && bytes[at + n] != '\n' && bytes[at + n] != '\r')
            n++;
        if (s->line.len + n > CAY_SSE_EVENT_MAX)
            return cay_fail(err, CAY_ERR_TOO_LARGE, "a line of the stream is too long");
        cay_buf_add(&s->line, bytes + at, n);
        at += n;
        if (at == len)
            return 0;
        s->cr = bytes[at++] == '\r';
        int r = take_line(s, handler, arg, err);
        s->line.len = 0;
        if (r < 0)
            return r;
    }
    return 0;
}

void cay_sse_restart(struct cay_sse *s)
{
    s->line.len = s->data.len = 0;
    s->event[0] = s->next_id[0] = 0;
    s->cr = s->has_data = false;
}

void cay_sse_done(struct cay_sse *s)
{
    cay_buf_done(&s->line);
    cay_buf_done(&s->data);
}
