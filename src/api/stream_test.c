/* SPDX-License-Identifier: Apache-2.0 */
#include "api/stream.h"
#include "log/writer.h"
#include "tests/fixture.h"
#include <stdio.h>

static const struct {
    const char *name, *text;
    bool good;
    uint64_t offset;
    unsigned out, err;
} places[] = {
    {"a plain offset", "4096", true, 4096, 0, 0},
    {"with a begun character", "4096.e282", true, 4096, 2, 0},
    {"of stderr", "7..f0", true, 7, 0, 1},
    {"of both", "7.c3.f09f98", true, 7, 1, 3},
    {"nothing", "", false, 0, 0, 0},
    {"a word", "x", false, 0, 0, 0},
    {"negative", "-1", false, 0, 0, 0},
    {"too large", "99999999999999999999", false, 0, 0, 0},
    {"half a byte", "7.e", false, 0, 0, 0},
    {"four bytes", "7.01020304", false, 0, 0, 0},
    {"three streams", "7.c3.c3.c3", false, 0, 0, 0},
    {"no hex", "7.zz", false, 0, 0, 0},
};

TEST(stream_reads_places)
{
    for (size_t i = 0; i < COUNT(places); i++) {
        struct cay_api_place place = {0};
        CHECK_EQ(places[i].name, cay_api_place_parse(places[i].text, &place), places[i].good);
        CHECK_EQ(places[i].name, place.offset, places[i].offset);
        CHECK_EQ(places[i].name, place.carried[0], places[i].out);
        CHECK_EQ(places[i].name, place.carried[1], places[i].err);
    }
}

struct log {
    struct fixture f;
    struct cay_execution ex;
    int fd;
    struct cay_writer w;
};

static void log_open(struct log *l)
{
    struct cay_error err = {0};
    fixture_open(&l->f);
    struct cay_sandbox sb = fixture_create(&l->f, "box", false);
    CHECK_EQ("exec", fixture_exec(&l->f, "box", "sleep", NULL, &l->ex, &err), 0);
    char path[200];
    snprintf(path, sizeof path, "%s/logs/%c/%s/%s.log", test_dir(), LOGS_OF(sb.id), l->ex.id);
    l->fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK("the log is there", l->fd >= 0);
    cay_writer_init(&l->w, l->fd, CAY_LOG_HEAD_BYTES, CAY_LOG_TAIL_BYTES);
}

static void log_close(struct log *l)
{
    close(l->fd);
    fixture_close(&l->f);
}

static enum cay_pull pull_from(struct log *l, const char *place, struct cay_buf *out)
{
    struct cay_api_follow how = {.form = CAY_API_SSE, .follow = true};
    if (place)
        CHECK("a place", cay_api_place_parse(place, &how.from));
    struct cay_stream *s =
        cay_api_follow(l->f.core, &l->ex, fcntl(l->fd, F_DUPFD_CLOEXEC, 3), &how);
    enum cay_pull got = s->ops->pull(s, out, 1 << 20);
    s->ops->close(s);
    cay_buf_addc(out, 0);
    return got;
}

static const char *last_id(struct log *l, const struct cay_buf *out)
{
    const char *id = NULL;
    for (const char *at = out->data; (at = strstr(at, "id: ")); at++)
        id = at + 4;
    return id ? cay_arena_strndup(&l->f.a, id, strcspn(id, "\n")) : NULL;
}

/* A euro sign that two records share is one character in one event, also for a client that went
 * away between the two. */
TEST(stream_never_cuts_a_character)
{
    struct log l;
    CAY_AUTO_BUF struct cay_buf first = {0}, whole = {0}, rest = {0};
    log_open(&l);
    cay_writer_output(&l.w, CAY_RECORD_STDOUT, "a\xe2\x82", 3, 1);
    CHECK_EQ("waits", pull_from(&l, NULL, &first), CAY_PULL_WAIT);
    CHECK("the whole characters", strstr(first.data, "{\"data\":\"a\"}") != NULL);
    const char *id = last_id(&l, &first);
    CHECK("the rest is in the id", id && strstr(id, ".e282") != NULL);

    cay_writer_output(&l.w, CAY_RECORD_STDOUT, "\xac!", 2, 2);
    pull_from(&l, NULL, &whole);
    CHECK("one character", strstr(whole.data, "{\"data\":\"\xe2\x82\xac!\"}") != NULL);
    pull_from(&l, id, &rest);
    CHECK("for who came back as well", strstr(rest.data, "{\"data\":\"\xe2\x82\xac!\"}") != NULL);
    CHECK("and nothing twice", strstr(rest.data, "\"a\"") == NULL);
    log_close(&l);
}

TEST(stream_sends_bytes_that_are_no_text)
{
    struct log l;
    CAY_AUTO_BUF struct cay_buf out = {0};
    struct cay_record_exit end = {.reason = CAY_REASON_EXITED, .exit_code = 4};
    log_open(&l);
    cay_writer_output(&l.w, CAY_RECORD_STDERR, "\xff\xfe\x01", 3, 1);
    cay_writer_output(&l.w, CAY_RECORD_STDOUT, "\xe2\x82", 2, 1);
    CHECK("exit", cay_writer_record(&l.w, CAY_RECORD_EXIT, &end, sizeof end, 2));
    CHECK_EQ("ends", pull_from(&l, NULL, &out), CAY_PULL_END);
    CHECK("as base64", strstr(out.data, "event: stderr\ndata: {\"base64\":\"//4B\"}") != NULL);
    CHECK("half a character at the end too",
          strstr(out.data, "event: stdout\ndata: {\"base64\":\"4oI=\"}") != NULL);
    CHECK("then the exit", strstr(out.data, "\"exitCode\":4") != NULL);
    const char *id = last_id(&l, &out);
    CAY_AUTO_BUF struct cay_buf again = {0};
    CHECK_EQ("after the exit", pull_from(&l, id, &again), CAY_PULL_WAIT);
    log_close(&l);
}

TEST(stream_tells_gaps)
{
    struct log l;
    uint64_t dropped = 77;
    CAY_AUTO_BUF struct cay_buf out = {0};
    log_open(&l);
    CHECK("gap", cay_writer_record(&l.w, CAY_RECORD_GAP, &dropped, sizeof dropped, 1));
    CHECK_EQ("waits", pull_from(&l, NULL, &out), CAY_PULL_WAIT);
    CHECK("told", strstr(out.data, "event: gap\ndata: {\"bytes\":77}") != NULL);
    log_close(&l);
}
