/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "image/packed.h"
#include "tests/test.h"
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define PLAIN_LEN 5000

enum form { AS_IT_IS, GZIP, TWO_MEMBERS, ZSTD };

static void add_gzip(struct cay_buf *out, const char *data, size_t len)
{
    unsigned char packed[2 * PLAIN_LEN];
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)data,
                  .avail_in = (unsigned)len,
                  .next_out = packed,
                  .avail_out = sizeof packed};
    CHECK_EQ("deflate", deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    CHECK_EQ("deflate", deflate(&z, Z_FINISH), Z_STREAM_END);
    cay_buf_add(out, packed, sizeof packed - z.avail_out);
    deflateEnd(&z);
}

static void pack(enum form form, const char *data, struct cay_buf *out)
{
    char packed[2 * PLAIN_LEN];
    if (form == AS_IT_IS)
        cay_buf_add(out, data, PLAIN_LEN);
    else if (form == ZSTD)
        cay_buf_add(out, packed, ZSTD_compress(packed, sizeof packed, data, PLAIN_LEN, 3));
    else {
        size_t first = form == GZIP ? PLAIN_LEN : 1000;
        add_gzip(out, data, first);
        if (first < PLAIN_LEN)
            add_gzip(out, data + first, PLAIN_LEN - first);
    }
}

/* In pieces of `step` bytes, into little room; the last word of is_inside. */
static bool unpack(const struct cay_buf *from, size_t len, size_t step, struct cay_buf *out)
{
    struct cay_packed *p = cay_packed_new();
    for (size_t at = 0; at < len;) {
        size_t piece = at == 0 ? 4 : step;
        piece = piece < len - at ? piece : len - at;
        struct cay_packed_in in = {(const unsigned char *)from->data + at, piece};
        char room[7];
        const char *why = NULL;
        long n;
        do {
            n = cay_packed_step(p, &in, room, sizeof room, &why);
            CHECK("it can be unpacked", n >= 0);
            cay_buf_add(out, room, n > 0 ? (size_t)n : 0);
        } while (n >= 0 && (in.len > 0 || n == (long)sizeof room));
        at += piece;
    }
    struct cay_packed_in none = {0};
    const char *why = NULL;
    CHECK("nothing is held back", cay_packed_step(p, &none, (char[8]){0}, 8, &why) <= 0);
    bool inside = cay_packed_is_inside(p);
    cay_packed_free(p);
    return inside;
}

TEST(packed_in_any_form_and_any_pieces)
{
    static const char *const names[] = {"as it is", "gzip", "two members", "zstd"};
    static const size_t steps[] = {1, 13, PLAIN_LEN};
    char data[PLAIN_LEN];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * i >> 3);
    for (size_t f = 0; f < COUNT(names); f++) {
        CAY_AUTO_BUF struct cay_buf packed = {0};
        pack((enum form)f, data, &packed);
        for (size_t s = 0; s < COUNT(steps); s++) {
            CAY_AUTO_BUF struct cay_buf plain = {0}, cut = {0};
            CHECK(names[f], !unpack(&packed, packed.len, steps[s], &plain));
            CHECK_EQ(names[f], plain.len, sizeof data);
            CHECK(names[f], plain.len == sizeof data && memcmp(plain.data, data, sizeof data) == 0);
            CHECK_EQ(names[f], unpack(&packed, packed.len - 2, steps[s], &cut), f != AS_IT_IS);
        }
    }
}

TEST(packed_noise_is_refused)
{
    static const unsigned char bad[] = {0x1f, 0x8b, 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x'};
    struct cay_packed *p = cay_packed_new();
    struct cay_packed_in in = {bad, sizeof bad};
    char room[64];
    const char *why = NULL;
    CHECK_EQ("noise", cay_packed_step(p, &in, room, sizeof room, &why), -1);
    CHECK("with a reason", why != NULL);
    cay_packed_free(p);
}
