/* SPDX-License-Identifier: Apache-2.0 */
/* How fast many bytes go one way, through cay and over a bare loopback socket.
 *
 *   flow exec ADDRESS SANDBOX ACCEPT COMMAND   a command is begun, and all of its output read
 *   flow pipe COMMAND                          the same over a socket: `COMMAND | cat`
 *   flow get ADDRESS PATH                      a file is read
 *   flow give FILE                             the same by sendfile over a socket
 *   flow put ADDRESS PATH FILE                 a file is written, and the answer awaited
 *   flow keep FILE TO                          the same: sendfile, recv, write, one byte back
 *
 * Every reader has the same buffer and every sender is sendfile, so that what differs is what lies
 * between. Prints one line of JSON: bytes of the body, and milliseconds from the question on. */
#include "wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE (1 << 20)

static struct wire wire = {.fd = -1};

/* A body on its way in: of a known length, or in chunks. */
struct body {
    bool chunked, ended;
    uint64_t left, bytes; /* of this chunk, or of all; what has come */
    int digits;           /* of a chunk's size */
};

static void print_flow(uint64_t bytes, uint64_t began_ns)
{
    printf("{\"bytes\": %llu, \"wall_ms\": %.3f}\n", (unsigned long long)bytes,
           (double)(now_ns() - began_ns) / 1e6);
}

static void take_size(struct body *b, char c)
{
    if (c == '\n') {
        b->ended = b->digits > 0 && b->left == 0;
        b->digits = 0;
    } else if (c != '\r') {
        int digit = c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0';
        b->left = b->left * 16 + (uint64_t)digit;
        b->digits++;
    }
}

static void take(struct body *b, const char *data, size_t len)
{
    for (size_t at = 0; at < len && !b->ended;) {
        if (b->digits > 0 || b->left == 0) {
            take_size(b, data[at++]);
            continue;
        }
        size_t n = len - at < b->left ? len - at : (size_t)b->left;
        at += n;
        b->left -= n;
        b->bytes += n;
        b->ended = !b->chunked && b->left == 0;
    }
}

static size_t receive(int fd)
{
    ssize_t n = recv(fd, wire.buf, sizeof(wire.buf), 0);
    if (n < 0)
        die("recv: %s", strerror(errno));
    return (size_t)n;
}

static uint64_t receive_all(int fd)
{
    uint64_t bytes = 0;
    for (size_t n; (n = receive(fd)) > 0;)
        bytes += n;
    return bytes;
}

static void get(const char *path, const char *accept, uint64_t began)
{
    struct body b = {0};
    wire_begin(&wire, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n\r\n", path, wire_host(&wire),
               accept);
    int status = wire_status(&wire);
    const char *length = wire_header(&wire, "Content-Length");
    if (status != 200)
        die("GET %s: %d %s", path, status, wire_body(&wire));
    b.chunked = !length;
    b.left = length ? strtoull(length, NULL, 10) : 0;
    b.ended = length && b.left == 0;
    take(&b, wire.buf + wire.head_len, wire.len - wire.head_len);
    while (!b.ended) {
        size_t n = receive(wire.fd);
        if (n == 0)
            die("closed after %llu bytes", (unsigned long long)b.bytes);
        take(&b, wire.buf, n);
    }
    print_flow(b.bytes, began);
}

static void flow_get(char **argv)
{
    wire.address = argv[0];
    get(argv[1], "*/*", now_ns());
}

static void flow_exec(char **argv)
{
    char path[256], body[1024], id[64];
    uint64_t began = now_ns();
    wire.address = argv[0];
    snprintf(path, sizeof(path), "/api/v1/sandbox/%s/exec", argv[1]);
    snprintf(body, sizeof(body), "{\"command\":\"%s\",\"detach\":true}", argv[3]);
    if (wire_request(&wire, "POST", path, body) != 202)
        die("POST %s: %s", path, wire_body(&wire));
    wire_field(&wire, "id", id, sizeof(id));
    snprintf(path, sizeof(path), "/api/v1/sandbox/%s/exec/%s/output?follow=true", argv[1], id);
    get(path, argv[2], began);
}

