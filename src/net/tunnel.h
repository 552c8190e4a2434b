/* SPDX-License-Identifier: Apache-2.0 */
/* Asking an HTTP proxy for a way to somebody else: CONNECT, and its answer. */
#pragma once
#include "net/host.h"

/* On a connected socket. name may be NULL: then the address is asked for. */
bool cay_tunnel_ask(int fd, const struct cay_net_proxy *proxy, const struct cay_address *to,
                    const char *name);
/* 1: what comes now comes from the other; 0: the answer is not whole yet; -1: refused. Not a byte
 * behind the answer is read. */
int cay_tunnel_answer(int fd);
