/* SPDX-License-Identifier: Apache-2.0 */
/* Output as it comes, onto our own stdout and stderr.
 *
 * A stream that breaks is taken up again where it broke, without loss or doubling, as long as the
 * server comes back within CAY_REMOTE_PATIENCE_MS: each event carries the place to go on from. */
#pragma once
#include "cli/remote.h"
#include "cli/sse.h"

#define CAY_FOLLOW_GRACE_MS 2000 /* between the user's signal and SIGKILL */

/* From here on signals that ask us to end are told by cli->signal_fd instead of ending us. */
int cay_follow_catch_signals(struct cay_cli *cli, struct cay_error *err);

/* A signal that was caught, or 0. */
int cay_follow_signal(struct cay_cli *cli);
/* The status for our own exit from an `exit` event; an error when nobody saw the end. */
int cay_follow_exit(const struct cay_json *event, int *status_out, struct cay_error *err);

/* Follows an execution to its end. Returns the exit status for our own exit: the command's, or
 * 128 + N for a signal. The user's signal is passed on to the command, which is killed when it
 * does not heed it, or when he repeats it. */
int cay_follow_execution(struct cay_cli *cli, const char *sandbox, const char *execution,
                         struct cay_error *err);
/* Prints the stream at path until it ends (exit or, when not following, end of stream). */
int cay_follow_logs(struct cay_cli *cli, const char *path, bool follow, struct cay_error *err);
