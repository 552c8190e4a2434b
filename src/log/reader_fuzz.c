/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a log, at any offset, with holes: the first bytes say where, the rest is the file.
 */
#include "log/reader.h"
#include "model/limits.h"
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CALLS_MAX 100000

static volatile unsigned touched; /* so that every byte handed out is looked at */

static void read_from(int fd, uint64_t offset, bool headers_only)
{
    CAY_CLEANUP(cay_reader_rest) struct cay_reader r;
    struct cay_record rec;
    struct cay_error err;
    cay_reader_init(&r, fd, offset);
    r.headers_only = headers_only;
    for (int calls = 0; cay_reader_next(&r, &rec, &err) == CAY_READ_RECORD; calls++) {
        if (rec.next <= rec.offset || rec.offset < offset || r.offset != rec.next ||
            calls > CALLS_MAX)
            __builtin_trap();
        for (uint32_t i = 0; rec.data && i < rec.len; i++)
            touched += rec.data[i];
        offset = rec.next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct {
        uint32_t offset;
        uint8_t gap_blocks, gap_shift, first_len, flags;
    } plan;
    static int fd = -1;
    if (size < sizeof plan)
        return 0;
    memcpy(&plan, data, sizeof plan);
    data += sizeof plan;
    size -= sizeof plan;
    if (fd < 0)
        fd = memfd_create("log", MFD_CLOEXEC);
    size_t first = (size_t)plan.first_len * 16 < size ? (size_t)plan.first_len * 16 : size;
    off_t second = ((off_t)plan.gap_blocks << (plan.gap_shift % 32)) * CAY_LOG_BLOCK;
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, first, 0) < 0 ||
        pwrite(fd, data + first, size - first, second) < 0)
        return 0;
    if (plan.flags & 1 && ftruncate(fd, second + (1LL << 40)) < 0)
        return 0;
    read_from(fd, 0, false);
    read_from(fd, 0, true);
    read_from(fd, plan.offset, plan.flags & 2);

    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err;
    struct cay_execution x = {0};
    (void)cay_log_summary(fd, &a, &x, &err);
    return 0;
}
