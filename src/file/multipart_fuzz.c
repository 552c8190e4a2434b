/* SPDX-License-Identifier: Apache-2.0 */
/* A form cut in two ways gives the same parts and the same data. */
#include "file/multipart.h"
#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    size_t parts, bytes;
    uint32_t sum;
    enum cay_multipart_what last;
};

static struct seen run(const char *data, size_t size, size_t step)
{
    static struct cay_multipart m;
    struct seen s = {0};
    assert(cay_multipart_init(&m, "b"));
    for (size_t at = 0; at < size; at += step) {
        const char *in = data + at;
        size_t left = size - at < step ? size - at : step;
        while (left > 0) {
            s.last = cay_multipart_next(&m, &in, &left);
            if (s.last == CAY_MULTIPART_END || s.last == CAY_MULTIPART_BAD)
                return s;
            s.parts += s.last == CAY_MULTIPART_PART;
            if (s.last != CAY_MULTIPART_DATA)
                continue;
            assert(memchr(m.name, 0, sizeof m.name) && memchr(m.file, 0, sizeof m.file));
            for (size_t i = 0; i < m.len; i++)
                s.sum = s.sum * 31 + (uint8_t)m.data[i];
            s.bytes += m.len;
        }
    }
    s.last = CAY_MULTIPART_NEED;
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen one = run((const char *)data, size, 1);
    struct seen all = run((const char *)data, size, size ? size : 1);
    assert(one.parts == all.parts && one.last == all.last);
    assert(one.bytes == all.bytes && one.sum == all.sum);
    assert(one.bytes <= size);
    return 0;
}
