/* SPDX-License-Identifier: Apache-2.0 */
/* A rule as people write it, and back.
 *
 *   example.com   *.example.com:443   *:80-90   192.0.2.0/24   192.0.2.7:22
 *   2001:db8::/32   [2001:db8::1]:443   [2001:db8::/32]:8000-8080
 *
 * Strict: one spelling of each thing is taken, the rest is refused with what to write instead. */
#pragma once
#include "base/error.h"
#include "model/network.h"

struct cay_rule {
    bool is_net; /* which of the two it is */
    struct cay_name_rule name;
    struct cay_net_rule net;
};

/* The name goes into the arena. A fault is CAY_ERR_INVALID; which field it is the caller knows. */
int cay_rule_read(struct cay_arena *a, const char *text, struct cay_rule *out,
                  struct cay_error *err);
const char *cay_rule_text(struct cay_arena *a, const struct cay_rule *rule);
const char *cay_address_text(const struct in6_addr *ip, char out[INET6_ADDRSTRLEN]);
