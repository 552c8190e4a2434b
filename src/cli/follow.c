/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"
#include "base/clock.h"
#include "cli/nuls.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#define STREAM_IDLE_MS 45000 /* three keep-alive comments missed */

struct follow {
    struct cay_cli *cli;
    const char *path;
    const char *kill_path; /* NULL: a signal ends us, not the command */
    struct cay_sse sse;
    bool begun; /* there was a server: it may come back */
    bool ended; /* status says how */
    int status;
    int64_t heard_ms;    /* when the last event came */
    int64_t deadline_ms; /* when the next harder signal is due; 0: none was asked for */
    int signals;         /* sent so far */
    int number;          /* the user's signal */
    int quiet_ends;      /* streams in a row that ended in good order and brought nothing */
    size_t skip;         /* bytes of the event that comes next which are written already */
    bool nuls_hidden;    /* in the event under way, see cli/nuls.h */
    bool no_reader;      /* our own output has nobody left who reads it */
};

int cay_follow_catch_signals(struct cay_cli *cli, struct cay_error *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot block signals");
    cli->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (cli->signal_fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot catch signals");
    cay_client_interrupt_on(cli->client, cli->signal_fd);
    return 0;
}

int cay_follow_signal(struct cay_cli *cli)
{
    struct signalfd_siginfo info;
    if (cli->signal_fd < 0 || read(cli->signal_fd, &info, sizeof info) != sizeof info)
        return 0;
    return (int)info.ssi_signo;
}

/* Small pieces, each when there is room: a reader that stands still must not keep the user's
 * signal from us. */
static int write_out(struct follow *f, int fd, const char *data, size_t len, struct cay_error *err)
{
    size_t at = f->skip < len ? f->skip : len;
    f->skip -= at;
    while (at < len) {
        struct pollfd fds[] = {{.fd = fd, .events = POLLOUT},
                               {.fd = f->cli->signal_fd, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot wait for our own output");
        if (fds[1].revents && !fds[0].revents) {
            f->skip = at; /* the event comes again */
            return cay_fail_as(err, CAY_ERR_CONFLICT, "INTERRUPTED", "interrupted");
        }
        ssize_t n = write(fd, data + at, len - at < 4096 ? len - at : 4096);
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            f->no_reader = errno == EPIPE;
            return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write the output");
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int base64_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static int decode_base64(const struct cay_json *text, struct cay_buf *out, struct cay_error *err)
{
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < text->len && text->text[i] != '='; i++) {
        int v = base64_value(text->text[i]);
        if (v < 0)
            return cay_fail(err, CAY_ERR_PROVIDER, "the stream holds base64 that is none");
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            cay_buf_addc(out, (char)(bits >> have));
        }
    }
    return 0;
}

static int print_text(struct follow *f, int fd, const struct cay_json *text, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf bytes = {0};
    if (!f->nuls_hidden)
        return write_out(f, fd, text->text, text->len, err);
    cay_nuls_show(&bytes, text->text, text->len);
    return write_out(f, fd, bytes.data, bytes.len, err);
}

static int print_output(struct follow *f, int fd, const struct cay_json *root,
                        struct cay_error *err)
{
    const struct cay_json *text = cay_json_get(root, "data");
    const struct cay_json *base64 = cay_json_get(root, "base64");
    if (text && text->kind == CAY_JSON_STRING)
        return print_text(f, fd, text, err);
    if (!base64 || base64->kind != CAY_JSON_STRING)
        return 0;
    CAY_AUTO_BUF struct cay_buf bytes = {0};
    int r = decode_base64(base64, &bytes, err);
    return r < 0 ? r : write_out(f, fd, bytes.data, bytes.len, err);
}

/* An exit without a code was not observed by anyone, and none is made up here either. */
int cay_follow_exit(const struct cay_json *event, int *status_out, struct cay_error *err)
{
    int64_t code = cay_json_get_int(event, "exitCode", -1);
    int64_t number = cay_json_get_int(event, "signal", 0);
    const char *reason = cay_json_get_str(event, "reason", "");
    if (code < 0 && number <= 0)
        return cay_fail(err, CAY_ERR_PROVIDER, "nobody saw how the command ended");
    *status_out = (int)(code >= 0 ? code & 0xff : (CAY_EXIT_SIGNAL + number) & 0xff);
    if (strcmp(reason, "timeout") == 0)
        fputs("cay: the command was stopped: its time was over\n", stderr);
    else if (strcmp(reason, "oom") == 0)
        fputs("cay: the command was killed: the sandbox is out of memory\n", stderr);
    return 0;
}

static int take_exit(struct follow *f, const struct cay_json *root, struct cay_error *err)
{
    f->ended = true;
    int r = cay_follow_exit(root, &f->status, err);
    if (r < 0)
        f->status = r;
    return r;
}

static void print_gap(const struct cay_json *root)
{
    int64_t bytes = cay_json_get_int(root, "bytes", cay_json_get_int(root, "skipped", 0));
    fprintf(stderr, "cay: %lld bytes of output were not kept\n", (long long)bytes);
}

static int take_event(void *arg, const char *event, const char *data, size_t len,
                      struct cay_error *err)
{
    struct follow *f = arg;
    CAY_AUTO_ARENA struct cay_arena arena = {0};
    const struct cay_json *root = NULL;
    int r = cay_nuls_parse_hidden(&arena, data, len, &root, &f->nuls_hidden, err);
    if (r < 0)
        return cay_wrap(err, "the stream is not as agreed");
    if (root->kind != CAY_JSON_OBJECT)
        return cay_fail(err, CAY_ERR_PROVIDER, "the stream is not as agreed");
    f->heard_ms = cay_clock_mono_ms();
    if (strcmp(event, "stdout") == 0)
        return print_output(f, STDOUT_FILENO, root, err);
    if (strcmp(event, "stderr") == 0)
        return print_output(f, STDERR_FILENO, root, err);
    if (strcmp(event, "exit") == 0)
        return take_exit(f, root, err);
    if (strcmp(event, "gap") == 0)
        print_gap(root);
    return 0; /* events of a later server's are not for us */
}

static int take_bytes(void *arg, const char *data, size_t len, struct cay_error *err)
{
    struct follow *f = arg;
    return cay_sse_feed(&f->sse, data, len, take_event, f, err);
}

static int follow_once(struct follow *f, struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_client_request req = {
        .method = "GET",
        .path = f->path,
        .accept = "text/event-stream",
        .last_event_id = f->sse.id[0] ? f->sse.id : NULL,
        .idle_ms = STREAM_IDLE_MS,
        .until_ms = f->deadline_ms,
        .on_data = take_bytes,
        .arg = f,
    };
    cay_sse_restart(&f->sse);
    f->cli->api_code[0] = 0;
    int r = cay_client_call(f->cli->client, &req, &answer, err);
    f->begun = f->begun || r >= 0 || f->sse.id[0];
    return r < 0 ? r : cay_remote_check(f->cli, &answer, err);
}

static const char *signal_name(int number)
{
    return number == SIGTERM ? "SIGTERM" : number == SIGHUP ? "SIGHUP" : "SIGINT";
}

/* The first signal is passed on as it is, then comes SIGKILL, then we go without an answer. */
static void send_signal(struct follow *f, int number)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    const struct cay_json *answer;
    struct cay_error ignored; /* the stream tells whether it worked */
    bool first = f->signals++ == 0;
    f->number = number ? number : f->number;
    if (f->signals > 2) {
        f->ended = true;
        f->status = CAY_EXIT_SIGNAL + f->number;
        return;
    }
    cay_buf_addf(&body, "{\"signal\":\"%s\"}", first ? signal_name(number) : "SIGKILL");
    (void)cay_remote_call(f->cli, "POST", f->kill_path, &body, CAY_FOLLOW_GRACE_MS, &answer,
                          &ignored);
    f->deadline_ms = cay_clock_mono_ms() + CAY_FOLLOW_GRACE_MS;
}

/* After a call that did not bring the end: decides whether and when to try again. */
static int after_break(struct follow *f, int r, int64_t *pause_ms, struct cay_error *err)
{
    int number = cay_follow_signal(f->cli);
    bool late = f->deadline_ms && cay_clock_mono_ms() >= f->deadline_ms;
    if (f->kill_path && (number || late)) {
        send_signal(f, number);
        return 0;
    }
    if (r < 0 && (!f->begun || !cay_remote_may_retry(err)))
        return r;
    if (cay_clock_mono_ms() - f->heard_ms > CAY_REMOTE_PATIENCE_MS)
        return r < 0 ? r : cay_fail(err, CAY_ERR_UNAVAILABLE, "the stream ends without an end");
    struct cay_error interrupted; /* found again at the next turn */
    (void)cay_remote_pause(f->cli, *pause_ms, &interrupted);
    *pause_ms = *pause_ms < 1600 ? *pause_ms * 2 : *pause_ms;
    return 0;
}

static int follow_to_end(struct follow *f, bool again, struct cay_error *err)
{
    int64_t pause_ms = 50;
    f->heard_ms = cay_clock_mono_ms();
    while (!f->ended) {
        int64_t heard_ms = f->heard_ms;
        int r = follow_once(f, err);
        bool quiet = f->heard_ms == heard_ms;
        f->quiet_ends = r >= 0 && quiet ? f->quiet_ends + 1 : 0;
        if (f->ended || (!again && r >= 0) || (!f->kill_path && f->quiet_ends > 1))
            return f->status;
        if (!quiet)
            pause_ms = 50;
        r = after_break(f, r, &pause_ms, err);
        if (r < 0)
            return r;
    }
    return f->status;
}

int cay_follow_execution(struct cay_cli *cli, const char *sandbox, const char *execution,
                         struct cay_error *err)
{
    struct follow f = {.cli = cli, .begun = true};
    f.path = cay_arena_printf(
        &cli->arena, "%s?follow=true",
        cay_remote_path(cli, "sandbox", sandbox, "exec", execution, "output", (const char *)NULL));
    f.kill_path =
        cay_remote_path(cli, "sandbox", sandbox, "exec", execution, "kill", (const char *)NULL);
    int r = follow_to_end(&f, true, err);
    if (f.no_reader) { /* as a shell does it: who lost his reader ends */
        f.signals = 1;
        send_signal(&f, SIGPIPE);
        r = CAY_EXIT_SIGNAL + SIGPIPE;
    }
    cay_sse_done(&f.sse);
    return r;
}

int cay_follow_logs(struct cay_cli *cli, const char *path, bool follow, struct cay_error *err)
{
    struct follow f = {.cli = cli, .path = path};
    int r = follow_to_end(&f, follow, err);
    cay_sse_done(&f.sse);
    return r < 0 ? r : 0;
}
