/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as WebSocket frames: cut anywhere, they decode to the same as in one piece. */
#include "http/websocket.h"
#include "model/limits.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int decode(struct cay_ws *d, const char *bytes, size_t len, size_t step, struct cay_buf *out)
{
    CAY_AUTO_BUF struct cay_buf copy = {0};
    struct cay_ws_piece piece = {0};
    size_t at = 0;
    int r = 1;
    cay_buf_add(&copy, bytes, len);
    while (r >= 0 && (at < len || r == 1)) {
        size_t n = len - at < step ? len - at : step, used = 0;
        r = cay_ws_decode(d, copy.data + at, n, &used, &piece);
        if (used > n)
            abort();
        at += used;
        if (r != 1)
            continue;
        if (piece.op == CAY_WS_TEXT && piece.len > CAY_WS_TEXT_MAX)
            abort();
        if (piece.op != CAY_WS_BINARY) /* of bytes it does not matter how they are cut */
            cay_buf_addf(out, "[%d %d]", (int)piece.op, (int)piece.code);
        cay_buf_add(out, piece.data, piece.len);
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CAY_AUTO_BUF struct cay_buf whole = {0}, pieces = {0};
    if (size < 1)
        return 0;
    struct cay_ws one = {.unmasked = data[0] & 128}, many = one;
    int want = decode(&one, (const char *)data + 1, size - 1, size, &whole);
    int got = decode(&many, (const char *)data + 1, size - 1, data[0] % 16 + 1, &pieces);
    if (want != got || whole.len != pieces.len || one.text.len > CAY_WS_TEXT_MAX + 125)
        abort();
    if (whole.len > 0 && memcmp(whole.data, pieces.data, whole.len) != 0)
        abort();
    cay_ws_done(&one);
    cay_ws_done(&many);
    return 0;
}
