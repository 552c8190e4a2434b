/* SPDX-License-Identifier: Apache-2.0 */
#include "log/reader.h"
#include "log/writer.h"
#include "model/limits.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

static int open_in(const char *dir, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK("open", fd >= 0);
    return fd;
}

/* What a reader finds from the start. */
struct found {
    uint64_t bytes[2], dropped, skipped;
    int exits;
    bool in_order; /* byte i of stdout is i mod 251 where nothing is missing */
    int last;
};

static struct found read_all(int fd)
{
    struct found f = {.in_order = true};
    CAY_CLEANUP(cay_reader_rest) struct cay_reader r;
    struct cay_record rec;
    struct cay_error err = {0};
    cay_reader_init(&r, fd, 0);
    while ((f.last = cay_reader_next(&r, &rec, &err)) == CAY_READ_RECORD) {
        f.skipped += r.skipped;
        for (uint32_t i = 0; rec.kind == CAY_RECORD_STDOUT && !f.skipped && i < rec.len; i++)
            f.in_order &= (unsigned char)rec.data[i] == (f.bytes[0] + i) % 251;
        if (rec.kind == CAY_RECORD_STDOUT || rec.kind == CAY_RECORD_STDERR)
            f.bytes[rec.kind == CAY_RECORD_STDERR] += rec.len;
        if (rec.kind == CAY_RECORD_GAP) {
            uint64_t n;
            memcpy(&n, rec.data, sizeof n);
            f.dropped += n;
        }
        f.exits += rec.kind == CAY_RECORD_EXIT;
    }
    return f;
}

static unsigned char pattern[251 * 2048];

static void fill_pattern(void)
{
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (unsigned char)(i % 251);
}

static void begin(struct cay_writer *w, int fd, uint64_t cap)
{
    cay_writer_init(w, fd, cap, cap);
    CHECK("spec", cay_writer_record(w, CAY_RECORD_SPEC, "{\"command\":[]}", 14, 1));
}

TEST(log_writer_round_trip)
{
    static const size_t steps[] = {1, 7, 100, 4096, 65503, 65519, 65520, 65521, 65536, 200000};
    fill_pattern();
    for (size_t i = 0; i < COUNT(steps); i++) {
        char name[32];
        snprintf(name, sizeof name, "steps of %zu", steps[i]);
        CAY_AUTO_FD int fd = open_in(test_dir(), name);
        struct cay_writer w;
        struct cay_record_exit e = {.reason = CAY_REASON_EXITED};
        begin(&w, fd, 8 * CAY_MIB);
        const size_t total = 300000;
        const size_t limit = steps[i] * 20000 < total ? steps[i] * 20000 : total;
        for (size_t done = 0; done < limit;) {
            size_t n = steps[i] < limit - done ? steps[i] : limit - done;
            cay_writer_output(&w, CAY_RECORD_STDOUT, pattern + done, n, 2);
            done += n;
        }
        CHECK(name, cay_writer_record(&w, CAY_RECORD_EXIT, &e, sizeof e, 3));
        struct found f = read_all(fd);
        CHECK_EQ(name, f.last, CAY_READ_END);
        CHECK_EQ(name, f.bytes[0], limit);
        CHECK_EQ(name, f.exits, 1);
        CHECK(name, f.in_order && !f.skipped);
        CHECK_EQ(name, lseek(fd, 0, SEEK_END), (off_t)w.offset);
    }
}

/* Wherever a block has that much left, the exit record finds its place. */
TEST(log_writer_exit_at_any_place)
{
    for (uint32_t left = 0; left < 100; left++) {
        char name[32];
        snprintf(name, sizeof name, "%u left", left);
        CAY_AUTO_FD int fd = open_in(test_dir(), name);
        struct cay_writer w;
        struct cay_record_exit e = {.reason = CAY_REASON_EXITED};
        fill_pattern();
        begin(&w, fd, 8 * CAY_MIB);
        cay_writer_output(&w, CAY_RECORD_STDOUT, pattern, cay_record_room(w.offset) - left, 2);
        CHECK(name, cay_writer_record(&w, CAY_RECORD_EXIT, &e, sizeof e, 3));
        cay_writer_output(&w, CAY_RECORD_STDERR, "x", 1, 4);
        struct found f = read_all(fd);
        CHECK_EQ(name, f.exits, 1);
        CHECK_EQ(name, f.bytes[1], 1);
        CHECK_EQ(name, f.skipped, 0);
    }
}

