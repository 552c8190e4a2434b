/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/talk.h"
#include "base/clock.h"
#include "base/id.h"
#include "cli/follow.h"
#include "http/websocket.h"
#include "model/limits.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>

#define PIECE 16384
#define UNSENT_MAX (64 * 1024)
#define SILENCE_MS 60000 /* three pings missed */

struct talk {
    struct cay_cli *cli;
    struct cay_talk what;
    struct cay_wire wire;
    struct cay_ws decoder;
    struct cay_buf in, out;
    char execution[CAY_ID_SIZE];
    char offset[64]; /* where the bytes began that came since, and how many came */
    uint64_t skip;
    int output_fd;
    bool begun;      /* there was a server: it may come back */
    bool input_over; /* of ours, or nobody takes any */
    bool ended;
    int status, signals;
    int64_t heard_ms;
};

static struct termios before; /* for the way out by exit() */
static bool is_raw;

static void restore(void)
{
    if (is_raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before); /* gone with the terminal, if it fails */
    is_raw = false;
}

static int make_raw(struct cay_error *err)
{
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return cay_fail(err, CAY_ERR_INVALID, "our own input is no terminal");
    raw = before;
    cfmakeraw(&raw);
    (void)atexit(restore);
    is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
    return is_raw ? 0 : cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot set our own terminal");
}

/* Beside what ends us: our own window has another size. */
static int catch_resize(struct cay_cli *cli, struct cay_error *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || signalfd(cli->signal_fd, &set, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot catch signals");
    return 0;
}

static uint16_t bound(unsigned value, unsigned otherwise)
{
    value = value ? value : otherwise;
    return (uint16_t)(value < CAY_MAX_WINDOW ? value : CAY_MAX_WINDOW);
}

void cay_talk_window(int *cols_out, int *rows_out)
{
    struct winsize size = {0};
    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size); /* then the usual one */
    *cols_out = bound(size.ws_col, CAY_DEFAULT_COLS);
    *rows_out = bound(size.ws_row, CAY_DEFAULT_ROWS);
}

static void send_frame(struct talk *t, enum cay_ws_op op, const void *data, size_t len)
{
    unsigned char mask[4] = {0};
    (void)!getrandom(mask, sizeof mask, 0); /* against caches on the way, not for secrecy */
    cay_ws_frame(&t->out, op, data, len, mask);
}

static void say(struct talk *t, const char *message)
{
    send_frame(t, CAY_WS_TEXT, message, strlen(message));
}

static void say_size(struct talk *t)
{
    char message[64];
    int cols, rows;
    cay_talk_window(&cols, &rows);
    (void)snprintf(message, sizeof message, "{\"type\":\"resize\",\"cols\":%d,\"rows\":%d}", cols,
                   rows);
    say(t, message);
}

/* By a call of its own: on a connection that we close, the last words may be lost. */
static void send_signal(struct talk *t, const char *name)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    const struct cay_json *answer;
    struct cay_error ignored; /* it may have ended by itself */
    const char *path = cay_remote_path(t->cli, "sandbox", t->what.sandbox, "exec", t->execution,
                                       "kill", (const char *)NULL);
    cay_buf_addf(&body, "{\"signal\":\"%s\"}", name);
    (void)cay_remote_call(t->cli, "POST", path, &body, CAY_FOLLOW_GRACE_MS, &answer, &ignored);
}

static void leave(struct talk *t, int number)
{
    t->ended = true;
    t->status = CAY_EXIT_SIGNAL + number;
}

/* The first signal is passed on, a second one kills, at the third we go. A terminal that is taken
 * away from us hangs up. */
static void pass_signal(struct talk *t, int number)
{
    if (number == SIGWINCH) {
        say_size(t);
        return;
    }
    if (t->what.tty) {
        send_signal(t, "SIGHUP");
        leave(t, number);
        return;
    }
    if (t->signals++ > 1)
        leave(t, number);
    else
        send_signal(t, t->signals > 1      ? "SIGKILL"
                       : number == SIGTERM ? "SIGTERM"
                       : number == SIGHUP  ? "SIGHUP"
                                           : "SIGINT");
}

/* False with errno set. */
static bool write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (n < 0 && errno != EINTR)
            return false;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Whoever has nobody to write to any more ends, and so does the command. */
