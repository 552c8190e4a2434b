/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a chunked body: cut anywhere, they decode to the same as in one piece. */
#include "http/chunk.h"
#include <string.h>

#define MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CAY_AUTO_BUF struct cay_buf whole = {0}, pieces = {0};
    struct cay_chunks one = {0}, many = {0};
    struct cay_error err;
    if (size < 1)
        return 0;
    size_t step = data[0] % 16 + 1, used = 0, at = 0, len = size - 1;
    const char *bytes = (const char *)data + 1;
    int want = cay_chunks_decode(&one, bytes, len, MAX, &whole, &used, &err), got = 0;
    while (got == 0 && at < len) {
        size_t n = len - at < step ? len - at : step, part = 0;
        got = cay_chunks_decode(&many, bytes + at, n, MAX, &pieces, &part, &err);
        at += part;
    }
    if (want != got || whole.len != pieces.len || whole.len > MAX || (want >= 0 && at != used))
        abort();
    if (whole.len > 0 && memcmp(whole.data, pieces.data, whole.len) != 0)
        abort();
    return 0;
}
