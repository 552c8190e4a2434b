/* SPDX-License-Identifier: Apache-2.0 */
/* cay-file as a real pid 1 starts it. */
#include "file/proto.h"
#include "init/init.h"
#include "init/sut.h"
#include "tests/test.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#define WAIT_MS 20000 /* a failure, not a pace */

static void add(struct cay_buf *b, const char *s)
{
    cay_buf_add(b, s, strlen(s) + 1);
}

/* The result of the start; out is the pipe that it answers by. */
static int start(const struct sut *s, const char *user, const struct cay_file_request *rq,
                 uint64_t timeout_ms, int *out, int *in)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    struct cay_init_reply reply;
    int answer[2], data[2];
    add(&b, user);
    struct cay_init_request req = {.version = CAY_INIT_VERSION,
                                   .op = CAY_INIT_FILE,
                                   .flags = CAY_INIT_HAS_STDIN,
                                   .argc = cay_file_encode(rq, &b),
                                   .timeout_ms = timeout_ms};
    req.strings_len = (uint32_t)b.len;
    if (pipe2(answer, O_CLOEXEC) < 0 || pipe2(data, O_CLOEXEC) < 0)
        return -1;
    const int fds[] = {answer[1], data[0]};
    bool sent = sut_send_raw(s->conn, &req, sizeof req, b.data, b.len, fds, 2);
    (void)close(answer[1]);
    (void)close(data[0]);
    *out = answer[0];
    *in = data[1];
    return sent ? sut_receive(s->conn, &reply, NULL, 0) : -1;
}

/* The code of the reply, or -1 when there is none. */
static int finish(int *out, int *in, const struct cay_file_request *rq)
{
    struct cay_file_reply reply;
    char buf[4096];
    size_t len = 0;
    cay_close_fd(in);
    for (ssize_t n = 1; n > 0 && len<sizeof buf; len += n> 0 ? (size_t)n : 0) {
        struct pollfd p = {.fd = *out, .events = POLLIN};
        n = poll(&p, 1, WAIT_MS) == 1 ? read(*out, buf + len, sizeof buf - len) : -1;
    }
    cay_close_fd(out);
    return cay_file_reply_parse(buf, len, rq, &reply) ? (int)reply.code : -1;
}

TEST(init_starts_cay_file)
{
    static const struct {
        const char *what, *user, *path;
        int code;
    } cases[] = {
        {"root", "root", "/etc/shadow", CAY_FILE_OK},
        {"a user", "1000", "/etc/passwd", CAY_FILE_OK},
        {"not his", "1000", "/etc/shadow", CAY_FILE_PERMISSION},
        {"nobody there", "no-one-here", "/etc/passwd", CAY_FILE_NO_USER},
        {"pid 1's own", "65535", "/etc/passwd", CAY_FILE_NO_USER},
        {"no such file", "1000", "/no/such", CAY_FILE_NOT_FOUND},
    };
    struct sut s;
    if (!sut_begin(&s))
        return;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_file_request rq = {.op = CAY_FILE_READ, .path = cases[i].path, .length = 16};
        int out = -1, in = -1;
        CHECK_EQ(cases[i].what, start(&s, cases[i].user, &rq, 10000, &out, &in), CAY_INIT_OK);
        CHECK_EQ(cases[i].what, finish(&out, &in, &rq), cases[i].code);
    }
    sut_end(&s);
}

/* What stood in line while the sandbox stood still. */
TEST(init_does_no_file_work_that_was_given_up)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    const struct cay_file_request rq = {.op = CAY_FILE_MKDIR, .path = "/tmp/cay-given-up"};
    struct cay_init_reply reply;
    struct sut s;
    int answer[2];
    if (!sut_begin(&s))
        return;
    add(&b, "root");
    struct cay_init_request req = {.version = CAY_INIT_VERSION,
                                   .op = CAY_INIT_FILE,
                                   .argc = cay_file_encode(&rq, &b),
                                   .timeout_ms = 10000};
    req.strings_len = (uint32_t)b.len;
    CHECK("pipe", pipe2(answer, O_CLOEXEC) == 0);
    (void)close(answer[0]);
    CHECK("sent", sut_send_raw(s.conn, &req, sizeof req, b.data, b.len, &answer[1], 1));
    (void)close(answer[1]);
    CHECK_EQ("refused", sut_receive(s.conn, &reply, NULL, 0), CAY_INIT_BAD_REQUEST);
    struct sut_job j = {.script =
                            "test -e /tmp/cay-given-up && rmdir /tmp/cay-given-up && echo made"};
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CHECK_EQ("exec", sut_start(&s, &j), CAY_INIT_OK);
    (void)sut_await(&j, NULL, &a);
    CHECK_STR("nothing was made", sut_output(&j, CAY_RECORD_STDOUT, &a), "");
    cay_close_fd(&j.log_fd);
    sut_end(&s);
}

/* As many as there may be wait for data that does not come; then their time is over. */
TEST(init_bounds_cay_file)
{
    char dir[] = "/tmp/cay-file-XXXXXX", path[64], script[128];
    struct cay_file_request rq = {.op = CAY_FILE_WRITE, .path = path, .size = 1};
    int out[CAY_MAX_FILE_CALLS + 1], in[CAY_MAX_FILE_CALLS + 1];
    struct sut s;
    if (!sut_begin(&s))
        return;
    CHECK("a directory of its own", mkdtemp(dir) && chmod(dir, 0777) == 0);
    snprintf(path, sizeof path, "%s/never", dir);
    snprintf(script, sizeof script, "cd %s && ls -A | grep -c '^[.]cay-'; rm -f .cay-*", dir);
    for (size_t i = 0; i < CAY_MAX_FILE_CALLS; i++)
        CHECK_EQ("fits", start(&s, "root", &rq, test_ms(i ? 10000 : 300), &out[i], &in[i]),
                 CAY_INIT_OK);
    size_t last = CAY_MAX_FILE_CALLS;
    CHECK_EQ("one too many", start(&s, "root", &rq, 10000, &out[last], &in[last]),
             CAY_INIT_TOO_MANY);
    cay_close_fd(&out[last]);
    cay_close_fd(&in[last]);
    struct pollfd p = {.fd = out[0], .events = POLLIN};
    char byte;
    CHECK("killed in its time", poll(&p, 1, WAIT_MS) == 1 && read(out[0], &byte, 1) == 0);
    cay_close_fd(&out[0]);
    cay_close_fd(&in[0]);
    for (size_t i = 1; i < CAY_MAX_FILE_CALLS; i++)
        CHECK_EQ("ends with its data", finish(&out[i], &in[i], &rq), CAY_FILE_INCOMPLETE);
    struct sut_job j = {.script = script};
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CHECK_EQ("exec", sut_start(&s, &j), CAY_INIT_OK);
    (void)sut_await(&j, NULL, &a);
    CHECK_STR("only the killed one left its file", sut_output(&j, CAY_RECORD_STDOUT, &a), "1\n");
    CHECK_EQ("nothing else", rmdir(dir), 0);
    cay_close_fd(&j.log_fd);
    sut_end(&s);
}
