/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sse.h"
#include "tests/test.h"

static int note(void *arg, const char *event, const char *data, size_t len, struct cay_error *err)
{
    if (strcmp(data, "refuse") == 0)
        return cay_fail(err, CAY_ERR_INTERNAL, "refused");
    cay_buf_addf(arg, "[%s|%.*s]", event, (int)len, data);
    return 0;
}

static const struct {
    const char *name, *bytes, *want, *id;
} cases[] = {
    {"one", "event: stdout\nid: 5\ndata: x\n\n", "[stdout|x]", "5"},
    {"crlf and cr", "event: a\r\ndata: 1\r\n\r\ndata: 2\r\r", "[a|1][|2]", ""},
    {"comments", ":ka\n\n: x\ndata: 1\n\n:ka\n\n", "[|1]", ""},
    {"lines join", "data: 1\ndata:2\ndata\n\n", "[|1\n2\n]", ""},
    {"no blank line, no event", "id: 7\ndata: 1\n", "", ""},
    {"the id waits for the end", "id: 1\ndata: a\n\nid: 2\ndata: b\n", "[|a]", "1"},
    {"ids are not looked into", "id: 4096.e282.f09f98\ndata: a\n\n", "[|a]", "4096.e282.f09f98"},
    {"a refused event keeps the old id", "id: 1\ndata: a\n\nid: 2\ndata: refuse\n\n", "[|a]", "1"},
    {"unknown fields", "retry: 5\nfoo\ndata: a\n\n", "[|a]", ""},
    {"an event without data is none", "event: x\n\ndata: a\n\n", "[|a]", ""},
};

TEST(sse_reads)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (size_t step = 1; step < 64; step = step * 4 - 1) {
            struct cay_sse s = {0};
            CAY_AUTO_BUF struct cay_buf got = {0};
            struct cay_error err = {0};
            size_t len = strlen(cases[i].bytes);
            int r = 0;
            for (size_t at = 0; at < len && r >= 0; at += step)
                r = cay_sse_feed(&s, cases[i].bytes + at, len - at < step ? len - at : step, note,
                                 &got, &err);
            cay_buf_addc(&got, 0);
            CHECK_STR(cases[i].name, got.data, cases[i].want);
            CHECK_STR(cases[i].name, s.id, cases[i].id);
            cay_sse_done(&s);
        }
    }
}

TEST(sse_is_bounded)
{
    struct cay_sse s = {0};
    CAY_AUTO_BUF struct cay_buf got = {0};
    struct cay_error err = {0};
    static char block[65536];
    int r = 0, rounds = 0;
    memset(block, 'x', sizeof block);
    for (; r >= 0 && rounds < 100; rounds++)
        r = cay_sse_feed(&s, block, sizeof block, note, &got, &err);
    CHECK_EQ("an endless line", r, CAY_ERR_TOO_LARGE);
    cay_sse_restart(&s);
    memcpy(block, "data:", 5);
    block[sizeof block - 1] = '\n';
    for (r = 0, rounds = 0; r >= 0 && rounds < 100; rounds++)
        r = cay_sse_feed(&s, block, sizeof block, note, &got, &err);
    CHECK_EQ("an endless event", r, CAY_ERR_TOO_LARGE);
    cay_sse_restart(&s);
    memcpy(block, "id: ", 4);
    CHECK_EQ("a long id", cay_sse_feed(&s, block, sizeof block, note, &got, &err),
             CAY_ERR_TOO_LARGE);
    cay_sse_done(&s);
}
