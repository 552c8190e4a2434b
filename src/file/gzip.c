/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to stdout and from stdin, through zlib where that is wanted or found. */
#include "file/file.h"
#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>
#include <zlib.h>

#define LEVEL 3         /* most of the gain, a third of the time */
#define GZIP_ONLY 31    /* window bits: the largest, with gzip's own head */
#define PIECE (1 << 20) /* of one sendfile */

bool cay_squeeze_open(struct cay_squeeze *s, bool gzip)
{
    *s = (struct cay_squeeze){0};
    if (!gzip)
        return true;
    s->z = cay_file_alloc(sizeof(z_stream));
    return deflateInit2(s->z, LEVEL, Z_DEFLATED, GZIP_ONLY, 8, Z_DEFAULT_STRATEGY) == Z_OK;
}

static bool deflate_all(struct cay_squeeze *s, int flush)
{
    static unsigned char out[CAY_FILE_CHUNK];
    z_stream *z = s->z;
    z->next_in = (unsigned char *)s->buf;
    z->avail_in = (unsigned)s->held;
    s->held = 0;
    do {
        z->next_out = out;
        z->avail_out = sizeof out;
        if (deflate(z, flush) == Z_STREAM_ERROR ||
            !cay_write_all(STDOUT_FILENO, out, sizeof out - z->avail_out))
            return false;
    } while (z->avail_out == 0);
    return true;
}

static bool flush(struct cay_squeeze *s)
{
    if (s->z)
        return deflate_all(s, Z_NO_FLUSH);
    size_t held = s->held;
    s->held = 0;
    return cay_write_all(STDOUT_FILENO, s->buf, held);
}

bool cay_squeeze_put(struct cay_squeeze *s, const void *data, size_t len)
{
    for (const char *at = data; len > 0;) {
        size_t n = sizeof s->buf - s->held;
        if (n > len)
            n = len;
        memcpy(s->buf + s->held, at, n);
        s->held += n;
        at += n;
        len -= n;
        if (s->held == sizeof s->buf && !flush(s))
            return false;
    }
    return true;
}

static bool send_plain(int fd, uint64_t len)
{
    while (len > 0) {
        ssize_t n = sendfile(STDOUT_FILENO, fd, NULL, len < PIECE ? (size_t)len : PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        len -= (uint64_t)n;
    }
    return true;
}

bool cay_squeeze_file(struct cay_squeeze *s, int fd, uint64_t len)
{
    if (!s->z && len >= CAY_FILE_CHUNK)
        return flush(s) && send_plain(fd, len);
    while (len > 0) {
        if (s->held == sizeof s->buf && !flush(s))
            return false;
        size_t room = sizeof s->buf - s->held;
        ssize_t n = read(fd, s->buf + s->held, len < room ? (size_t)len : room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false; /* it shrank: what was promised cannot be sent */
        s->held += (size_t)n;
        len -= (uint64_t)n;
    }
    return true;
}

bool cay_squeeze_end(struct cay_squeeze *s)
{
    return s->z ? deflate_all(s, Z_FINISH) : flush(s);
}

/* ---- the other way ---- */

/* Some bytes of stdin. 0: its end; below: an error. */
static ssize_t refill(struct cay_unsqueeze *u)
{
    ssize_t n;
    do
        n = read(STDIN_FILENO, u->buf, sizeof u->buf);
    while (n < 0 && errno == EINTR);
    u->at = 0;
    u->held = n > 0 ? (size_t)n : 0;
    return n;
}

bool cay_unsqueeze_open(struct cay_unsqueeze *u)
{
    static const unsigned char magic[2] = {0x1f, 0x8b};
    *u = (struct cay_unsqueeze){0};
    while (u->held < 2) {
        ssize_t n = read(STDIN_FILENO, u->buf + u->held, sizeof u->buf - u->held);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        u->held += (size_t)n;
    }
    if (u->held < 2 || memcmp(u->buf, magic, 2) != 0)
        return true;
    u->z = cay_file_alloc(sizeof(z_stream));
    return inflateInit2((z_stream *)u->z, GZIP_ONLY) == Z_OK;
}

static ssize_t read_plain(struct cay_unsqueeze *u, void *data, size_t len)
{
    if (u->at == u->held) {
        ssize_t n = refill(u);
        if (n <= 0)
            return n;
    }
    size_t n = u->held - u->at < len ? u->held - u->at : len;
    memcpy(data, u->buf + u->at, n);
    u->at += n;
    return (ssize_t)n;
}

/* Several gzip files in a row are one: what follows the end of one begins the next. */
static ssize_t inflate_some(struct cay_unsqueeze *u, void *data, size_t len)
{
    z_stream *z = u->z;
    z->next_out = data;
    z->avail_out = (unsigned)len;
    while (z->avail_out == len) {
        if (u->at == u->held) {
            ssize_t n = refill(u);
            if (n <= 0)
                return n < 0 || !u->ended ? -1 : 0;
        }
        if (u->ended && inflateReset(z) != Z_OK)
            return -1;
        u->ended = false;
        z->next_in = (unsigned char *)u->buf + u->at;
        z->avail_in = (unsigned)(u->held - u->at);
        int r = inflate(z, Z_NO_FLUSH);
        u->at = u->held - z->avail_in;
        if (r == Z_STREAM_END)
            u->ended = true;
        else if (r != Z_OK && r != Z_BUF_ERROR)
            return -1;
    }
    return (ssize_t)(len - z->avail_out);
}

bool cay_unsqueeze_get(void *arg, void *data, size_t len)
{
    struct cay_unsqueeze *u = arg;
    for (char *at = data; len > 0;) {
        size_t want = len < CAY_FILE_CHUNK ? len : CAY_FILE_CHUNK;
        ssize_t n = u->z ? inflate_some(u, at, want) : read_plain(u, at, want);
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

void cay_unsqueeze_drain(struct cay_unsqueeze *u)
{
    while (refill(u) > 0)
        ;
}