static int open_file(const char *path, uint64_t *size_out)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        die("%s: %s", path, strerror(errno));
    *size_out = (uint64_t)st.st_size;
    return fd;
}

static void send_file(int to, int fd, uint64_t size)
{
    while (size > 0) {
        ssize_t n = sendfile(to, fd, NULL, size < PIECE ? (size_t)size : PIECE);
        if (n <= 0)
            die("sendfile: %s", n < 0 ? strerror(errno) : "the file has shrunk");
        size -= (uint64_t)n;
    }
}

static void flow_put(char **argv)
{
    uint64_t size, began = now_ns();
    int fd = open_file(argv[2], &size);
    wire.address = argv[0];
    wire_begin(&wire, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %llu\r\n\r\n", argv[1],
               wire_host(&wire), (unsigned long long)size);
    send_file(wire.fd, fd, size);
    int status = wire_status(&wire);
    if (status != 200 && status != 201)
        die("PUT %s: %d %s", argv[1], status, wire_body(&wire));
    print_flow(size, began);
}

/* Both ends of a TCP connection over the loopback device. */
static void connect_both(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&at, len) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
        connect(ends[0], (struct sockaddr *)&at, len) < 0 ||
        (ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
        die("no loopback connection: %s", strerror(errno));
    close(listener);
}

/* A child on the other end. */
static pid_t begin(int ends[2])
{
    connect_both(ends);
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    close(ends[pid == 0 ? 0 : 1]);
    return pid;
}

static void await(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        die("the other end failed");
}

static void flow_pipe(char **argv)
{
    char command[1024];
    int ends[2];
    uint64_t began = now_ns();
    snprintf(command, sizeof(command), "%s | cat", argv[0]);
    pid_t pid = begin(ends);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    uint64_t bytes = receive_all(ends[0]);
    await(pid);
    print_flow(bytes, began);
}

static void flow_give(char **argv)
{
    int ends[2];
    uint64_t size, began = now_ns();
    pid_t pid = begin(ends);
    if (pid == 0) {
        int fd = open_file(argv[0], &size);
        send_file(ends[1], fd, size);
        _exit(0);
    }
    uint64_t bytes = receive_all(ends[0]);
    await(pid);
    print_flow(bytes, began);
}

static void store(int from, const char *to)
{
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (size_t n; (n = receive(from)) > 0;)
        if (write(fd, wire.buf, n) != (ssize_t)n)
            die("%s: %s", to, strerror(errno));
    if (close(fd) < 0 || send(from, "1", 1, MSG_NOSIGNAL) != 1)
        die("%s: %s", to, strerror(errno));
}

static void flow_keep(char **argv)
{
    int ends[2];
    char byte;
    uint64_t size, began = now_ns();
    pid_t pid = begin(ends);
    if (pid == 0) {
        store(ends[1], argv[1]);
        _exit(0);
    }
    int fd = open_file(argv[0], &size);
    send_file(ends[0], fd, size);
    if (shutdown(ends[0], SHUT_WR) < 0 || recv(ends[0], &byte, 1, 0) != 1)
        die("the file was not kept");
    print_flow(size, began);
    await(pid);
}

static const struct {
    const char *name;
    int args;
    void (*run)(char **argv);
} flows[] = {
    {"exec", 4, flow_exec}, {"pipe", 1, flow_pipe}, {"get", 2, flow_get},
    {"give", 1, flow_give}, {"put", 3, flow_put},   {"keep", 2, flow_keep},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(flows) / sizeof(flows[0]); i++)
        if (strcmp(flows[i].name, argv[1]) == 0 && flows[i].args == argc - 2) {
            flows[i].run(argv + 2);
            return 0;
        }
    die("usage: flow exec|pipe|get|give|put|keep ARGUMENT…");
}
