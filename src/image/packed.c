/* SPDX-License-Identifier: Apache-2.0 */
#include "image/packed.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define ANY_GZIP 31   /* window bits: the largest, with gzip's own head */
#define WINDOW_LOG 27 /* of zstd: 128 MiB, what its own tool takes without being asked */

enum form { UNKNOWN, PLAIN, GZIP, ZSTD };

struct cay_packed {
    enum form form;
    bool inside; /* a gzip member or zstd frame has begun and not ended */
    z_stream z;
    ZSTD_DStream *zstd;
};

struct cay_packed *cay_packed_new(void)
{
    struct cay_packed *p = calloc(1, sizeof *p);
    if (!p || !(p->zstd = ZSTD_createDStream()) || inflateInit2(&p->z, ANY_GZIP) != Z_OK)
        abort();
    (void)ZSTD_DCtx_setParameter(p->zstd, ZSTD_d_windowLogMax, WINDOW_LOG); /* the default, too */
    return p;
}

void cay_packed_free(struct cay_packed *p)
{
    if (!p)
        return;
    (void)inflateEnd(&p->z);
    (void)ZSTD_freeDStream(p->zstd);
    free(p);
}

static enum form form_of(const struct cay_packed_in *in)
{
    static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    if (in->len >= sizeof gzip && memcmp(in->at, gzip, sizeof gzip) == 0)
        return GZIP;
    return in->len >= sizeof zstd && memcmp(in->at, zstd, sizeof zstd) == 0 ? ZSTD : PLAIN;
}

static void pass(struct cay_packed_in *in, size_t len)
{
    in->at += len;
    in->len -= len;
}

static long step_gzip(struct cay_packed *p, struct cay_packed_in *in, void *out, size_t room,
                      const char **why)
{
    if (!p->inside && inflateReset(&p->z) != Z_OK) {
        *why = "gzip";
        return -1;
    }
    p->inside = true;
    p->z.next_in = (unsigned char *)(uintptr_t)in->at; /* it is only read */
    p->z.avail_in = (unsigned)in->len;
    p->z.next_out = out;
    p->z.avail_out = (unsigned)room;
    int r = inflate(&p->z, Z_NO_FLUSH);
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR) {
        *why = p->z.msg ? p->z.msg : "bad gzip data";
        return -1;
    }
    pass(in, in->len - p->z.avail_in);
    p->inside = r != Z_STREAM_END;
    return (long)(room - p->z.avail_out);
}

static long step_zstd(struct cay_packed *p, struct cay_packed_in *in, void *out, size_t room,
                      const char **why)
{
    ZSTD_inBuffer from = {in->at, in->len, 0};
    ZSTD_outBuffer to = {out, room, 0};
    size_t r = ZSTD_decompressStream(p->zstd, &to, &from);
    if (ZSTD_isError(r)) {
        *why = ZSTD_getErrorName(r);
        return -1;
    }
    pass(in, from.pos);
    p->inside = r != 0;
    return (long)to.pos;
}

long cay_packed_step(struct cay_packed *p, struct cay_packed_in *in, void *out, size_t room,
                     const char **why)
{
    if (in->len == 0 && !p->inside)
        return 0; /* a decoder would take this for a beginning */
    if (p->form == UNKNOWN)
        p->form = form_of(in);
    if (p->form == GZIP)
        return step_gzip(p, in, out, room, why);
    if (p->form == ZSTD)
        return step_zstd(p, in, out, room, why);
    size_t len = in->len < room ? in->len : room;
    if (len)
        memcpy(out, in->at, len);
    pass(in, len);
    return (long)len;
}

bool cay_packed_is_inside(const struct cay_packed *p)
{
    return p->inside;
}
