/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/buf.h"
#include "tests/test.h"

TEST(arena_memory_is_zeroed_aligned_and_apart)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    unsigned char *at[200];
    for (size_t i = 0; i < COUNT(at); i++) {
        size_t size = i * i;
        at[i] = cay_arena_alloc(&a, size);
        CHECK("aligned", (uintptr_t)at[i] % _Alignof(max_align_t) == 0);
        for (size_t k = 0; k < size; k++)
            if (at[i][k] != 0)
                CHECK("zeroed", false);
        memset(at[i], (int)i, size);
        CHECK_STR("strings", cay_arena_strdup(&a, "odd"), "odd");
    }
    for (size_t i = 1; i < COUNT(at); i++)
        CHECK_EQ("apart", at[i][i * i - 1], i);
}

TEST(arena_strings_are_copies)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CHECK_STR("none", cay_arena_strdup(&a, NULL), NULL);
    CHECK_STR("part", cay_arena_strndup(&a, "abc", 2), "ab");
    CHECK_STR("format", cay_arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    char *padded = cay_arena_printf(&a, "%5000d", 1);
    CHECK_EQ("long", strlen(padded), 5000);
    cay_arena_done(&a);
    cay_arena_done(&a); /* twice is fine */
}

TEST(buf_grows_and_drops_from_the_front)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    cay_buf_add(&b, "", 0);
    CHECK("empty", !b.data);
    for (int i = 0; i < 1000; i++)
        cay_buf_addf(&b, "%d,", i);
    cay_buf_adds(&b, "end");
    cay_buf_drop(&b, 2);
    CHECK("front", memcmp(b.data, "1,2,", 4) == 0);
    cay_buf_addf(&b, "%3000d", 1);
    memcpy(cay_buf_room(&b, 70000) + 69999, "x", 1);
    size_t len = b.len;
    cay_buf_addc(&b, 'c');
    CHECK_EQ("length", b.len, len + 1);
    cay_buf_drop(&b, 1u << 20);
    CHECK_EQ("dropped", b.len, 0);
    cay_buf_done(&b);
    CHECK_EQ("done", b.cap, 0);
}
