/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "log/reader.h"
#include "log/writer.h"
#include "model/limits.h"
#include "tests/test.h"
#include <stdio.h>
#include <sys/mman.h>

static const char spec[] = "{\"command\":[\"echo\",\"hi\"],\"text\":\"echo hi\"}";

static int new_log(struct cay_writer *w)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    cay_writer_init(w, fd, CAY_LOG_BLOCK, CAY_LOG_BLOCK);
    CHECK("spec", cay_writer_record(w, CAY_RECORD_SPEC, spec, sizeof spec - 1, 1000));
    return fd;
}

TEST(log_reader_resumes_anywhere)
{
    struct cay_writer w;
    CAY_AUTO_FD int fd = new_log(&w);
    bool starts[600] = {0};
    starts[0] = true;
    for (int i = 0; i < 10; i++) {
        starts[w.offset] = true;
        cay_writer_output(&w, i % 2 ? CAY_RECORD_STDERR : CAY_RECORD_STDOUT, "0123456789",
                          (size_t)i + 1, 2000);
    }
    starts[w.offset] = true;
    for (uint64_t at = 0; at < w.offset + 5; at++) {
        char what[32];
        struct cay_reader r;
        struct cay_record rec;
        struct cay_error err = {0};
        cay_reader_init(&r, fd, at);
        int got = cay_reader_next(&r, &rec, &err);
        (void)snprintf(what, sizeof what, "offset %d", (int)at);
        CHECK_EQ(what, got,
                 !starts[at]      ? CAY_ERR_INVALID
                 : at == w.offset ? CAY_READ_END
                                  : CAY_READ_RECORD);
        if (got == CAY_READ_RECORD)
            CHECK_EQ(what, rec.offset, at);
        cay_reader_rest(&r);
    }
}

TEST(log_reader_follows)
{
    struct cay_writer w;
    CAY_AUTO_FD int fd = new_log(&w);
    struct cay_reader r;
    struct cay_record rec;
    struct cay_error err = {0};
    cay_reader_init(&r, fd, 0);
    CHECK_EQ("spec", cay_reader_next(&r, &rec, &err), CAY_READ_RECORD);
    CHECK_EQ("no more yet", cay_reader_next(&r, &rec, &err), CAY_READ_END);
    for (int i = 0; i < 5000; i++) {
        cay_writer_output(&w, CAY_RECORD_STDOUT, "some bytes", 10, 2000);
        CHECK_EQ("one", cay_reader_next(&r, &rec, &err), CAY_READ_RECORD);
        CHECK_EQ("one", rec.len, 10);
        CHECK_EQ("no more", cay_reader_next(&r, &rec, &err), CAY_READ_END);
        if (i % 3 == 0)
            cay_reader_rest(&r);
    }
    /* a record that comes in two halves is seen whole or not at all */
    struct cay_record_head head = {.kind = CAY_RECORD_STDOUT, .version = 1, .len = 4};
    CHECK_EQ("half", pwrite(fd, &head, 9, (off_t)w.offset), 9);
    CHECK_EQ("half a head", cay_reader_next(&r, &rec, &err), CAY_READ_END);
    CHECK_EQ("half", pwrite(fd, &head, sizeof head, (off_t)w.offset), sizeof head);
    CHECK_EQ("no bytes", cay_reader_next(&r, &rec, &err), CAY_READ_END);
    CHECK_EQ("rest", pwrite(fd, "abcd", 4, (off_t)w.offset + 16), 4);
    CHECK_EQ("whole", cay_reader_next(&r, &rec, &err), CAY_READ_RECORD);
    CHECK_EQ("whole", memcmp(rec.data, "abcd", 4), 0);
    cay_reader_rest(&r);
}

