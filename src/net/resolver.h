/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of names, from whom this host asks: /etc/hosts, then the nameservers of
 * /etc/resolv.conf, by UDP and, when an answer is too long for that, by TCP. Answers are kept as
 * long as they say. Each question has a socket and an id of its own, which nobody can guess. In the
 * loop's thread only. */
#pragma once
#include "net/dns.h"
#include "net/loop.h"

struct cay_resolver;

/* Who waits for an answer; a part of whatever it is for. */
struct cay_lookup {
    struct cay_lookup *next;
    struct cay_lookup **link; /* NULL: it waits for nothing */
    void (*done)(struct cay_lookup *l, const struct cay_dns_found *found);
};

/* Files as the manual pages say; they are read again when they change. */
struct cay_resolver *cay_resolver_new(struct cay_loop *loop, const char *resolvers,
                                      const char *hosts);
void cay_resolver_free(struct cay_resolver *r); /* nobody waits any more */
/* The name in its one form, for A or AAAA. done is called once, perhaps before this returns;
 * CAY_DNS_FAILED says that nobody answered. */
void cay_resolver_ask(struct cay_resolver *r, const char *name, uint16_t type,
                      struct cay_lookup *l);
void cay_lookup_cancel(struct cay_lookup *l);
