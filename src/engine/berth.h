/* SPDX-License-Identifier: Apache-2.0 */
/* A berth is what a sandbox needs before it has a process: a user namespace with an id range of its
 * own, an ipc namespace, and a net namespace with nothing in it but a loopback device. Making one
 * takes half a millisecond, so a process of its own keeps a few ready. A berth is used once. */
#pragma once
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define CAY_BERTH_IDS 65536U

struct cay_berth {
    int net_fd, ipc_fd, user_fd;
    int lock_fd;   /* holds the range, machine-wide, for as long as anyone has it open */
    uint32_t base; /* first id of the range, on the host */
    bool closed;   /* the host cannot give it a way out */
};

#define CAY_BERTH_FDS 4
#define CAY_NO_BERTH ((struct cay_berth){-1, -1, -1, -1, 0, false})

void cay_berth_done(struct cay_berth *b);
/* As descriptors beside a message, and back. */
void cay_berth_to_fds(const struct cay_berth *b, int fds[CAY_BERTH_FDS]);
struct cay_berth cay_berth_from_fds(const int fds[CAY_BERTH_FDS], uint32_t base);
/* Where the machine's id ranges are locked: /run/cay/ids. */
int cay_berth_open_ids(int *fd_out, struct cay_error *err);
/* The filler: answers each byte that comes on sock with a berth; ends with its peer. */
void cay_berth_serve(int sock, int ids_fd, bool guards); /* see cay_network_catch */
int cay_berth_receive(int sock, struct cay_berth *out, struct cay_error *err);
