/* SPDX-License-Identifier: Apache-2.0 */
/* `cay serve` itself: the small root process that holds the data directory and the port, starts
 * engine and server, and starts either again when it dies. */
#pragma once
#include "base/error.h"
#include "model/config.h"

/* Both return an exit status; messages have gone to stderr. */
int cay_supervisor_run(struct cay_config *cfg);
/* Ends the server of that data directory, then every sandbox in it. */
int cay_supervisor_down(const char *data_dir);
/* Calls `work` while an engine answers at that data directory's socket: the one of a server that
 * runs, or one for this time, when nobody holds the directory. */
int cay_supervisor_lend(const char *data_dir, int (*work)(void *arg, struct cay_error *err),
                        void *arg, struct cay_error *err);
