/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets made in the net namespace of a process. */
#pragma once
#include "base/error.h"
#include "base/packet.h"
#include "model/network.h"

/* Beside enum cay_socket_kind, for the engine alone. */
enum {
    CAY_SOCKET_PID1 = CAY_SOCKET_OUT + 1, /* connected to the cay-init in there */
    CAY_SOCKET_GUARDED,                   /* the same, when the network was made first */
    CAY_SOCKET_UNGUARDED,                 /* the same, see cay_network_catch */
};

struct cay_sockets {
    int fds[CAY_PACKET_FDS];
    int count;
};

int cay_sockets_make(pid_t pid, uint32_t kind, struct cay_sockets *out, struct cay_error *err);
void cay_sockets_close(struct cay_sockets *s);