TEST(log_reader_headers_only)
{
    static char bytes[50000];
    struct cay_writer w;
    CAY_AUTO_FD int fd = new_log(&w);
    struct cay_reader r;
    struct cay_record rec;
    struct cay_error err = {0};
    uint64_t total = 0;
    w.head_bytes = w.punched = 16 * CAY_MIB;
    for (size_t i = 0; i < 40; i++)
        cay_writer_output(&w, CAY_RECORD_STDOUT, bytes, i % 2 ? 3 : sizeof bytes, 2000);
    cay_reader_init(&r, fd, 0);
    r.headers_only = true;
    while (cay_reader_next(&r, &rec, &err) == CAY_READ_RECORD)
        total += rec.kind == CAY_RECORD_STDOUT ? rec.len : 0;
    CHECK_EQ("all of it", total, 20 * (sizeof bytes + 3));
    cay_reader_rest(&r);
    CHECK_EQ("cut", ftruncate(fd, (off_t)w.offset - 1), 0);
    cay_reader_init(&r, fd, 0);
    r.headers_only = true;
    total = 0;
    while (cay_reader_next(&r, &rec, &err) == CAY_READ_RECORD)
        total += rec.kind == CAY_RECORD_STDOUT ? rec.len : 0;
    CHECK_EQ("but the last", total, 20 * (sizeof bytes + 3) - 3);
    cay_reader_rest(&r);
}

static const struct {
    const char *name;
    struct cay_record_head head;
} broken[] = {
    {"a kind nobody knows", {.kind = 9, .version = 1, .len = 1}},
    {"another version", {.kind = CAY_RECORD_STDOUT, .version = 2, .len = 1}},
    {"longer than its block", {.kind = CAY_RECORD_STDOUT, .version = 1, .len = 65536}},
    {"longest of all", {.kind = CAY_RECORD_STDOUT, .version = 1, .len = UINT32_MAX}},
    {"a second spec", {.kind = CAY_RECORD_SPEC, .version = 1, .len = 1}},
    {"a gap of a byte", {.kind = CAY_RECORD_GAP, .version = 1, .len = 1}},
    {"half an exit", {.kind = CAY_RECORD_EXIT, .version = 1, .len = 8}},
};

TEST(log_reader_refuses)
{
    for (size_t i = 0; i < COUNT(broken); i++) {
        struct cay_writer w;
        CAY_AUTO_FD int fd = new_log(&w);
        struct cay_reader r;
        struct cay_record rec;
        struct cay_error err = {0};
        CHECK_EQ(broken[i].name, pwrite(fd, &broken[i].head, 16, (off_t)w.offset), 16);
        CHECK_EQ(broken[i].name, ftruncate(fd, 1 << 20), 0);
        cay_reader_init(&r, fd, 0);
        CHECK_EQ(broken[i].name, cay_reader_next(&r, &rec, &err), CAY_READ_RECORD);
        CHECK_EQ(broken[i].name, cay_reader_next(&r, &rec, &err), CAY_ERR_INTERNAL);
        CHECK_STR(broken[i].name, err.name, "LOG_DAMAGED");
        cay_reader_rest(&r);
    }
}

/* Work is bounded however large a file claims to be. */
TEST(log_reader_steps_over_holes)
{
    struct cay_writer w;
    CAY_AUTO_FD int fd = new_log(&w);
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_reader r;
    struct cay_record rec;
    struct cay_error err = {0};
    struct cay_execution x = {0};
    const uint64_t far = (1ULL << 42);
    struct cay_record_head head = {.kind = CAY_RECORD_STDERR, .version = 1, .len = 3};
    int64_t start = cay_clock_mono_ms();
    CHECK_EQ("far", pwrite(fd, &head, 16, (off_t)far), 16);
    CHECK_EQ("far", pwrite(fd, "end", 3, (off_t)far + 16), 3);
    uint64_t from = w.offset;
    cay_reader_init(&r, fd, from);
    CHECK_EQ("over the hole", cay_reader_next(&r, &rec, &err), CAY_READ_RECORD);
    CHECK_EQ("to its end", rec.offset, far);
    CHECK_EQ("and told", r.skipped, far - from);
    CHECK_EQ("once", cay_reader_next(&r, &rec, &err), CAY_READ_END);
    CHECK_EQ("once", r.skipped, 0);
    CHECK_EQ("summary", cay_log_summary(fd, &a, &x, &err), 0);
    CHECK("truncated", x.truncated && x.stderr_bytes == 3 && x.status == CAY_EXEC_RUNNING);
    CHECK_EQ("a hole to the end", ftruncate(fd, 1LL << 43), 0);
    CHECK_EQ("waits", cay_reader_next(&r, &rec, &err), CAY_READ_END);
    cay_reader_rest(&r);
    CHECK("soon", cay_clock_mono_ms() - start < 1000);
}

