/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that another provider made, by the cay-init in each: what is asked of the engine
 * because it has the rights, and the code. `proc` is its directory in /proc, which stays that of
 * the one process, whoever has its number later. CAY_ERR_NOT_FOUND when it is no cay-init, or is
 * gone. */
#pragma once
#include "engine/message.h"
#include "engine/socket.h"
#include "model/sandbox.h"

/* All of it but the disk. */
int cay_foreign_usage(int proc, pid_t pid, struct cay_usage *out, struct cay_error *err);
/* As cay_cgroup_limit. */
int cay_foreign_limit(int proc, const struct cay_engine_request *rq, struct cay_error *err);

/* What lasts is done by a child: `out` is a socket that struct cay_engine_done comes out of. */

/* Every process stands still from that message until the socket is closed, by whomever. */
int cay_foreign_hold(int proc, struct cay_sockets *out, struct cay_error *err);
/* All that is in the volume `id` is copied to the empty one `other`, both of Docker's in the
 * directory `image`. */
int cay_foreign_copy(const struct cay_engine_request *rq, struct cay_sockets *out,
                     struct cay_error *err);
