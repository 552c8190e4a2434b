/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: what happens to the caller's sandboxes, as it happens. */
#include "log/events.h"
#include "api/v1/v1.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINES_MAX 256 /* at one pull, so that who wants few does not hold up the others */

struct events_query {
    const char *offset, *sandbox;
};

static const struct cay_field fields[] = {
    CAY_FIELD_STR(struct events_query, offset, "offset", .max_len = 20),
    CAY_FIELD_STR(struct events_query, sandbox, "sandbox", .max_len = 63),
    CAY_FIELD_END,
};

struct follow {
    struct cay_stream base;
    struct cay_events_reader reader;
    char only[sizeof "\"sandboxId\":\"\"" + CAY_ID_SIZE]; /* what a line must hold; or empty */
    bool begun;
};

static void put_event(struct cay_buf *out, uint64_t id, const char *line, size_t len)
{
    static const char begin[] = "{\"type\":\"";
    const char *word = line + strlen(begin);
    if (len < sizeof begin || memcmp(line, begin, strlen(begin)) != 0)
        return;
    cay_buf_addf(out, "id: %llu\nevent: %.*s\ndata: ", (unsigned long long)id,
                 (int)strcspn(word, "\""), word);
    cay_buf_add(out, line, len);
    cay_buf_adds(out, "\n\n");
}

static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct follow *f = (struct follow *)s;
    const char *line;
    size_t len;
    if (!f->begun) /* without data it is no event, but who comes back names it */
        cay_buf_addf(out, "id: %llu\n\n", (unsigned long long)f->reader.offset);
    f->begun = true;
    for (int i = 0; i < LINES_MAX && out->len < room; i++) {
        unsigned long long from = f->reader.offset;
        enum cay_events_got got = cay_events_next(&f->reader, &line, &len);
        unsigned long long id = f->reader.offset;
        if (got == CAY_EVENTS_END)
            return CAY_PULL_WAIT;
        if (got == CAY_EVENTS_GAP)
            cay_buf_addf(out, "id: %llu\nevent: gap\ndata: {\"from\":%llu,\"to\":%llu}\n\n", id,
                         from, id);
        else if (!f->only[0] || memmem(line, len, f->only, strlen(f->only)))
            put_event(out, id, line, len);
    }
    return CAY_PULL_MORE;
}

static void close_follow(struct cay_stream *s)
{
    struct follow *f = (struct follow *)s;
    cay_events_reader_done(&f->reader);
    cay_close_fd(&f->reader.fd);
    free(f);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_follow};

/* Without a place: from now on. */
static int find_place(const struct cay_req *req, const char *offset, int fd, uint64_t *out,
                      struct cay_error *err)
{
    const char *last = cay_req_header(req, "last-event-id");
    const char *from = last && last[0] ? last : offset;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read the events");
    *out = (uint64_t)st.st_size;
    if (from && (!cay_str_u64(from, INT64_MAX, out) || !cay_events_may_resume(fd, *out)))
        return cay_fail_field(err, last && last[0] ? "Last-Event-ID" : "offset",
                              "an offset must be 0 or one that an event carried");
    return 0;
}

static int get_events(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct events_query q = {0};
    struct cay_sandbox sb;
    CAY_AUTO_FD int fd = -1;
    uint64_t from = 0;
    int r = cay_req_decode_query(req, fields, &q, err);
    const char *only = req->owner->only ? req->owner->only : q.sandbox;
    if (r == 0 && only)
        r = cay_core_get(req->core, req->owner, only, req->arena, &sb, err);
    if (r == 0)
        r = cay_core_events(req->core, req->owner, &fd, err);
    if (r == 0)
        r = find_place(req, q.offset, fd, &from, err);
    if (r < 0)
        return r;
    struct follow *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->base = (struct cay_stream){.ops = &ops, .watch_fd = fd, .keepalive = ": still here\n\n"};
    f->reader = (struct cay_events_reader){.fd = cay_take_fd(&fd), .offset = from};
    if (only)
        (void)snprintf(f->only, sizeof f->only, "\"sandboxId\":\"%s\"", sb.id);
    cay_resp_header(resp, "X-Accel-Buffering", "no"); /* proxies that would hold back events */
    return cay_resp_stream(resp, 200, cay_api_form_type(CAY_API_SSE), &f->base);
}

const struct cay_route cay_v1_event_routes[] = {
    {"GET", "/api/v1/events", CAY_SCOPE_READ, get_events, CAY_BODY_AUTO,
     CAY_DOC("What happens to sandboxes, as it happens", "text/event-stream",
             .topic = "Events and audit", .query = fields, .headers = "Last-Event-ID",
             .ask = "offset=0")},
    {0},
};
