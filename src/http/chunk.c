/* SPDX-License-Identifier: Apache-2.0 */
/* A chunked body: a state machine over bytes, so that where the network cuts them never matters. */
#include "http/chunk.h"
#include <stdbool.h>

#define DIGITS_MAX 8   /* more than any body that is taken needs */
#define EXTRA_MAX 4096 /* extensions and trailers of a whole body */

enum {
    SIZE, /* the zeroed decoder stands here */
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_BEGIN,
    TRAILER,
    TRAILER_LF,
    LAST_LF,
    WHOLE,
};

static int bad(struct cay_error *err, const char *why)
{
    return cay_fail_as(err, CAY_ERR_INVALID, "BAD_REQUEST", "%s", why);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int take_size(struct cay_chunks *d, char c, struct cay_error *err)
{
    int value = hex_value(c);
    if (value >= 0) {
        if (d->digits++ == DIGITS_MAX)
            return bad(err, "a chunk's size has too many digits");
        d->left = d->left * 16 + (unsigned)value;
        return 0;
    }
    if (d->digits == 0 || (c != ';' && c != '\r'))
        return bad(err, "a chunk's size is not a number");
    d->state = c == ';' ? EXTENSION : SIZE_LF;
    return 0;
}

/* Extensions and trailers mean nothing here; they must only be harmless and end. */
static int take_extra(struct cay_chunks *d, char c, int at_cr, struct cay_error *err)
{
    if (c == '\r') {
        d->state = at_cr;
        return 0;
    }
    if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7f)
        return bad(err, "a chunk's extension or trailer has a control character");
    if (++d->extra > EXTRA_MAX)
        return bad(err, "chunk extensions or trailers are too long");
    return 0;
}

static int take_lf(struct cay_chunks *d, char c, int next, struct cay_error *err)
{
    if (c != '\n')
        return bad(err, "a line of the chunked body does not end with CR LF");
    d->state = next;
    return 0;
}

static int take_byte(struct cay_chunks *d, char c, size_t room, struct cay_error *err)
{
    switch (d->state) {
    case SIZE:
        return take_size(d, c, err);
    case EXTENSION:
        return take_extra(d, c, SIZE_LF, err);
    case SIZE_LF:
        if (c == '\n' && d->left > room)
            return cay_fail_as(err, CAY_ERR_TOO_LARGE, "PAYLOAD_TOO_LARGE",
                               "the body is too large");
        return take_lf(d, c, d->left ? DATA : TRAILER_BEGIN, err);
    case DATA_CR:
        if (c != '\r')
            return bad(err, "a chunk is longer than its size");
        d->state = DATA_LF;
        return 0;
    case DATA_LF:
        d->digits = 0;
        return take_lf(d, c, SIZE, err);
    case TRAILER_BEGIN:
        d->state = TRAILER;
        return take_extra(d, c, LAST_LF, err);
    case TRAILER:
        return take_extra(d, c, TRAILER_LF, err);
    case TRAILER_LF:
        return take_lf(d, c, TRAILER_BEGIN, err);
    default:
        return take_lf(d, c, WHOLE, err);
    }
}

int cay_chunks_decode(struct cay_chunks *d, const char *data, size_t len, size_t max,
                      struct cay_buf *out, size_t *used_out, struct cay_error *err)
{
    size_t at = 0;
    while (at < len && d->state != WHOLE) {
        if (d->state == DATA) {
            size_t n = len - at < d->left ? len - at : (size_t)d->left;
            cay_buf_add(out, data + at, n);
            at += n;
            d->left -= n;
            if (d->left == 0)
                d->state = DATA_CR;
            continue;
        }
        int r = take_byte(d, data[at++], max - out->len, err);
        if (r < 0)
            return r;
    }
    *used_out = at;
    return d->state == WHOLE;
}
