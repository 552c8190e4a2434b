/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a real cay-init (its path in CAY_INIT) as pid 1 of new user and pid namespaces. */
#pragma once
#include "base/arena.h"
#include "init/proto.h"
#include "log/record.h"
#include "model/execution.h"
#include <sys/un.h>

#define SHELF "a"
#define SANDBOX "sb-aaaaaaaaaaaaaaaaaaaa" /* its logs lie on that shelf */

struct sut {
    pid_t pid;
    int logs_fd, conn;
    struct sockaddr_un addr;
};

struct sut_job {
    const char *user, *cwd, *script; /* sh -c script, or argv[0] when name is set */
    const char *name;
    const char *env;
    uint64_t timeout_ms, cap_bytes;
    uint32_t grace_ms, await_ms;
    int stdin_fd; /* 0: none */
    bool open_stdin;
    uint32_t window; /* of its terminal; 0: none */
    bool by_memfd;
    bool full_disk;       /* when it starts, none of its log's file system is left */
    char id[CAY_ID_SIZE]; /* filled in */
    int log_fd;
};

/* False, with a note, when this machine or this run cannot do it. */
bool sut_begin(struct sut *s);
void sut_end(struct sut *s);
int sut_dial(const struct sut *s);
bool sut_send_raw(int conn, const void *head, size_t head_len, const void *more, size_t more_len,
                  const int *fds, size_t fd_count);
/* The result, or -1 when no answer comes. */
int sut_receive(int conn, struct cay_init_reply *out, char *strings, size_t size);
int sut_ask(int conn, struct cay_init_request req);
int sut_make_memfd(const void *data, size_t len, int seals);
bool sut_send_exec(const struct sut *s, int conn, struct sut_job *j);
int sut_start(const struct sut *s, struct sut_job *j);
/* A new input of its stdin; closes: with an end, which closes stdin. */
struct sut_input {
    int fd, end_fd;
};
int sut_give_input(const struct sut *s, const struct sut_job *j, bool closes,
                   struct sut_input *out);
void sut_write(const struct sut_input *i, const char *text);
void sut_end_input(struct sut_input *i, bool whole);
struct cay_execution sut_summary(const struct sut_job *j, struct cay_arena *a);
/* Everything of one stream, from the start. */
const char *sut_output(const struct sut_job *j, enum cay_record_kind kind, struct cay_arena *a);
/* Waits for changes of the log until it has its exit, or until stdout holds a word. */
struct cay_execution sut_await(const struct sut_job *j, const char *word, struct cay_arena *a);
/* The exit status of pid 1; -1 when it had to be killed. */
int sut_await_pid(const struct sut *s);
