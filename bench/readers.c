/* SPDX-License-Identifier: Apache-2.0 */
/* readers ADDRESS PATH COUNT LINES [STUCK]: that many SSE readers of one execution at once.
 *
 * The execution writes `#000000;`, `#000001;`… Each reader must get every number in order and then
 * the exit event. Those that are STUCK ask first and never read. Says `connected` on stderr when
 * all follow. Prints one line of JSON: readers that got all, those that did not, and how long
 * they took from then on. */
#include "wire.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEADLINE_NS (120ull * 1000000000u)

enum part { HEAD, SIZE, DATA, AFTER_DATA, LAST };

struct reader {
    int fd;
    enum part part;
    size_t chunk; /* bytes of the chunk still to come */
    int matched;  /* bytes of "\r\n\r\n" seen in the head */
    int digits;   /* of a number: 0 is outside */
    long number, expected;
    int exit_matched; /* bytes of "event: exit" seen */
    bool wrong, ended;
};

static const char end_of_head[] = "\r\n\r\n";
static const char exit_event[] = "event: exit";

static void take_byte(struct reader *r, char c)
{
    if (c == '#') {
        r->digits = 1;
        r->number = 0;
    } else if (r->digits > 0 && c >= '0' && c <= '9') {
        r->digits++;
        r->number = r->number * 10 + (c - '0');
    } else if (r->digits == 7 && c == ';') {
        r->wrong |= r->number != r->expected;
        r->expected++;
        r->digits = 0;
    } else {
        r->digits = 0;
    }
    r->exit_matched = c == exit_event[r->exit_matched] ? r->exit_matched + 1 : c == exit_event[0];
    if (!exit_event[r->exit_matched]) {
        r->ended = true;
        r->exit_matched = 0;
    }
}

static void take_size(struct reader *r, char c)
{
    if (c == '\n') {
        r->part = r->chunk ? DATA : LAST;
    } else if (c != '\r') {
        int digit = c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0';
        r->chunk = r->chunk * 16 + (size_t)digit;
    }
}

/* The answer is chunked; the numbers are looked for in what is left without the chunks' heads. */
static void take(struct reader *r, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        switch (r->part) {
        case HEAD:
            r->matched = c == end_of_head[r->matched] ? r->matched + 1 : c == '\r';
            if (r->matched == 4)
                r->part = SIZE;
            break;
        case SIZE:
            take_size(r, c);
            break;
        case DATA:
            take_byte(r, c);
            if (--r->chunk == 0)
                r->part = AFTER_DATA;
            break;
        case AFTER_DATA:
            if (c == '\n')
                r->part = SIZE;
            break;
        case LAST:
            break;
        }
    }
}

static int ask(struct wire *w, const char *path)
{
    char byte;
    w->fd = -1;
    wire_begin(w,
               "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n"
               "Connection: close\r\n\r\n",
               path, wire_host(w));
    if (recv(w->fd, &byte, 1, MSG_PEEK) != 1) /* the server has it, and no queue overflows */
        die("no answer: %s", strerror(errno));
    return w->fd;
}

static void open_reader(struct reader *r, struct wire *w, const char *path, int ep)
{
    r->fd = ask(w, path);
    (void)fcntl(r->fd, F_SETFL, O_NONBLOCK); /* a blocking one would only be slower */
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = r};
    if (epoll_ctl(ep, EPOLL_CTL_ADD, r->fd, &ev) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

/* True when this reader is finished. */
static bool drain(struct reader *r)
{
    char buf[16384];
    for (;;) {
        ssize_t n = recv(r->fd, buf, sizeof(buf), 0);
        if (n < 0 && errno == EAGAIN)
            return r->part == LAST;
        if (n <= 0)
            return true;
        take(r, buf, (size_t)n);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 6)
        die("usage: readers ADDRESS PATH COUNT LINES [STUCK]");
    size_t count = strtoul(argv[3], NULL, 10), open_count = count, good = 0;
    long lines = strtol(argv[4], NULL, 10), stuck = argc == 6 ? strtol(argv[5], NULL, 10) : 0;
    struct reader *all = calloc(count, sizeof(*all));
    struct wire *w = calloc(1, sizeof(*w));
    int ep = epoll_create1(EPOLL_CLOEXEC);
    if (!all || !w || ep < 0)
        die("out of memory or descriptors");
    w->address = argv[1];
    for (long i = 0; i < stuck; i++)
        (void)ask(w, argv[2]); /* open until we end */
    for (size_t i = 0; i < count; i++)
        open_reader(&all[i], w, argv[2], ep);
    fprintf(stderr, "connected\n");
    uint64_t began = now_ns();
    while (open_count > 0 && now_ns() < began + DEADLINE_NS) {
        struct epoll_event events[256];
        int n = epoll_wait(ep, events, 256, 1000);
        for (int i = 0; i < n; i++) {
            struct reader *r = events[i].data.ptr;
            if (drain(r)) {
                close(r->fd);
                open_count--;
            }
        }
    }
    double wall_ms = (double)(now_ns() - began) / 1e6;
    for (size_t i = 0; i < count; i++)
        good += !all[i].wrong && all[i].ended && all[i].expected == lines;
    printf("{\"good\": %zu, \"bad\": %zu, \"wall_ms\": %.1f}\n", good, count - good, wall_ms);
    free(all);
    free(w);
    return 0;
}
