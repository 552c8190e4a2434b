/* SPDX-License-Identifier: Apache-2.0 */
/* A berth is what of a sandbox can be made before anybody asks for one: a user namespace with an id
 * range of its own, an ipc namespace, a net namespace with nothing in it but a loopback device, and
 * the hull, a first process that waits for its order (see plan.h). Making one takes longer than the
 * rest, so a process of its own keeps a few ready. A berth is used once. */
#pragma once
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CAY_BERTH_IDS 65536U

struct cay_berth {
    int net_fd, ipc_fd, user_fd;
    int lock_fd; /* holds the range, machine-wide, for as long as anyone has it open */
    int hull_fd; /* the hull ends when nobody has it open any more; -1: it has none */
    pid_t hull;
    uint32_t base; /* first id of the range, on the host */
    bool closed;   /* the host cannot give it a way out */
};

#define CAY_BERTH_FDS 5
#define CAY_NO_BERTH ((struct cay_berth){-1, -1, -1, -1, -1, 0, 0, false})

void cay_berth_done(struct cay_berth *b);
/* As descriptors beside a message, and back. How many: 0 of no berth. */
int cay_berth_to_fds(const struct cay_berth *b, int fds[CAY_BERTH_FDS]);
struct cay_berth cay_berth_from_fds(const int *fds, int count, uint32_t base, pid_t hull);
/* Where the machine's id ranges are locked: /run/cay/ids. */
int cay_berth_open_ids(int *fd_out, struct cay_error *err);
/* By the filler (filler.c), for each byte that it gets; or none, with the error. */
int cay_berth_send(int sock, const struct cay_berth *b, const struct cay_error *err);
int cay_berth_receive(int sock, struct cay_berth *out, struct cay_error *err);
