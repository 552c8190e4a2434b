/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the kernel's network, many at once: built in a buffer, sent as one, and heard of only
 * if one of them failed. */
#pragma once
#include "base/error.h"
#include <stdint.h>

#define CAY_NETLINK_MAX 16384

struct cay_netlink {
    _Alignas(8) char data[CAY_NETLINK_MAX];
    size_t len, message; /* where the message begins that is being built */
    uint32_t count;
};

/* A message with its family's own header behind the netlink one. Too much for the buffer aborts:
 * what is built is ours, and the same every time. */
void cay_netlink_begin(struct cay_netlink *n, uint16_t type, uint16_t flags, const void *head,
                       size_t head_len);
void cay_netlink_put(struct cay_netlink *n, uint16_t attr, const void *data, size_t len);
void cay_netlink_put_text(struct cay_netlink *n, uint16_t attr, const char *text);
void cay_netlink_put_be32(struct cay_netlink *n, uint16_t attr, uint32_t value);
/* What is put in between is inside `attr`; the result goes to `end`. */
size_t cay_netlink_nest(struct cay_netlink *n, uint16_t attr);
void cay_netlink_nest_end(struct cay_netlink *n, size_t nest);
/* The last message of all asks for an answer; a batch has one more behind it, that cannot. */
void cay_netlink_want_answer(struct cay_netlink *n);
/* A socket to the net namespace that the caller is in, or an error. */
int cay_netlink_open(int protocol, struct cay_error *err);
int cay_netlink_send(const struct cay_netlink *n, int sock, struct cay_error *err);
