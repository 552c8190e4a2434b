/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy says of a name or an address. Pure: nothing here asks, waits or remembers.
 *
 * A connection is judged twice. When the sandbox asks for a name, the name is (then it gets
 * addresses, and we remember that we gave them for it); when it connects, the address is, together
 * with the names we gave it for. Whatever a name may resolve to, an address that is nobody's
 * business inside (cay_address_guarded) is never dialled unless the operator named it. */
#pragma once
#include "base/error.h"
#include "model/network.h"

enum cay_verdict {
    CAY_NET_ALLOWED,
    CAY_NET_GUARDED,    /* loopback, private, link-local, metadata, multicast, this host's own */
    CAY_NET_DENIED,     /* a deny rule names it */
    CAY_NET_UNLISTED,   /* no rule allows it */
    CAY_NET_OVER_QUOTA, /* a policy allows it, but the account has used up what it may have */
};
const char *cay_verdict_text(enum cay_verdict v); /* "allowed", "guarded", … */

/* Loopback, private, link-local, shared, metadata, multicast and reserved, in every spelling
 * (v4-mapped, v4-compatible, NAT64, 6to4, Teredo). This host's own addresses are not known here:
 * they come as `own`. */
bool cay_address_guarded(const struct in6_addr *ip, const struct in6_addr *own, size_t own_count);
struct in6_addr cay_address_of4(uint32_t ip); /* in the host's byte order */

/* Is this address, with its port, in that net? leads: or does it lead through one that is, being a
 * NAT64, 6to4 or Teredo address? */
bool cay_net_holds(const struct cay_net_rule *rule, const struct cay_address *to);
bool cay_net_leads(const struct cay_net_rule *rule, const struct cay_address *to);

/* Checks what was asked for and makes a policy of it, in the arena. A fault is
 * CAY_ERR_INVALID and names its field ("networkPolicy.allow[3]"). The values of headers are those
 * that are there: sealed. */
int cay_policy_read(struct cay_arena *a, const struct cay_network *network, struct cay_policy *out,
                    struct cay_error *err);

/* Of a name, in whatever spelling. Port 0 asks whether any port of it may be reached: the question
 * of a resolver. What is no name of a host is unlisted. */
enum cay_verdict cay_policy_name(const struct cay_policy *p, const char *name, uint16_t port);
/* Of an address; `names` are those that the resolver gave it for, in this sandbox. `operators` are
 * the nets that the operator opened although they are guarded; both may be empty. `claim` is the
 * name that the connection's first bytes say (net/claim.h), or NULL: it only ever takes away. */
struct cay_policy_asked {
    struct cay_address to;
    const char *const *names;
    size_t name_count;
    const char *claim;
    const struct in6_addr *own;
    size_t own_count;
    const struct cay_net_rule *operators;
    size_t operator_count;
};
enum cay_verdict cay_policy_address(const struct cay_policy *p, const struct cay_policy_asked *q);
