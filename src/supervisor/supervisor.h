/* SPDX-License-Identifier: Apache-2.0 */
/* `cay serve` itself: the small root process that holds the data directory and the port, starts
 * engine and server, and starts either again when it dies. */
#pragma once
#include "model/config.h"

/* Both return an exit status; messages have gone to stderr. */
int cay_supervisor_run(struct cay_config *cfg);
/* Ends the server of that data directory, then every sandbox in it. */
int cay_supervisor_down(const char *data_dir);
