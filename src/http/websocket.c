/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket frames: a state machine over bytes, so that where the network cuts them never matters.
 * Binary payload is handed on as it comes and never gathered. */
#include "http/websocket.h"
#include "base/str.h"
#include "model/limits.h"
#include <string.h>

#define CONTROL_MAX 125
#define KEY_LEN 24 /* 16 bytes in base64 */

static bool is_control(enum cay_ws_op op)
{
    return op >= CAY_WS_CLOSE;
}

/* How long the head is, as far as it can be told from what has come of it. */
static unsigned head_len(const struct cay_ws *d)
{
    unsigned len = 2;
    if (d->have < 2)
        return len;
    unsigned size = d->head[1] & 127;
    len += size == 127 ? 8 : size == 126 ? 2 : 0;
    return len + (d->head[1] & 128 ? 4 : 0);
}

static uint64_t payload_len(const struct cay_ws *d)
{
    unsigned size = d->head[1] & 127, bytes = size == 127 ? 8 : size == 126 ? 2 : 0;
    uint64_t value = bytes ? 0 : size;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | d->head[2 + i];
    return value;
}

/* Each length has one form: the shortest. */
static bool is_shortest(const struct cay_ws *d, uint64_t len)
{
    unsigned size = d->head[1] & 127;
    return (size != 126 || len > 125) && (size != 127 || len > 0xffff);
}

static int begin_message(struct cay_ws *d)
{
    if (d->op == CAY_WS_MORE && d->message == CAY_WS_MORE)
        return -CAY_WS_PROTOCOL; /* of what? */
    if (d->op != CAY_WS_MORE) {
        if (d->message != CAY_WS_MORE)
            return -CAY_WS_PROTOCOL; /* the last one is not over */
        d->message = d->op;
        d->size = 0;
        d->fragments = 0;
    }
    d->size += d->left;
    uint64_t max = d->message == CAY_WS_TEXT ? CAY_WS_TEXT_MAX : CAY_WS_MESSAGE_MAX;
    if (d->left > CAY_WS_FRAME_MAX || d->size > max || ++d->fragments > CAY_WS_FRAGMENTS_MAX)
        return -CAY_WS_TOO_BIG;
    return 0;
}

static int begin_frame(struct cay_ws *d)
{
    const bool masked = d->head[1] & 128;
    const unsigned op = d->head[0] & 15;
    d->op = (enum cay_ws_op)op;
    d->last = d->head[0] & 128;
    d->left = payload_len(d);
    d->at = 0;
    d->in_payload = true;
    if (d->head[0] & 0x70 || (op > CAY_WS_BINARY && op < CAY_WS_CLOSE) || op > CAY_WS_PONG ||
        masked == d->unmasked || !is_shortest(d, d->left))
        return -CAY_WS_PROTOCOL;
    memset(d->mask, 0, sizeof d->mask);
    if (masked)
        memcpy(d->mask, d->head + head_len(d) - 4, 4);
    d->text_len = d->text.len;
    if (is_control(d->op))
        return d->last && d->left <= CONTROL_MAX ? 0 : -CAY_WS_PROTOCOL;
    return begin_message(d);
}

static void unmask(struct cay_ws *d, char *data, size_t len)
{
    if (!d->unmasked)
        for (size_t i = 0; i < len; i++)
            data[i] = (char)(data[i] ^ d->mask[(d->at + i) & 3]);
    d->at += len;
    d->left -= len;
}

static int check_close(struct cay_ws_piece *p)
{
    p->code = CAY_WS_NO_CODE;
    if (p->len == 0)
        return 1;
    if (p->len < 2)
        return -CAY_WS_PROTOCOL;
    unsigned code = (unsigned)(unsigned char)p->data[0] << 8 | (unsigned char)p->data[1];
    bool known = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1011) ||
                 (code >= 3000 && code <= 4999);
    if (!known)
        return -CAY_WS_PROTOCOL;
    p->code = (enum cay_ws_code)code;
    p->data += 2;
    p->len -= 2;
    return cay_str_is_utf8(p->data, p->len) ? 1 : -CAY_WS_NOT_TEXT;
}

/* A frame has come to its end: is there something to tell? */
static int end_frame(struct cay_ws *d, struct cay_ws_piece *out)
{
    d->in_payload = false;
    d->have = 0;
    if (is_control(d->op)) {
        *out = (struct cay_ws_piece){.op = d->op,
                                     .data = d->text.data ? d->text.data + d->text_len : "",
                                     .len = d->text.len - d->text_len};
        d->text.len = d->text_len; /* the bytes stay where they are until the next call */
        return d->op == CAY_WS_CLOSE ? check_close(out) : 1;
    }
    enum cay_ws_op message = d->message;
    if (!d->last)
        return 0;
    d->message = CAY_WS_MORE;
    if (message != CAY_WS_TEXT)
        return 0;
    *out = (struct cay_ws_piece){
        .op = CAY_WS_TEXT, .data = d->text.data ? d->text.data : "", .len = d->text.len};
    d->text.len = 0;
    return cay_str_is_utf8(out->data, out->len) ? 1 : -CAY_WS_NOT_TEXT;
}

