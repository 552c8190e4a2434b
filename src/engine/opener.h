/* SPDX-License-Identifier: Apache-2.0 */
/* The engine beside a provider that makes sandboxes elsewhere. */
#pragma once
#include "model/config.h"

/* Runs until SIGTERM; returns an exit status. */
int cay_opener_run(const struct cay_config *cfg, int listen_fd);