static int take_output(struct talk *t, const char *data, size_t len, struct cay_error *err)
{
    t->skip += len;
    if (write_all(t->output_fd, data, len))
        return 0;
    if (errno != EPIPE)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write the output");
    send_signal(t, "SIGKILL");
    leave(t, SIGPIPE);
    return 0;
}

static void take_place(struct talk *t, const struct cay_json *m)
{
    const struct cay_json *offset = cay_json_get(m, "offset");
    if (offset && offset->len < sizeof t->offset)
        cay_str_copy(t->offset, sizeof t->offset, offset->text);
    t->skip = (uint64_t)cay_json_get_int(m, "skip", 0);
    bool other = strcmp(cay_json_get_str(m, "stream", ""), "stderr") == 0;
    t->output_fd = other ? STDERR_FILENO : STDOUT_FILENO;
}

/* A command that takes no input, or no more: as in a shell's pipe nobody is told. */
static void take_error(struct talk *t, const struct cay_json *m)
{
    const char *code = cay_json_get_str(m, "code", "");
    if (strcmp(code, "STDIN_CLOSED") == 0 || strcmp(code, "EXECUTION_NOT_RUNNING") == 0)
        t->input_over = true;
    else
        fprintf(stderr, "cay: %s (%s)%s", cay_json_get_str(m, "message", "an error"), code,
                t->what.tty ? "\r\n" : "\n");
}

static int take_message(struct talk *t, const char *text, size_t len, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const struct cay_json *m;
    int r = cay_json_parse(&a, text, len, &m, err);
    if (r < 0 || m->kind != CAY_JSON_OBJECT)
        return cay_fail(err, CAY_ERR_PROVIDER, "the stream is not as agreed");
    const char *type = cay_json_get_str(m, "type", "");
    if (strcmp(type, "start") == 0) {
        cay_str_copy(t->execution, sizeof t->execution, cay_json_get_str(m, "id", ""));
        take_place(t, m);
    } else if (strcmp(type, "output") == 0) {
        take_place(t, m);
    } else if (strcmp(type, "error") == 0) {
        take_error(t, m);
    } else if (strcmp(type, "gap") == 0 && !t->what.tty) {
        fprintf(stderr, "cay: %lld bytes of output were not kept\n",
                (long long)cay_json_get_int(m, "bytes", 0));
    } else if (strcmp(type, "exit") == 0) {
        t->ended = true;
        return cay_follow_exit(m, &t->status, err);
    }
    return 0; /* what a later server says is not for us */
}

static int lost(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_UNAVAILABLE, "CONNECTION_LOST",
                       "the connection to the server broke");
}

static int take_frames(struct talk *t, struct cay_error *err)
{
    size_t at = 0;
    int r = 0;
    while (r == 0 && !t->ended) {
        struct cay_ws_piece p;
        size_t used = 0;
        int got = cay_ws_decode(&t->decoder, t->in.data + at, t->in.len - at, &used, &p);
        at += used;
        if (got < 0)
            r = cay_fail(err, CAY_ERR_PROVIDER, "the server's frames are not in order");
        if (got <= 0)
            break;
        if (p.op == CAY_WS_BINARY)
            r = take_output(t, p.data, p.len, err);
        else if (p.op == CAY_WS_TEXT)
            r = take_message(t, p.data, p.len, err);
        else if (p.op == CAY_WS_PING)
            send_frame(t, CAY_WS_PONG, p.data, p.len);
        else if (p.op == CAY_WS_CLOSE)
            r = lost(err);
    }
    cay_buf_drop(&t->in, at);
    return r;
}

