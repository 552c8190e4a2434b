/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the head of a service's answer: what goes on of it must be lines that the same
 * parser takes again, and none of those that must not pass. */
#include "http/forward.h"
#include "http/parse.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const never[] = {
    "\r\nstrict-transport-security:", "\r\nclear-site-data:", "\r\nservice-worker-allowed:",
    "\r\ntransfer-encoding:",         "\r\ncontent-length:",  "\r\nconnection:"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    CAY_AUTO_BUF struct cay_buf twice = {0};
    struct cay_forward how = {.host = "localhost:3000", .cookie = "cay-preview"};
    struct cay_forward_answer answer, again;
    struct cay_error err = {0};
    size_t scanned = 0;
    const char *text = (const char *)data;
    int used = cay_parse_scan(text, size, &scanned, &err);
    if (used <= 0)
        return 0;
    if (size % 2)
        memcpy(how.prefix, "/p/sb-0/3000", sizeof "/p/sb-0/3000");
    int r = cay_forward_answer(&how, text, (size_t)used, size % 3 == 0, &answer, &out, &err);
    if (r < 0) {
        if (err.code != CAY_ERR_PROVIDER || out.len > 0)
            __builtin_trap();
        return 0;
    }
    if (memchr(out.data, 0, out.len) || memcmp(out.data + out.len - 2, "\r\n", 2) != 0)
        __builtin_trap();
    cay_buf_adds(&out, "\r\n");
    for (size_t i = 0; i < CAY_COUNT(never); i++)
        if (memmem(out.data, out.len, never[i], strlen(never[i])))
            __builtin_trap();
    scanned = 0;
    if (cay_parse_scan(out.data, out.len, &scanned, &err) != (int)out.len && out.len < 32768)
        __builtin_trap();
    if (cay_forward_answer(&how, out.data, out.len, true, &again, &twice, &err) < 0 ||
        again.status != answer.status)
        __builtin_trap();
    return 0;
}
