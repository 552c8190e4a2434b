/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's own host is to a sandbox: addresses that are never reached, nets that its
 * operator opened all the same, and the proxy that leads out of it, if there is one. */
#pragma once
#include "base/str.h"
#include "net/policy.h"

struct cay_egress_options;

struct cay_net_proxy {
    struct cay_address at; /* port 0: there is none */
    char credentials[256]; /* base64 of USER:PASSWORD, or empty */
    struct cay_strs names; /* that are reached without it: "a.b" also means what is below */
    struct cay_net_rule *nets;
    size_t net_count;
};

struct cay_net_host {
    struct cay_arena arena;
    struct in6_addr own[CAY_NET_OWN];
    size_t own_count;
    int64_t looked_ms;
    struct cay_net_rule operators[CAY_NET_OPERATORS];
    size_t operator_count;
    struct cay_net_proxy proxy;
};

/* Options as people write them; a fault is CAY_ERR_INVALID. The proxy's name is looked up, so this
 * may wait. */
int cay_net_host_open(struct cay_net_host *h, const struct cay_egress_options *o,
                      struct cay_error *err);
void cay_net_host_done(struct cay_net_host *h);
/* Its addresses are looked at again now and then. */
void cay_net_host_look(struct cay_net_host *h, int64_t now_ms);
bool cay_net_host_guards(const struct cay_net_host *h, const struct in6_addr *ip);
/* Does this one go through the proxy? name may be NULL. */
bool cay_net_host_proxied(const struct cay_net_host *h, const struct cay_address *to,
                          const char *name);
