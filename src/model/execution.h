/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/id.h"
#include "base/str.h"
#include "model/once.h"

struct cay_window {
    uint16_t cols, rows;
};

struct cay_exec_file {
    const char *path; /* relative to the execution's directory, or absolute */
    const char *data;
    size_t len;
};

struct cay_exec_spec {
    struct cay_strs argv;   /* empty: the image's own command */
    const char *text;       /* as written, when it was a string for the shell */
    const char *cwd;        /* NULL: the sandbox's */
    const char *user;       /* NULL: the sandbox's */
    struct cay_pairs env;   /* on top of the sandbox's */
    int64_t timeout_ms;     /* 0: none */
    bool awaited;           /* somebody waits for its end, which may come at once */
    const char *stdin_text; /* NULL: /dev/null */
    size_t stdin_len;
    bool open_stdin;             /* takes input while it runs */
    struct cay_window window;    /* of its terminal, which takes input too; 0 × 0: none */
    const struct cay_once *once; /* or NULL */
    struct cay_exec_file *files; /* written before it begins */
    size_t file_count;
};

enum cay_exec_status {
    CAY_EXEC_RUNNING,
    CAY_EXEC_EXITED,
    CAY_EXEC_LOST, /* no exit record, and nothing runs that could write one */
};

#define CAY_CAUSE_SIZE 80 /* of a sentence that says why one failed */

/* What the log and the facts beside it say of an execution. */
struct cay_execution {
    char id[CAY_ID_SIZE];
    char sandbox_id[CAY_ID_SIZE];
    enum cay_exec_status status;
    struct cay_strs argv;
    const char *text;
    const char *reason; /* exited signal timeout killed oom pids disk lost; NULL while it runs */
    int exit_code;      /* 128 + signal when a signal ended it */
    int signal;         /* 0: none */
    int64_t started_at_ms, ended_at_ms, duration_ms;
    uint64_t stdout_bytes, stderr_bytes; /* written by the process */
    bool truncated;                      /* some of it is no longer in the log */
    uint64_t cpu_ms, peak_bytes;
    bool tty;                /* its output is one stream, as a terminal shows it */
    char process[16];        /* who was ended by the signal, or killed for want of memory;
                              * empty: not known */
    bool counted;            /* the log itself tells of oom and pids */
    const char *fingerprint; /* of the request that may be repeated; or NULL */
};
