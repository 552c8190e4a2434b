/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that double in size: the first is small, since thousands of connections may hold one. */
#include "base/arena.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define FIRST_BLOCK 2048
#define LARGEST_BLOCK (64 * 1024)
#define FIRST_ROOM 16 /* of a list; a power of two */
#define ALIGN _Alignof(max_align_t)

struct cay_arena_block {
    struct cay_arena_block *next;
    size_t used, size; /* of data */
    _Alignas(max_align_t) char data[];
};

static struct cay_arena_block *block_new(size_t size)
{
    if (size > SIZE_MAX / 2)
        abort();
    struct cay_arena_block *b = calloc(1, sizeof *b + size);
    if (!b)
        abort();
    b->size = size;
    return b;
}

/* Memory for what does not fit into the block in use. What is large gets a block of its own behind
 * that one, so that the rest of it is not lost. */
static void *alloc_slow(struct cay_arena *a, size_t size)
{
    struct cay_arena_block *head = a->head;
    size_t whole = head ? 2 * (head->size + sizeof *head) : FIRST_BLOCK;
    if (whole > LARGEST_BLOCK)
        whole = LARGEST_BLOCK;
    size_t room = whole - sizeof *head;

    if (head && size > room / 4) {
        struct cay_arena_block *own = block_new(size);
        own->used = size;
        own->next = head->next;
        head->next = own;
        return own->data;
    }
    struct cay_arena_block *b = block_new(size > room ? size : room);
    b->used = size;
    b->next = head;
    a->head = b;
    return b->data;
}

static void *alloc_aligned(struct cay_arena *a, size_t size, size_t align)
{
    struct cay_arena_block *b = a->head;
    if (b) {
        size_t at = (b->used + align - 1) & ~(align - 1);
        if (at <= b->size && size <= b->size - at) {
            b->used = at + size;
            return b->data + at;
        }
    }
    return alloc_slow(a, size);
}

void *cay_arena_alloc(struct cay_arena *a, size_t size)
{
    return alloc_aligned(a, size, ALIGN);
}

char *cay_arena_strndup(struct cay_arena *a, const char *s, size_t len)
{
    if (len == SIZE_MAX)
        abort();
    char *copy = alloc_aligned(a, len + 1, 1);
    if (len > 0)
        memcpy(copy, s, len);
    return copy;
}

char *cay_arena_strdup(struct cay_arena *a, const char *s)
{
    return s ? cay_arena_strndup(a, s, strlen(s)) : NULL;
}

char *cay_arena_printf(struct cay_arena *a, const char *fmt, ...)
{
    char short_text[256];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(short_text, sizeof short_text, fmt, args);
    va_end(args);
    if (len < 0)
        abort();
    if ((size_t)len < sizeof short_text)
        return cay_arena_strndup(a, short_text, (size_t)len);

    char *text = alloc_aligned(a, (size_t)len + 1, 1);
    va_start(args, fmt);
    (void)vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return text;
}

static void free_blocks(struct cay_arena_block *b)
{
    for (struct cay_arena_block *next; b; b = next) {
        next = b->next;
        free(b);
    }
}

void *cay_arena_room(struct cay_arena *a, void *at, size_t count, size_t size)
{
    bool full = count == 0 || (count >= FIRST_ROOM && (count & (count - 1)) == 0);
    if (!full)
        return at;
    void *more = cay_arena_alloc(a, (count ? 2 * count : FIRST_ROOM) * size);
    if (count > 0)
        memcpy(more, at, count * size);
    return more;
}

void cay_arena_reset(struct cay_arena *a)
{
    struct cay_arena_block *keep = a->head;
    if (!keep)
        return;
    free_blocks(keep->next);
    keep->next = NULL;
    memset(keep->data, 0, keep->used);
    keep->used = 0;
}

void cay_arena_done(struct cay_arena *a)
{
    if (!a)
        return;
    free_blocks(a->head);
    a->head = NULL;
}
