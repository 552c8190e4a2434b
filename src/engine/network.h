/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's net namespace is made of, in the namespace that the caller is in.
 *
 * Its loopback device is up and has, beside 127.0.0.1 and ::1, an address of its own; every other
 * address there is counts as local, so nothing needs a device to go out by. What is sent to one is
 * caught: TCP by the listener and UDP 53 by the socket that the server has there (CAY_SOCKET_OUT),
 * at a port of ours; everything else, and all of it when nobody has them, is refused at once. */
#pragma once
#include "base/error.h"
#include <stdbool.h>

#define CAY_NET_PORT 1 /* of those sockets */

/* Loopback, up; *sock_out is for what follows. */
int cay_network_open(int *sock_out, struct cay_error *err);
/* The way out. Without it everything is refused: closed, not open. `guards`: link-local
 * addresses are refused in there; not where an operator has opened guarded ones. The same each
 * time. */
int cay_network_catch(int sock, bool guards, struct cay_error *err);
