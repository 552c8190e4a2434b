/* SPDX-License-Identifier: Apache-2.0 */
/* An execution with our own input and output on it, over a WebSocket.
 *
 * A connection that breaks is made again, as long as the server comes back within
 * CAY_REMOTE_PATIENCE_MS; output goes on where it broke, without loss or doubling. */
#pragma once
#include "cli/remote.h"

struct cay_talk {
    const char *sandbox;
    const char *execution; /* NULL: `path` begins it */
    const char *path;      /* what to connect to first; NULL: the execution, from its beginning */
    bool tty;              /* our terminal is its terminal: raw, and of the same size */
    bool replay;           /* of an execution: begin with the last screenful only */
};

/* The size of our own terminal, or the usual one. */
void cay_talk_window(int *cols_out, int *rows_out);
/* Stays to the end; the exit status for our own exit. The terminal is as it was on every way out.
 */
int cay_talk(struct cay_cli *cli, const struct cay_talk *what, struct cay_error *err);
