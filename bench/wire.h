/* SPDX-License-Identifier: Apache-2.0 */
/* The least of an HTTP client: one kept-alive connection, one request at a time, answers of a known
 * length, chunked, or until the end. It costs a few microseconds, so that a figure is the server's.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire {
    const char *address; /* 127.0.0.1:PORT, or the path of a unix socket */
    int fd;              /* -1 when not connected */
    size_t head_len;
    size_t len; /* bytes of answer in buf */
    char buf[1 << 18];
};

/* Both end the program with a message when the peer does not behave. */
void wire_connect(struct wire *w);
/* The status; the body is at wire_body until the next call. `body` may be NULL. */
int wire_request(struct wire *w, const char *method, const char *path, const char *body);
/* The halves of a request whose body, or whose answer's, is larger than memory should be: sends a
 * head, receives one. Behind head_len, up to len, is what came of the body with it. */
void wire_begin(struct wire *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int wire_status(struct wire *w);
const char *wire_header(const struct wire *w, const char *name); /* its value, or NULL */
const char *wire_host(const struct wire *w);                     /* for the Host line */
const char *wire_body(const struct wire *w);
/* Copies the value of the first `"key":"value"` in the body. */
void wire_field(const struct wire *w, const char *key, char *out, size_t size);

uint64_t now_ns(void);
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Sorts, and prints one line of JSON: n, p50, p95, p99 in microseconds, the rate per second, and
 * all of the time in milliseconds. */
void print_times(uint64_t *ns, size_t count, uint64_t wall_ns);
/* Both of one loop, as {"create": {…}, "delete": {…}}. */
void print_pair(uint64_t *create_ns, uint64_t *delete_ns, size_t count);
