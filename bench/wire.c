/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        die("cannot connect to %s: %s", path, strerror(errno));
    return fd;
}

static int connect_tcp(const char *address)
{
    char host[64];
    const char *colon = strrchr(address, ':');
    if (!colon || (size_t)(colon - address) >= sizeof(host))
        die("%s is no ADDRESS:PORT", address);
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || fd < 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        die("cannot connect to %s: %s", address, strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* figures only */
    return fd;
}

void wire_connect(struct wire *w)
{
    w->fd = w->address[0] == '/' ? connect_unix(w->address) : connect_tcp(w->address);
}

static void send_all(struct wire *w, const char *data, size_t len)
{
    if (w->fd < 0)
        wire_connect(w);
    while (len > 0) {
        ssize_t n = send(w->fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            die("send: %s", strerror(errno));
        data += n;
        len -= (size_t)n;
    }
}

/* False at the end of the stream. */
static bool receive(struct wire *w)
{
    if (w->len + 1 >= sizeof(w->buf))
        die("an answer larger than %zu bytes", sizeof(w->buf));
    ssize_t n = recv(w->fd, w->buf + w->len, sizeof(w->buf) - 1 - w->len, 0);
    if (n < 0)
        die("recv: %s", strerror(errno));
    w->len += (size_t)n;
    w->buf[w->len] = '\0';
    return n > 0;
}

const char *wire_header(const struct wire *w, const char *name)
{
    size_t n = strlen(name);
    const char *end = w->buf + w->head_len;
    for (const char *line = w->buf; line && line < end; line = strstr(line, "\r\n")) {
        line += line == w->buf ? 0 : 2;
        if (line + n < end && strncasecmp(line, name, n) == 0 && line[n] == ':')
            return line + n + 1 + strspn(line + n + 1, " ");
    }
    return NULL;
}

static void receive_head(struct wire *w)
{
    w->len = 0;
    w->buf[0] = '\0';
    const char *end;
    while (!(end = strstr(w->buf, "\r\n\r\n")))
        if (!receive(w))
            die("closed in the middle of a head");
    w->head_len = (size_t)(end - w->buf) + 4;
}

static void receive_body(struct wire *w, int status)
{
    const char *length = wire_header(w, "Content-Length"),
               *coding = wire_header(w, "Transfer-Encoding");
    if (status == 204)
        return;
    if (length) {
        size_t want = w->head_len + strtoul(length, NULL, 10);
        while (w->len < want)
            if (!receive(w))
                die("closed in the middle of a body");
    } else if (coding) {
        while (w->len < w->head_len + 5 || memcmp(w->buf + w->len - 5, "0\r\n\r\n", 5) != 0)
            if (!receive(w))
                die("closed in the middle of a chunked body");
    } else {
        while (receive(w))
            ;
        close(w->fd);
        w->fd = -1;
    }
}

int wire_status(struct wire *w)
{
    receive_head(w);
    return (int)strtol(w->buf + strlen("HTTP/1.1 "), NULL, 10);
}

void wire_begin(struct wire *w, const char *fmt, ...)
{
    char head[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(head, sizeof(head), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(head))
        die("a head too long");
    send_all(w, head, (size_t)n);
}

const char *wire_host(const struct wire *w)
{
    return w->address[0] == '/' ? "localhost" : w->address;
}

int wire_request(struct wire *w, const char *method, const char *path, const char *body)
{
    char request[2048];
    int n = snprintf(request, sizeof(request),
                     "%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %zu\r\n\r\n%s", method, path,
                     wire_host(w), body ? "Content-Type: application/json\r\n" : "",
                     body ? strlen(body) : 0, body ? body : "");
    if (n < 0 || (size_t)n >= sizeof(request))
        die("a request too long");
    send_all(w, request, (size_t)n);
    int status = wire_status(w);
    receive_body(w, status);
    return status;
}

const char *wire_body(const struct wire *w)
{
    return w->buf + w->head_len;
}

void wire_field(const struct wire *w, const char *key, char *out, size_t size)
{
    char quoted[64];
    snprintf(quoted, sizeof(quoted), "\"%s\"", key);
    const char *at = strstr(wire_body(w), quoted);
    if (!at)
        die("no %s in %s", key, wire_body(w));
    at += strlen(quoted);
    at += strspn(at, ": \"");
    snprintf(out, size, "%.*s", (int)strcspn(at, "\",}"), at);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void print_times(uint64_t *ns, size_t count, uint64_t wall_ns)
{
    if (count == 0)
        die("nothing was measured");
    qsort(ns, count, sizeof(*ns), compare);
    printf("{\"n\": %zu, \"p50\": %.1f, \"p95\": %.1f, \"p99\": %.1f, \"rate\": %.1f, "
           "\"wall_ms\": %.1f}\n",
           count, (double)ns[count / 2] / 1e3, (double)ns[count * 95 / 100] / 1e3,
           (double)ns[count * 99 / 100] / 1e3, (double)count * 1e9 / (double)wall_ns,
           (double)wall_ns / 1e6);
}

static uint64_t sum(const uint64_t *ns, size_t count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += ns[i];
    return all;
}

void print_pair(uint64_t *create_ns, uint64_t *delete_ns, size_t count)
{
    printf("{\"create\": ");
    print_times(create_ns, count, sum(create_ns, count));
    printf(", \"delete\": ");
    print_times(delete_ns, count, sum(delete_ns, count));
    printf("}\n");
}