static int receive(struct talk *t, struct cay_error *err)
{
    ssize_t n = cay_wire_recv(&t->wire, cay_buf_room(&t->in, PIECE), PIECE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return lost(err);
    t->in.len += (size_t)n;
    t->heard_ms = cay_clock_mono_ms();
    return take_frames(t, err);
}

static int flush(struct talk *t, struct cay_error *err)
{
    while (t->out.len > 0) {
        struct iovec iov = {t->out.data, t->out.len};
        ssize_t n = cay_wire_send(&t->wire, &iov, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : lost(err);
        cay_buf_drop(&t->out, (size_t)n);
    }
    return 0;
}

static void read_input(struct talk *t)
{
    char data[PIECE];
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        send_frame(t, CAY_WS_BINARY, data, (size_t)n);
        return;
    }
    t->input_over = true;
    say(t, "{\"type\":\"eof\"}");
}

static int connect_to(struct talk *t, struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    const char *path = t->what.path;
    if (!path || t->execution[0]) {
        path = cay_remote_path(t->cli, "sandbox", t->what.sandbox, "exec", t->execution, "attach",
                               (const char *)NULL);
        if (t->offset[0])
            path = cay_arena_printf(&t->cli->arena, "%s?offset=%s&skip=%llu", path, t->offset,
                                    (unsigned long long)t->skip);
    }
    cay_ws_done(&t->decoder);
    t->decoder = (struct cay_ws){.unmasked = true};
    t->in.len = t->out.len = 0;
    int r = cay_client_upgrade(t->cli->client, path, &answer, &t->wire, &t->in, err);
    if (r == 0 && answer.status != 101)
        r = cay_remote_check(t->cli, &answer, err);
    if (r < 0)
        return r;
    t->begun = true;
    t->heard_ms = cay_clock_mono_ms();
    if (t->what.tty)
        say_size(t);
    return take_frames(t, err);
}

/* Until the end, or until the connection breaks. */
static int converse(struct talk *t, struct cay_error *err)
{
    int r = connect_to(t, err);
    while (r == 0 && !t->ended) {
        bool listen = !t->input_over && t->out.len < UNSENT_MAX;
        struct pollfd fds[] = {
            {.fd = t->wire.fd, .events = (short)(POLLIN | (t->out.len ? POLLOUT : 0))},
            {.fd = t->cli->signal_fd, .events = POLLIN},
            {.fd = listen ? STDIN_FILENO : -1, .events = POLLIN},
        };
        int64_t left = t->heard_ms + SILENCE_MS - cay_clock_mono_ms();
        bool more = t->wire.more;
        if (poll(fds, CAY_COUNT(fds), left > 0 && !more ? (int)left : 0) == 0 && !more)
            return lost(err);
        if (fds[1].revents)
            pass_signal(t, cay_follow_signal(t->cli));
        if (fds[2].revents)
            read_input(t);
        r = flush(t, err);
        if (r == 0 && (fds[0].revents || more) && !t->ended)
            r = receive(t, err);
    }
    struct cay_error ignored; /* last words: what cannot be sent any more is not missed */
    if (t->wire.fd >= 0 && t->out.len > 0)
        (void)flush(t, &ignored);
    cay_wire_close(&t->wire);
    return r;
}

static int stay(struct talk *t, struct cay_error *err)
{
    int64_t pause_ms = 50;
    t->heard_ms = cay_clock_mono_ms();
    for (;;) {
        int64_t heard_ms = t->heard_ms;
        int r = converse(t, err);
        if (t->ended)
            return r < 0 ? r : t->status;
        if (err->name && strcmp(err->name, "INTERRUPTED") == 0) {
            int number = cay_follow_signal(t->cli);
            if (number != SIGWINCH)
                return CAY_EXIT_SIGNAL + number;
            continue;
        }
        if (!t->begun || !cay_remote_may_retry(err) || !t->execution[0] ||
            cay_clock_mono_ms() - t->heard_ms > CAY_REMOTE_PATIENCE_MS)
            return r;
        if (t->heard_ms != heard_ms)
            pause_ms = 50;
        struct cay_error interrupted;
        if (cay_remote_pause(t->cli, pause_ms, &interrupted) < 0) {
            int number = cay_follow_signal(t->cli);
            if (number && number != SIGWINCH)
                return CAY_EXIT_SIGNAL + number;
        }
        pause_ms = pause_ms < 1600 ? pause_ms * 2 : pause_ms;
    }
}

int cay_talk(struct cay_cli *cli, const struct cay_talk *what, struct cay_error *err)
{
    struct talk t = {.cli = cli, .what = *what, .wire.fd = -1, .output_fd = STDOUT_FILENO};
    if (what->execution)
        cay_str_copy(t.execution, sizeof t.execution, what->execution);
    if (what->execution && !what->replay)
        cay_str_copy(t.offset, sizeof t.offset, "0");
    int r = cay_follow_catch_signals(cli, err);
    if (r == 0 && what->tty)
        r = catch_resize(cli, err);
    if (r == 0 && what->tty)
        r = make_raw(err);
    if (r == 0)
        r = stay(&t, err);
    restore();
    cay_ws_done(&t.decoder);
    cay_buf_done(&t.in);
    cay_buf_done(&t.out);
    return r;
}
