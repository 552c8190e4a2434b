/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is called a tar file: it ends, and no name in it is longer than it may be. */
#include "file/tar.h"
#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

static bool get(void *arg, void *data, size_t len)
{
    struct input *in = arg;
    if (len > in->left)
        return false;
    memcpy(data, in->at, len);
    in->at += len;
    in->left -= len;
    return true;
}

/* A fuzzer does not guess sums, so they are put right. */
static void mend(uint8_t *data, size_t size)
{
    for (size_t at = 0; at + CAY_TAR_BLOCK <= size; at += CAY_TAR_BLOCK) {
        unsigned sum = 8 * ' ';
        uint8_t *b = data + at;
        if (b[148] != 's') /* asks for it */
            continue;
        for (size_t i = 0; i < CAY_TAR_BLOCK; i++)
            sum += i >= 148 && i < 156 ? 0 : b[i];
        for (int i = 5; i >= 0; i--, sum >>= 3)
            b[148 + i] = (uint8_t)('0' + (sum & 7));
        b[154] = 0;
        b[155] = ' ';
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cay_tar_entry e;
    CAY_AUTO_BUF struct cay_buf copy = {0};
    cay_buf_add(&copy, data, size);
    mend((uint8_t *)copy.data, copy.len);
    struct input in = {(const uint8_t *)copy.data, copy.len};
    struct cay_tar t = {.get = get, .arg = &in};
    int r;
    while ((r = cay_tar_next(&t, &e)) > 0) {
        char byte;
        assert(strnlen(e.path, sizeof e.path) <= CAY_MAX_PATH);
        assert(strnlen(e.link, sizeof e.link) <= CAY_MAX_PATH);
        assert(e.mode <= 07777 && e.size <= INT64_MAX);
        if (e.size > 0)
            (void)cay_tar_read(&t, &byte, 1);
        assert(!cay_tar_read(&t, &byte, SIZE_MAX));
    }
    assert(r == 0 || t.why);
    return 0;
}
