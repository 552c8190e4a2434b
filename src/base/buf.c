/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SMALLEST 256

static void grow(struct cay_buf *b, size_t len)
{
    if (len > SIZE_MAX / 4 || b->len > SIZE_MAX / 4)
        abort();
    size_t cap = b->cap > SMALLEST / 2 ? 2 * b->cap : SMALLEST;
    while (cap < b->len + len)
        cap *= 2;
    char *data = realloc(b->data, cap);
    if (!data)
        abort();
    b->data = data;
    b->cap = cap;
}

char *cay_buf_room(struct cay_buf *b, size_t len)
{
    if (!b->data || len > b->cap - b->len)
        grow(b, len);
    return b->data + b->len;
}

void cay_buf_add(struct cay_buf *b, const void *data, size_t len)
{
    if (len == 0)
        return;
    memcpy(cay_buf_room(b, len), data, len);
    b->len += len;
}

void cay_buf_adds(struct cay_buf *b, const char *s)
{
    cay_buf_add(b, s, strlen(s));
}

void cay_buf_addc(struct cay_buf *b, char c)
{
    *cay_buf_room(b, 1) = c;
    b->len++;
}

void cay_buf_addf(struct cay_buf *b, const char *fmt, ...)
{
    va_list args;
    char *room = cay_buf_room(b, 64);
    size_t size = b->cap - b->len;
    va_start(args, fmt);
    int len = vsnprintf(room, size, fmt, args);
    va_end(args);
    if (len < 0)
        abort();
    if ((size_t)len >= size) {
        room = cay_buf_room(b, (size_t)len + 1);
        va_start(args, fmt);
        (void)vsnprintf(room, (size_t)len + 1, fmt, args);
        va_end(args);
    }
    b->len += (size_t)len;
}

void cay_buf_drop(struct cay_buf *b, size_t len)
{
    if (len >= b->len) {
        b->len = 0;
        return;
    }
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

void cay_buf_done(struct cay_buf *b)
{
    if (!b)
        return;
    free(b->data);
    *b = (struct cay_buf){0};
}

bool cay_write_all(int fd, const void *data, size_t len)
{
    for (const char *at = data; len > 0;) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}
