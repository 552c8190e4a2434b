/* SPDX-License-Identifier: Apache-2.0 */
/* The way out of the sandboxes, all of them: one thread that takes what they want of the network,
 * asks their policy, and carries it.
 *
 * A connection out of a sandbox comes to a listener of ours in there; the address that it wanted is
 * its socket's own. We dial that address from here, if the policy allows, and carry bytes until
 * both have ended. Questions for names are answered by us: only names that the policy allows, only
 * addresses that are nobody's secret; and what we gave is remembered, because a rule that names a
 * host allows exactly the addresses that we gave for it.
 *
 * Any thread may call. Without an attach a sandbox has no way out; nor has any when we are gone. */
#pragma once
#include "base/id.h"
#include "net/wanted.h"

struct cay_egress;

struct cay_egress_options {
    const char *allow;    /* "10.1.0.0/16,192.0.2.7:443": guarded nets that are open all the same */
    const char *proxy;    /* http://HOST:PORT that connections go through; or NULL */
    const char *no_proxy; /* hosts and nets that they do not: HOST,.DOMAIN,NET */
    const char *resolvers; /* file of nameservers; NULL: /etc/resolv.conf */
    const char *hosts;     /* names of this host's own choice; NULL: /etc/hosts */
};

int cay_egress_open(const struct cay_egress_options *o, struct cay_egress **out,
                    struct cay_error *err);
void cay_egress_close(struct cay_egress *e);

/* From now on the sandbox has what the policy allows. Takes the sockets; the policy is copied. What
 * an earlier run of it moved and wanted is forgotten. Returns at once: what comes to the sockets
 * meanwhile waits. */
void cay_egress_attach(struct cay_egress *e, const char *id, const char *account_id,
                       const struct cay_policy *policy, const struct cay_way_out *way);
/* Which of them are attached. */
void cay_egress_which(struct cay_egress *e, const char *const *ids, bool *attached, size_t count);
/* Another policy; what it does not allow is cut before this returns. False when not attached. */
bool cay_egress_change(struct cay_egress *e, const char *id, const struct cay_policy *policy);
/* Its connections are cut. What it moved and wanted stays known until cay_egress_forget. */
void cay_egress_detach(struct cay_egress *e, const char *id);
void cay_egress_forget(struct cay_egress *e, const char *id);

struct cay_traffic {
    uint64_t sent_bytes, received_bytes; /* as the sandbox sees it */
    uint32_t open;                       /* connections */
};
/* Since its start; zero for one that is not known. */
void cay_egress_traffic(struct cay_egress *e, const char *id, struct cay_traffic *out);

/* What it wanted. Newest last, at most CAY_NET_WANTED; returns how many. */
size_t cay_egress_wanted(struct cay_egress *e, const char *id, struct cay_wanted *out, size_t max);

/* What an account may have, with all its sandboxes together. */
struct cay_egress_limit {
    uint64_t day_bytes;   /* both ways, in a day of UTC; UINT64_MAX: any number */
    uint32_t connections; /* at once; UINT32_MAX: any number */
};
/* Of one that has more by now, the connections are cut within CAY_NET_TALLY_MS. */
void cay_egress_limit(struct cay_egress *e, const char *account_id,
                      const struct cay_egress_limit *limit);

struct cay_egress_use {
    char account_id[CAY_ID_SIZE];
    int64_t day;    /* since 1970 */
    uint64_t bytes; /* of that day */
    uint32_t connections;
};
/* Of all that moved something today, or (with an id) of one account; returns how many. */
size_t cay_egress_used(struct cay_egress *e, const char *account_id, struct cay_egress_use *out,
                       size_t max);
/* What was used before this process began; nothing if that was not today. */
void cay_egress_recall(struct cay_egress *e, const struct cay_egress_use *use);
