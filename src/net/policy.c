/* SPDX-License-Identifier: Apache-2.0 */
#include "net/policy.h"
#include "net/name.h"
#include "net/rule.h"
#include <string.h>

const char *cay_verdict_text(enum cay_verdict v)
{
    static const char *const texts[] = {
        [CAY_NET_ALLOWED] = "allowed",  [CAY_NET_GUARDED] = "guarded",
        [CAY_NET_DENIED] = "denied",    [CAY_NET_UNLISTED] = "unlisted",
        [CAY_NET_OVER_QUOTA] = "quota",
    };
    return texts[v];
}

static bool allows_name(const struct cay_policy *p, const char *host, uint16_t port)
{
    for (size_t i = 0; i < p->name_count; i++) {
        const struct cay_name_rule *rule = &p->names[i];
        if ((port == 0 || (port >= rule->ports.first && port <= rule->ports.last)) &&
            cay_host_matches(rule->name, host))
            return true;
    }
    return false;
}

/* With port 0 only a rule that denies every port does. */
static bool denies_name(const struct cay_policy *p, const char *host, uint16_t port)
{
    for (size_t i = 0; i < p->no_name_count; i++) {
        const struct cay_name_rule *rule = &p->no_names[i];
        uint16_t low = port ? port : 1, high = port ? port : UINT16_MAX;
        if (rule->ports.first <= low && rule->ports.last >= high &&
            cay_host_matches(rule->name, host))
            return true;
    }
    return false;
}

enum cay_verdict cay_policy_name(const struct cay_policy *p, const char *name, uint16_t port)
{
    char host[CAY_HOST_SIZE];
    if (!cay_host_read(name, strlen(name), host))
        return CAY_NET_UNLISTED;
    if (denies_name(p, host, port))
        return CAY_NET_DENIED;
    return p->open || allows_name(p, host, port) ? CAY_NET_ALLOWED : CAY_NET_UNLISTED;
}

/* What the names say that the address was given for. */
static enum cay_verdict by_names(const struct cay_policy *p, const struct cay_policy_asked *q)
{
    enum cay_verdict best = CAY_NET_UNLISTED;
    if (q->name_count == 0)
        return p->open ? CAY_NET_ALLOWED : CAY_NET_UNLISTED;
    for (size_t i = 0; i < q->name_count; i++) {
        enum cay_verdict v = cay_policy_name(p, q->names[i], q->to.port);
        if (v == CAY_NET_ALLOWED)
            return v;
        if (v == CAY_NET_DENIED)
            best = v;
    }
    return best;
}

static bool opened(const struct cay_policy_asked *q)
{
    for (size_t i = 0; i < q->operator_count; i++)
        if (cay_net_holds(&q->operators[i], &q->to))
            return true;
    return false;
}

enum cay_verdict cay_policy_address(const struct cay_policy *p, const struct cay_policy_asked *q)
{
    enum cay_verdict claimed =
        q->claim ? cay_policy_name(p, q->claim, q->to.port) : CAY_NET_ALLOWED;
    if (cay_address_guarded(&q->to.ip, q->own, q->own_count) && !opened(q))
        return CAY_NET_GUARDED;
    for (size_t i = 0; i < p->deny_count; i++)
        if (cay_net_leads(&p->deny[i], &q->to))
            return CAY_NET_DENIED;
    if (claimed == CAY_NET_DENIED)
        return CAY_NET_DENIED;
    for (size_t i = 0; i < p->allow_count; i++)
        if (cay_net_holds(&p->allow[i], &q->to))
            return CAY_NET_ALLOWED;
    enum cay_verdict named = by_names(p, q);
    return named == CAY_NET_ALLOWED ? claimed : named;
}
