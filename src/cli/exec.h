/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning a command in a sandbox, for `exec` and `run`. */
#pragma once
#include "cli/remote.h"

struct cay_exec_request {
    const struct cay_strs *command;
    const struct cay_pairs *env;
    const char *cwd, *user;
    bool tty, open_stdin;
    const char *input; /* NULL: none */
    size_t input_len;
    int64_t timeout_ms; /* 0: none */
    bool wait;          /* for the whole result in one answer */
};

/* Begins it and stays with it to its end: its output on ours, or the result as JSON. Returns the
 * exit status for our own exit. */
int cay_exec_attended(struct cay_cli *cli, const char *sandbox, struct cay_exec_request *req,
                      struct cay_error *err);
