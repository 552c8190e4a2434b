/* SPDX-License-Identifier: Apache-2.0 */
/* What a real pid 1 does with input and terminals. */
#include "init/sut.h"
#include "model/limits.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#define WINDOW(cols, rows) ((uint32_t)(cols) | (uint32_t)(rows) << 16)
#define WAIT_MS 20000

static struct sut s;
static struct sut_input in, other;

static const char *out(const struct sut_job *j, struct cay_arena *a)
{
    return sut_output(j, CAY_RECORD_STDOUT, a);
}

static void end_job(struct sut_job *j)
{
    cay_close_fd(&j->log_fd);
}

TEST(init_input_comes_in_order_and_closes_at_its_end)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct sut_job j = {.script = "cat; echo end", .open_stdin = true};
    (void)signal(SIGPIPE, SIG_IGN);
    if (!sut_begin(&s))
        return;
    CHECK_EQ("start", sut_start(&s, &j), CAY_INIT_OK);
    CHECK_EQ("first", sut_give_input(&s, &j, false, &in), CAY_INIT_OK);
    sut_write(&in, "one ");
    CHECK_EQ("second", sut_give_input(&s, &j, true, &other), CAY_INIT_OK);
    sut_end_input(&in, false);
    (void)sut_await(&j, "one ", &a);
    sut_write(&other, "two ");
    (void)sut_await(&j, "two ", &a);
    sut_end_input(&other, false);
    CHECK_EQ("open without the byte", sut_give_input(&s, &j, true, &in), CAY_INIT_OK);
    sut_write(&in, "three\n");
    sut_end_input(&in, true);
    (void)sut_await(&j, NULL, &a);
    CHECK_STR("all of it", out(&j, &a), "one two three\nend\n");
    CHECK_EQ("over", sut_give_input(&s, &j, true, &in), CAY_INIT_NO_SUCH_EXEC);
    sut_end_input(&in, false);
    end_job(&j);
    sut_end(&s);
}

TEST(init_input_is_held_up_by_who_does_not_read)
{
    static char block[256 * 1024];
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct sut_job deaf = {.script = "echo up; exec sleep 60", .open_stdin = true};
    struct sut_job j = {.script = "wc -c", .open_stdin = true};
    if (!sut_begin(&s))
        return;
    CHECK_EQ("deaf", sut_start(&s, &deaf), CAY_INIT_OK);
    CHECK_EQ("input", sut_give_input(&s, &deaf, true, &other), CAY_INIT_OK);
    (void)fcntl(other.fd, F_SETFL, O_NONBLOCK);
    ssize_t sent = 0, n;
    struct pollfd p = {.fd = other.fd, .events = POLLOUT};
    while (sent < (ssize_t)sizeof block && poll(&p, 1, 300) > 0 &&
           (n = write(other.fd, block, 4096)) > 0)
        sent += n;
    CHECK("stops its writer", sent >= 65536 && sent < (ssize_t)sizeof block);
    CHECK_EQ("another", sut_start(&s, &j), CAY_INIT_OK);
    CHECK_EQ("input", sut_give_input(&s, &j, true, &in), CAY_INIT_OK);
    for (int i = 0; i < 8; i++) /* more than all pipes on the way hold */
        CHECK_EQ("goes on", write(in.fd, block, sizeof block), sizeof block);
    sut_end_input(&in, true);
    (void)sut_await(&j, NULL, &a);
    CHECK_STR("all of it", out(&j, &a), "2097152\n");
    struct cay_init_request kill_it = {.op = CAY_INIT_KILL, .signal = SIGKILL};
    memcpy(kill_it.exec_id, deaf.id, sizeof kill_it.exec_id);
    CHECK_EQ("kill", sut_ask(s.conn, kill_it), CAY_INIT_OK);
    (void)sut_await(&deaf, NULL, &a);
    p.events = 0;
    CHECK("its writer is told", poll(&p, 1, WAIT_MS) > 0 && (p.revents & POLLERR));
    sut_end_input(&other, false);
    end_job(&deaf);
    end_job(&j);
    sut_end(&s);
}

TEST(init_input_is_refused_where_there_is_none)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct sut_input many[CAY_MAX_INPUTS];
    struct sut_job plain = {.script = "exec sleep 60"}, j = plain, closed = plain;
    struct cay_init_request resize = {.op = CAY_INIT_RESIZE, .window = WINDOW(80, 25)};
    j.open_stdin = closed.open_stdin = true;
    closed.script = "exec <&-; echo shut; exec sleep 60";
    if (!sut_begin(&s))
        return;
    CHECK_EQ("start", sut_start(&s, &plain), CAY_INIT_OK);
    CHECK_EQ("no input", sut_give_input(&s, &plain, false, &in), -EPIPE);
    sut_end_input(&in, false);
    CHECK_EQ("start", sut_start(&s, &j), CAY_INIT_OK);
    memcpy(resize.exec_id, j.id, sizeof resize.exec_id);
    CHECK_EQ("no terminal", sut_ask(s.conn, resize), CAY_INIT_NO_STREAM);
    for (int i = 0; i < CAY_MAX_INPUTS; i++)
        CHECK_EQ("as many as may", sut_give_input(&s, &j, i % 2, &many[i]), CAY_INIT_OK);
    CHECK_EQ("one too many", sut_give_input(&s, &j, false, &in), -EBUSY);
    sut_end_input(&in, false);
    sut_end_input(&many[7], false);
    while (sut_give_input(&s, &j, false, &in) == -EBUSY) /* pid 1 sees the end in its own time */
        sut_end_input(&in, false);
    sut_end_input(&in, false);
    for (int i = 0; i < CAY_MAX_INPUTS; i++)
        sut_end_input(&many[i], false);
    CHECK_EQ("start", sut_start(&s, &closed), CAY_INIT_OK);
    (void)sut_await(&closed, "shut", &a);
    int r = CAY_INIT_OK;
    while ((r = sut_give_input(&s, &closed, false, &in)) == CAY_INIT_OK)
        sut_end_input(&in, false);
    CHECK_EQ("it closed its stdin", r, -EPIPE);
    sut_end_input(&in, false);
    end_job(&plain);
    end_job(&j);
    end_job(&closed);
    sut_end(&s);
}