/* Some payload. Binary is told at once. */
static int take_payload(struct cay_ws *d, char *data, size_t len, struct cay_ws_piece *out)
{
    unmask(d, data, len);
    if (is_control(d->op) || d->message == CAY_WS_TEXT)
        cay_buf_add(&d->text, data, len);
    else if (len > 0) {
        *out = (struct cay_ws_piece){.op = CAY_WS_BINARY, .data = data, .len = len};
        return 1;
    }
    return 0;
}

int cay_ws_decode(struct cay_ws *d, char *data, size_t len, size_t *used_out,
                  struct cay_ws_piece *out)
{
    size_t at = 0;
    int r = 0;
    while (r == 0) {
        if (d->in_payload && d->left == 0) {
            r = end_frame(d, out);
            continue;
        }
        if (at == len)
            break;
        if (d->in_payload) {
            size_t n = len - at < d->left ? len - at : (size_t)d->left;
            r = take_payload(d, data + at, n, out);
            at += n;
            continue;
        }
        d->head[d->have++] = (unsigned char)data[at++];
        if (d->have == head_len(d))
            r = begin_frame(d);
    }
    *used_out = at;
    return r;
}

void cay_ws_done(struct cay_ws *d)
{
    cay_buf_done(&d->text);
}

void cay_ws_frame(struct cay_buf *out, enum cay_ws_op op, const void *data, size_t len,
                  const unsigned char *mask)
{
    const unsigned char masked = mask ? 128 : 0;
    cay_buf_addc(out, (char)(128 | op));
    if (len <= 125) {
        cay_buf_addc(out, (char)(masked | len));
    } else {
        const int bytes = len <= 0xffff ? 2 : 8;
        cay_buf_addc(out, (char)(masked | (bytes == 2 ? 126 : 127)));
        for (int i = bytes - 1; i >= 0; i--)
            cay_buf_addc(out, (char)((uint64_t)len >> (8 * i)));
    }
    if (mask)
        cay_buf_add(out, mask, 4);
    size_t at = out->len;
    cay_buf_add(out, data, len);
    for (size_t i = 0; mask && i < len; i++)
        out->data[at + i] = (char)(out->data[at + i] ^ mask[i & 3]);
}

void cay_ws_close_frame(struct cay_buf *out, enum cay_ws_code code, const char *reason,
                        const unsigned char *mask)
{
    char body[CONTROL_MAX];
    size_t len = strnlen(reason, sizeof body - 2);
    body[0] = (char)((unsigned)code >> 8);
    body[1] = (char)code;
    memcpy(body + 2, reason, len);
    cay_ws_frame(out, CAY_WS_CLOSE, body, code == CAY_WS_NO_CODE ? 0 : len + 2, mask);
}

/* ---- the handshake ---- */

static uint32_t roll(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

/* SHA-1 over one block. It keeps nothing safe here: the handshake asks for it, to tell a server
 * that knows WebSocket from one that repeats what it is sent. */
static void sha1_block(uint32_t h[5], const unsigned char block[64])
{
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = roll(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t t = roll(a, 5) + f + e + k[i / 20] + w[i];
        e = d;
        d = c;
        c = roll(b, 30);
        b = a;
        a = t;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

bool cay_ws_key_is_valid(const char *key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return key && strlen(key) == KEY_LEN && strspn(key, digits) == KEY_LEN - 2 &&
           strcmp(key + KEY_LEN - 2, "==") == 0;
}

void cay_ws_accept(const char *key, char out[CAY_WS_ACCEPT_SIZE])
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    unsigned char blocks[128] = {0}, hash[20];
    const size_t len = KEY_LEN + sizeof magic - 1;
    memcpy(blocks, key, KEY_LEN);
    memcpy(blocks + KEY_LEN, magic, sizeof magic - 1);
    blocks[len] = 0x80;
    blocks[126] = (unsigned char)(len * 8 >> 8);
    blocks[127] = (unsigned char)(len * 8);
    sha1_block(h, blocks);
    sha1_block(h, blocks + 64);
    for (int i = 0; i < 20; i++)
        hash[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
    out[cay_str_base64(hash, sizeof hash, out)] = 0;
}
