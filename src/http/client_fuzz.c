/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an answer: fed whole and byte by byte, both must come to the same end. */
#include "base/buf.h"
#include "http/reply.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    struct cay_reply reply;
    struct cay_buf body;
    size_t used;
    int r;
};

static int gather(void *arg, const struct cay_reply *reply, const char *data, size_t len,
                  struct cay_error *err)
{
    (void)reply, (void)err;
    cay_buf_add(arg, data, len);
    return 0;
}

static void feed(struct result *out, const char *data, size_t size, size_t step)
{
    struct cay_error err = {0};
    cay_reply_init(&out->reply);
    out->body = (struct cay_buf){0};
    out->used = 0;
    out->r = 0;
    while (out->used < size && out->r >= 0 && out->reply.state != CAY_REPLY_DONE) {
        size_t used = 0, left = size - out->used;
        out->r = cay_reply_feed(&out->reply, data + out->used, left < step ? left : step, gather,
                                &out->body, &used, &err);
        out->used += used;
        if (out->r < 0 && (err.code != out->r || !err.msg[0]))
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct result whole, bytes;
    feed(&whole, (const char *)data, size, size);
    feed(&bytes, (const char *)data, size, 1);
    if (whole.r != bytes.r || whole.reply.state != bytes.reply.state ||
        whole.body.len != bytes.body.len || (whole.r >= 0 && whole.used != bytes.used) ||
        (whole.body.len && memcmp(whole.body.data, bytes.body.data, whole.body.len) != 0))
        __builtin_trap();
    cay_buf_done(&whole.body);
    cay_buf_done(&bytes.body);
    return 0;
}