static const struct {
    const char *what, *script, *out;
} terminals[] = {
    {"is one", "tty; test -t 0 && test -t 1 && test -t 2 && echo all", "/dev/pts/0\r\nall\r\n"},
    {"has its size", "stty size", "25 80\r\n"},
    {"is the user's", "stat -c %u:%a $(tty); ps -o tty= -p $$", "1000:620\r\npts/0\r\n"},
    {"is its controlling one", "echo hi >/dev/tty; echo $TERM", "hi\r\nxterm-256color\r\n"},
    {"takes stderr too", "echo a; echo b >&2; echo c", "a\r\nb\r\nc\r\n"},
    {"may be closed and opened again",
     "exec 3<&0 <&- >&- 2>&- 3<&-; exec 0</dev/tty 1>/dev/tty; echo again", "again\r\n"},
    {"its last words are before the exit", "seq 1 3; exec printf 'last'", "1\r\n2\r\n3\r\nlast"},
};

TEST(init_terminal)
{
    if (!sut_begin(&s))
        return;
    for (size_t i = 0; i < COUNT(terminals); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct sut_job j = {
            .script = terminals[i].script, .window = WINDOW(80, 25), .user = "1000"};
        CHECK_EQ(terminals[i].what, sut_start(&s, &j), CAY_INIT_OK);
        struct cay_execution x = sut_await(&j, NULL, &a);
        CHECK_EQ(terminals[i].what, x.exit_code, 0);
        CHECK_STR(terminals[i].what, out(&j, &a), terminals[i].out);
        end_job(&j);
    }
    sut_end(&s);
}

TEST(init_terminal_is_typed_on_resized_and_ended)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct sut_job j = {.name = "sh", .env = "PS1=> ", .window = WINDOW(80, 25)};
    struct cay_init_request resize = {.op = CAY_INIT_RESIZE, .window = WINDOW(132, 50)};
    if (!sut_begin(&s))
        return;
    CHECK_EQ("start", sut_start(&s, &j), CAY_INIT_OK);
    CHECK_EQ("input", sut_give_input(&s, &j, true, &in), CAY_INIT_OK);
    sut_write(&in, "echo $((40 + 2))\n");
    (void)sut_await(&j, "42\r\n", &a);
    sut_write(&in, "trap 'echo resized' WINCH; echo re''ady\n");
    (void)sut_await(&j, "ready\r\n", &a);
    memcpy(resize.exec_id, j.id, sizeof resize.exec_id);
    CHECK_EQ("resize", sut_ask(s.conn, resize), CAY_INIT_OK);
    sut_write(&in, "stty size\n");
    (void)sut_await(&j, "50 132\r\n", &a);
    (void)sut_await(&j, "resized\r\n", &a);
    sut_write(&in, "sh -c 'echo go\"\"ing; exec sleep 60'\n");
    (void)sut_await(&j, "going\r\n", &a);
    sut_write(&in, "\003"); /* and with it goes what was typed ahead */
    (void)sut_await(&j, "^C", &a);
    sut_write(&in, "echo came ba''ck $?\n");
    (void)sut_await(&j, "came back 130\r\n", &a);
    CHECK_EQ("beside", sut_give_input(&s, &j, false, &other), CAY_INIT_OK);
    sut_write(&other, "echo an''other\n");
    (void)sut_await(&j, "another\r\n", &a);
    sut_write(&in, "cat\nbye");
    sut_end_input(&in, true);
    (void)sut_await(&j, "byebye", &a);
    sut_write(&other, "exit 7\n");
    struct cay_execution x = sut_await(&j, NULL, &a);
    CHECK_EQ("its own status", x.exit_code, 7);
    sut_end_input(&other, false);
    end_job(&j);
    sut_end(&s);
}

TEST(init_terminal_needs_a_size_and_no_other_input)
{
    struct sut_job none = {.script = ":", .window = WINDOW(0, 25)};
    struct sut_job large = {.script = ":", .window = WINDOW(80, CAY_MAX_WINDOW + 1)};
    struct sut_job both = {.script = ":", .window = WINDOW(80, 25), .open_stdin = true};
    if (!sut_begin(&s))
        return;
    CHECK_EQ("no columns", sut_start(&s, &none), CAY_INIT_BAD_REQUEST);
    CHECK_EQ("too large", sut_start(&s, &large), CAY_INIT_BAD_REQUEST);
    CHECK_EQ("two kinds", sut_start(&s, &both), CAY_INIT_BAD_REQUEST);
    end_job(&none);
    end_job(&large);
    end_job(&both);
    sut_end(&s);
}
