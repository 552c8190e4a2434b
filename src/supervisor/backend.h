/* SPDX-License-Identifier: Apache-2.0 */
/* Which provider has the sandboxes of a data directory. It is written down at the first start: with
 * another one every record would be a sandbox that is gone. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "model/config.h"

/* Writes it down, or holds what cfg says against what was written. CAY_ERR_CONFLICT. */
int cay_backend_claim(const struct cay_config *cfg, struct cay_error *err);
/* Sets provider, docker_host and docker_certs as they were written down; native when nothing was.
 */
int cay_backend_recall(struct cay_config *cfg, struct cay_arena *a, struct cay_error *err);
/* Reads what docker_certs names, while it can be: the server has no rights to. */
int cay_backend_identify(struct cay_config *cfg, struct cay_arena *a, struct cay_error *err);
/* Destroys every sandbox, by way of its provider; the engine runs. */
int cay_backend_down(const struct cay_config *cfg, struct cay_error *err);