TEST(log_writer_holds_its_cap)
{
    CAY_AUTO_FD int fd = open_in(test_dir(), "flood");
    struct cay_writer w;
    struct cay_record_exit e = {.reason = CAY_REASON_EXITED};
    struct stat st;
    const uint64_t cap = 512 * CAY_KIB;
    uint64_t most = 0;
    fill_pattern();
    begin(&w, fd, cap);
    for (int i = 0; i < 200; i++) {
        if (i == 100)
            CHECK("exit", cay_writer_record(&w, CAY_RECORD_EXIT, &e, sizeof e, 3));
        cay_writer_output(&w, CAY_RECORD_STDOUT, pattern, 60000, 2);
        CHECK_EQ("stat", fstat(fd, &st), 0);
        most = (uint64_t)st.st_blocks * 512 > most ? (uint64_t)st.st_blocks * 512 : most;
    }
    struct found f = read_all(fd);
    CHECK("never more than head, tail and a step", most <= 2 * cap + 4 * CAY_LOG_BLOCK);
    CHECK_EQ("the exit stays", f.exits, 1);
    CHECK("a hole is told", f.skipped > 8 * CAY_MIB);
    CHECK("head and tail are kept", f.bytes[0] > 2 * cap - 4 * CAY_LOG_BLOCK);
    CHECK_EQ("to the end", f.last, CAY_READ_END);
    CHECK("past the head", cay_writer_past_head(&w));
}

TEST(log_writer_full_disk)
{
    CAY_AUTO_FD int fd = -1;
    char path[128];
    struct cay_writer w;
    struct cay_record_exit e = {.reason = CAY_REASON_EXITED};
    snprintf(path, sizeof path, "%s/small", test_dir());
    CHECK_EQ("mkdir", mkdir(path, 0700), 0);
    if (mount("tmpfs", path, "tmpfs", 0, "size=512k") < 0) {
        printf("note: full disk not tested: %s\n", strerror(errno));
        return;
    }
    fd = open_in(path, "log");
    CAY_AUTO_FD int ballast = open_in(path, "ballast");
    CHECK_EQ("ballast", fallocate(ballast, 0, 0, 200 * CAY_KIB), 0);
    fill_pattern();
    begin(&w, fd, 8 * CAY_MIB);
    for (int i = 0; i < 10; i++)
        cay_writer_output(&w, CAY_RECORD_STDOUT, pattern, 251 * 240, 2);
    CHECK("some was dropped", w.dropped > 0 && w.gaps);
    for (int i = 0; i < 5000 && cay_writer_record(&w, CAY_RECORD_STDERR, "x", 1, 2); i++)
        ; /* fills the last page, with a GAP ahead */
    CHECK("no room for the exit", !cay_writer_record(&w, CAY_RECORD_EXIT, &e, sizeof e, 3));
    struct found f = read_all(fd);
    CHECK_EQ("whole up to here", f.last, CAY_READ_END);
    CHECK("whole up to here", f.in_order);
    CHECK_EQ("room", ftruncate(ballast, 0), 0);
    CHECK("retried", cay_writer_record(&w, CAY_RECORD_EXIT, &e, sizeof e, 3));
    f = read_all(fd);
    CHECK_EQ("the exit", f.exits, 1);
    CHECK_EQ("every byte is there or told", f.bytes[0] + f.dropped, 10 * 251 * 240);
    cay_close_fd(&fd);
    cay_close_fd(&ballast);
    CHECK_EQ("umount", umount2(path, MNT_DETACH), 0);
}
