/* SPDX-License-Identifier: Apache-2.0 */
/* The log's form is SQLite's documented one (walformat.html): a header, then frames, each a header
 * and a page, under a running checksum. The index begins with two copies of a header that says how
 * many frames are committed. The log's header is synced before its first frame is written, so one
 * that cannot be read ahead of frames is damage, whatever happened. */
#include "store/sqlite/wal.h"
#include "base/path.h"
#include "model/limits.h"
#include "store/sqlite/file.h"
#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WAL CAY_SQLITE_FILE "-wal"
#define SHM CAY_SQLITE_FILE "-shm"
#define HEADER_BYTES 32
#define FRAME_BYTES 24
#define MAGIC 0x377f0682u /* the lowest bit: checksums are over big-endian words */
#define INDEX_VERSION 3007000u
#define PAGE_MAX 65536u

struct wal {
    int fd;
    bool big_endian;
    uint32_t page_bytes, salt[2]; /* salts as they stand in the file */
    uint32_t sum[2];              /* up to the last frame that was read */
};

struct index { /* as it stands in the file, in the host's byte order */
    uint32_t version, unused, change;
    uint8_t is_init, big_endian;
    uint16_t page_size;
    uint32_t frames, pages, frame_sum[2], salt[2], sum[2];
};

static uint32_t word_at(const unsigned char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return be32toh(word);
}

static void add_sum(struct wal *w, const unsigned char *data, size_t len)
{
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint32_t x[2];
        memcpy(x, data + i, sizeof x);
        w->sum[0] += (w->big_endian ? be32toh(x[0]) : le32toh(x[0])) + w->sum[1];
        w->sum[1] += (w->big_endian ? be32toh(x[1]) : le32toh(x[1])) + w->sum[0];
    }
}

static bool sum_is(const struct wal *w, const unsigned char *told)
{
    return word_at(told) == w->sum[0] && word_at(told + 4) == w->sum[1];
}

static bool read_header(struct wal *w)
{
    unsigned char head[HEADER_BYTES];
    if (pread(w->fd, head, sizeof head, 0) != sizeof head || (word_at(head) & ~1u) != MAGIC)
        return false;
    w->big_endian = word_at(head) & 1;
    w->page_bytes = word_at(head + 8);
    if (w->page_bytes < 512 || w->page_bytes > PAGE_MAX || (w->page_bytes & (w->page_bytes - 1)))
        return false;
    memcpy(w->salt, head + 16, sizeof w->salt);
    add_sum(w, head, 24);
    return sum_is(w, head + 24);
}

/* How many frames from the first on are whole; at most `want`. */
static uint32_t count_frames(struct wal *w, uint32_t want)
{
    const size_t size = FRAME_BYTES + w->page_bytes;
    CAY_AUTO_FREE unsigned char *frame = malloc(size);
    if (!frame)
        abort();
    for (uint32_t i = 0; i < want; i++) {
        off_t at = HEADER_BYTES + (off_t)i * (off_t)size;
        if (pread(w->fd, frame, size, at) != (ssize_t)size ||
            memcmp(frame + 8, w->salt, sizeof w->salt) != 0)
            return i;
        add_sum(w, frame, 8);
        add_sum(w, frame + FRAME_BYTES, w->page_bytes);
        if (!sum_is(w, frame + 16))
            return i;
    }
    return want;
}

/* How many frames the index counts; 0 when it cannot tell. */
static uint32_t indexed_frames(int dir_fd)
{
    struct index copies[2];
    _Static_assert(sizeof copies == 96, "the two headers are 48 bytes each");
    CAY_AUTO_FD int fd = openat(dir_fd, SHM, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || pread(fd, copies, sizeof copies, 0) != sizeof copies ||
        memcmp(&copies[0], &copies[1], sizeof copies[0]) != 0)
        return 0;
    return copies[0].version == INDEX_VERSION && copies[0].is_init ? copies[0].frames : 0;
}

int cay_sqlite_wal_check(int dir_fd, bool use_index, struct cay_error *err)
{
    CAY_AUTO_FD int fd = openat(dir_fd, WAL, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot open " WAL);
    struct wal w = {.fd = fd};
    uint32_t want = use_index ? indexed_frames(dir_fd) : 0;
    bool readable = read_header(&w);
    if (!readable && (want > 0 || lseek(fd, 0, SEEK_END) > HEADER_BYTES))
        return cay_fail(err, CAY_ERR_STORE, WAL " is damaged: rows that it held are lost");
    uint32_t whole = readable ? count_frames(&w, want) : 0;
    if (whole < want)
        return cay_fail(err, CAY_ERR_STORE, WAL " is damaged: %u of its %u pages are whole", whole,
                        want);
    return 0;
}

void cay_sqlite_wal_reserve(int dir_fd)
{
    CAY_AUTO_FD int fd = openat(dir_fd, WAL, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    cay_path_reserve(fd, CAY_STORE_WAL_BYTES);
}