static const struct {
    const char *name;
    size_t before, after; /* bytes of output around the exit */
    bool truncated;
} sums[] = {
    {"small", 10, 0, false},
    {"one block and a bit", 70000, 0, false},
    {"punched", 1000000, 0, true},
    {"noise after the exit", 10, 300000, false},
    {"all of it", 1000000, 1000000, true},
};

/* Wherever in a block its last record ends up. */
TEST(log_summary_finds_the_exit_at_a_border)
{
    static char bytes[CAY_LOG_BLOCK];
    for (size_t n = CAY_LOG_BLOCK - 400; n < CAY_LOG_BLOCK; n++) {
        struct cay_writer w;
        CAY_AUTO_FD int fd = new_log(&w);
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_execution x = {0};
        struct cay_record_exit e = {.reason = CAY_REASON_EXITED, .stdout_bytes = n};
        cay_writer_output(&w, CAY_RECORD_STDOUT, bytes, n, 2);
        CHECK("exit", cay_writer_record(&w, CAY_RECORD_EXIT, &e, sizeof e, 3));
        CHECK_EQ("summary", cay_log_summary(fd, &a, &x, &err), 0);
        CHECK_EQ("it has ended", x.status, CAY_EXEC_EXITED);
        CHECK_EQ("having said so much", x.stdout_bytes, n);
    }
}

TEST(log_summary_finds_the_exit)
{
    static char bytes[1000000];
    for (size_t i = 0; i < COUNT(sums); i++) {
        struct cay_writer w;
        CAY_AUTO_FD int fd = new_log(&w);
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_execution x = {0};
        struct cay_record_exit e = {.reason = CAY_REASON_TIMEOUT,
                                    .signal = 15,
                                    .stdout_bytes = sums[i].before,
                                    .duration_us = 5000};
        for (size_t at = 0; at < sums[i].before; at += 10000)
            cay_writer_output(&w, CAY_RECORD_STDOUT, bytes,
                              sums[i].before < 10000 ? sums[i].before : 10000, 2);
        CHECK_EQ(sums[i].name, cay_log_summary(fd, &a, &x, &err), 0);
        CHECK_EQ(sums[i].name, x.status, CAY_EXEC_RUNNING);
        CHECK_EQ(sums[i].name, x.truncated, sums[i].truncated);
        CHECK(sums[i].name, cay_writer_record(&w, CAY_RECORD_EXIT, &e, sizeof e, 3000));
        for (size_t at = 0; at < sums[i].after; at += 10000)
            cay_writer_output(&w, CAY_RECORD_STDOUT, bytes, 10000, 4);
        CHECK_EQ(sums[i].name, cay_log_summary(fd, &a, &x, &err), 0);
        CHECK_EQ(sums[i].name, x.status, CAY_EXEC_EXITED);
        CHECK_STR(sums[i].name, x.reason, "timeout");
        CHECK_EQ(sums[i].name, x.exit_code, 143);
        CHECK_EQ(sums[i].name, x.stdout_bytes, sums[i].before);
        CHECK_EQ(sums[i].name, x.truncated, sums[i].truncated);
        CHECK_EQ(sums[i].name, x.started_at_ms, 1000);
        CHECK_EQ(sums[i].name, x.ended_at_ms, 3000);
        CHECK_EQ(sums[i].name, x.argv.count, 2);
        CHECK_STR(sums[i].name, x.text, "echo hi");
    }
}
