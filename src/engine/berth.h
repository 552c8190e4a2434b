/* SPDX-License-Identifier: Apache-2.0 */
/* A berth is what a sandbox needs before it has a process: a user namespace with an id range of its
 * own, and a net namespace with nothing in it but a loopback device. Making one takes half a
 * millisecond, so a process of its own keeps a few ready. A berth is used once. */
#pragma once
#include "base/error.h"
#include <stdint.h>

#define CAY_BERTH_IDS 65536U

struct cay_berth {
    int net_fd, user_fd;
    int lock_fd;   /* holds the range, machine-wide, for as long as anyone has it open */
    uint32_t base; /* first id of the range, on the host */
};

void cay_berth_done(struct cay_berth *b);
/* Where the machine's id ranges are locked: /run/cay/ids. */
int cay_berth_open_ids(int *fd_out, struct cay_error *err);
/* The filler: answers each byte that comes on sock with a berth; ends with its peer. */
void cay_berth_serve(int sock, int ids_fd);
int cay_berth_receive(int sock, struct cay_berth *out, struct cay_error *err);
