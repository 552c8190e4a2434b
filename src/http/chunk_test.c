/* SPDX-License-Identifier: Apache-2.0 */
#include "http/chunk.h"
#include "tests/test.h"

static const struct {
    const char *name, *bytes;
    int want;
    const char *out;
    size_t rest; /* bytes that belong to what comes next */
} cases[] = {
    {"empty", "0\r\n\r\n", 1, "", 0},
    {"two chunks", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 1, "abcde", 0},
    {"the next request stays", "1\r\na\r\n0\r\n\r\nGET", 1, "a", 3},
    {"upper case, zeros", "00A\r\n0123456789\r\n0\r\n\r\n", 1, "0123456789", 0},
    {"extension", "1;a=b;c=\"d\"\r\nx\r\n0;e\r\n\r\n", 1, "x", 0},
    {"trailers", "0\r\nA: b\r\nC: d\r\n\r\n", 1, "", 0},
    {"not whole", "3\r\nab", 0, "ab", 0},
    {"end is missing", "0\r\n", 0, "", 0},
    {"no digits", "\r\n", CAY_ERR_INVALID, NULL, 0},
    {"no number", "x\r\n", CAY_ERR_INVALID, NULL, 0},
    {"prefix", "0x1\r\n", CAY_ERR_INVALID, NULL, 0},
    {"sign", "-1\r\n", CAY_ERR_INVALID, NULL, 0},
    {"blank", "1 \r\n", CAY_ERR_INVALID, NULL, 0},
    {"nine digits", "000000001\r\n", CAY_ERR_INVALID, NULL, 0},
    {"bare LF after the size", "1\na\r\n", CAY_ERR_INVALID, NULL, 0},
    {"bare LF after the data", "1\r\na\n0\r\n\r\n", CAY_ERR_INVALID, NULL, 0},
    {"longer than its size", "1\r\nab\r\n", CAY_ERR_INVALID, NULL, 0},
    {"bare LF in an extension", "1;a\nb\r\n", CAY_ERR_INVALID, NULL, 0},
    {"control in a trailer", "0\r\nA: \001\r\n\r\n", CAY_ERR_INVALID, NULL, 0},
    {"bare LF at the end", "0\r\n\n", CAY_ERR_INVALID, NULL, 0},
    {"too large at once", "65\r\n", CAY_ERR_TOO_LARGE, NULL, 0},
    {"too large in the end", "1\r\na\r\n64\r\n", CAY_ERR_TOO_LARGE, NULL, 0},
};

TEST(chunks_decode_wherever_they_are_cut)
{
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t step = 1; step < 50; step += 6) {
            CAY_AUTO_BUF struct cay_buf out = {0};
            struct cay_chunks d = {0};
            struct cay_error err;
            size_t len = strlen(cases[i].bytes), at = 0, used = 0;
            int r = 0;
            while (r == 0 && at < len) {
                size_t n = len - at < step ? len - at : step;
                r = cay_chunks_decode(&d, cases[i].bytes + at, n, 100, &out, &used, &err);
                at += r < 0 ? 0 : used;
            }
            CHECK_EQ(cases[i].name, r, cases[i].want);
            if (!cases[i].out)
                continue;
            cay_buf_addc(&out, 0);
            CHECK_STR(cases[i].name, out.data, cases[i].out);
            CHECK_EQ(cases[i].name, len - at, cases[i].rest);
        }
}

TEST(chunks_bound_extensions_and_trailers)
{
    static const char *const begins[] = {"1;", "0\r\nA: "};
    for (size_t i = 0; i < COUNT(begins); i++) {
        CAY_AUTO_BUF struct cay_buf out = {0};
        struct cay_chunks d = {0};
        struct cay_error err;
        size_t used;
        int r = cay_chunks_decode(&d, begins[i], strlen(begins[i]), 100, &out, &used, &err);
        for (int n = 0; n < 10000 && r == 0; n++)
            r = cay_chunks_decode(&d, "a", 1, 100, &out, &used, &err);
        CHECK_EQ(begins[i], r, CAY_ERR_INVALID);
    }
}
