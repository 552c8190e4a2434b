/* SPDX-License-Identifier: Apache-2.0 */
/* Connections out: the same client inside a sandbox and behind a NAT, and the server for both.
 *
 *   out serve                       until its input ends: what comes is echoed; behind a first byte
 *                                   'S' it is swallowed, and one byte at the end says that all came
 *   out stream ADDRESS BYTES        so many into one connection
 *   out trips ADDRESS COUNT         a byte there and back
 *   out connects ADDRESS COUNT      connections with one such byte, one after the other
 *   out hold ADDRESS COUNT          so many at once, each proven by a byte; until killed
 *
 * Prints one line of JSON. */
#include "wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 7777
#define PIECE (256 * 1024)
#define FDS 65536

static char piece[PIECE];
static bool swallows[FDS], begun[FDS];

static int dial(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
        die("%s is no address", address);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("cannot connect: %s", strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

static void say(int fd, const char *bytes, size_t len)
{
    for (ssize_t n; len > 0; bytes += n, len -= (size_t)n)
        if ((n = send(fd, bytes, len, MSG_NOSIGNAL)) <= 0)
            die("cannot send: %s", strerror(errno));
}

static void hear(int fd)
{
    char byte;
    if (recv(fd, &byte, 1, 0) != 1)
        die("the connection ended");
}

static void trip(int fd)
{
    say(fd, "x", 1);
    hear(fd);
}

static void stream(const char *address, size_t bytes)
{
    int fd = dial(address);
    say(fd, "S", 1);
    uint64_t began = now_ns();
    for (size_t left = bytes, n; left > 0; left -= n) {
        n = left < PIECE ? left : PIECE;
        say(fd, piece, n);
    }
    (void)shutdown(fd, SHUT_WR);
    hear(fd);
    printf("{\"mib_s\": %.3f}\n", (double)bytes / (1 << 20) / ((double)(now_ns() - began) / 1e9));
}

static void repeat(const char *address, size_t count, bool anew)
{
    uint64_t *took = calloc(count, sizeof *took), began = now_ns();
    int fd = anew ? -1 : dial(address);
    for (size_t i = 0; i < count; i++) {
        uint64_t start = now_ns();
        if (anew)
            fd = dial(address);
        trip(fd);
        if (anew)
            close(fd);
        took[i] = now_ns() - start;
    }
    print_times(took, count, now_ns() - began);
}

static void hold(const char *address, size_t count)
{
    for (size_t i = 0; i < count; i++)
        trip(dial(address));
    printf("held\n");
    (void)fflush(stdout);
    pause();
}

/* ---- the other side ---- */

static void answer(int fd)
{
    ssize_t n = recv(fd, piece, PIECE, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        if (n == 0 && swallows[fd])
            (void)send(fd, "!", 1, MSG_NOSIGNAL);
        close(fd);
        return;
    }
    if (!begun[fd])
        swallows[fd] = piece[0] == 'S';
    begun[fd] = true;
    if (!swallows[fd])
        say(fd, piece, (size_t)n);
}

static void serve(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct epoll_event events[256], ev = {.events = EPOLLIN};
    int yes = 1, epoll = epoll_create1(0), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4096) < 0)
        die("cannot listen: %s", strerror(errno));
    ev.data.fd = fd;
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
    ev.data.fd = 0;
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &ev);
    printf("ready\n");
    (void)fflush(stdout);
    for (;;) {
        int n = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == 0)
                return;
            if (events[i].data.fd != fd) {
                answer(events[i].data.fd);
                continue;
            }
            int c = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
            if (c < 0 || c >= FDS)
                continue;
            begun[c] = swallows[c] = false;
            (void)setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            ev.data.fd = c;
            (void)epoll_ctl(epoll, EPOLL_CTL_ADD, c, &ev);
        }
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    size_t count = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    if (strcmp(what, "serve") == 0)
        serve();
    else if (count == 0)
        die("out serve | stream|trips|connects|hold ADDRESS COUNT");
    else if (strcmp(what, "stream") == 0)
        stream(argv[2], count);
    else if (strcmp(what, "hold") == 0)
        hold(argv[2], count);
    else
        repeat(argv[2], count, strcmp(what, "connects") == 0);
    return 0;
}
