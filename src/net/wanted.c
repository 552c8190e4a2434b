/* SPDX-License-Identifier: Apache-2.0 */
#include "net/wanted.h"
#include "net/name.h"
#include "net/rule.h"
#include <stdlib.h>
#include <string.h>

bool cay_wanted_open(const struct cay_wanted *w)
{
    char host[CAY_HOST_SIZE];
    if (w->verdict == CAY_NET_GUARDED || w->verdict == CAY_NET_DENIED)
        return false;
    return w->to.port != 0 || cay_host_read(w->name, strlen(w->name), host);
}

/* One port, or all where none is known. */
static struct cay_rule rule_of(struct cay_arena *a, const struct cay_wanted *w)
{
    char host[CAY_HOST_SIZE];
    struct cay_ports ports = {w->to.port, w->to.port};
    struct cay_rule rule = {.is_net = !cay_host_read(w->name, strlen(w->name), host)};
    if (w->to.port == 0)
        ports = (struct cay_ports){1, UINT16_MAX};
    if (rule.is_net)
        rule.net = (struct cay_net_rule){.net = w->to.ip, .bits = 128};
    else
        rule.name.name = cay_arena_strdup(a, host);
    rule.net.ports = rule.name.ports = ports;
    return rule;
}

static int compare_hosts(const struct cay_rule *a, const struct cay_rule *b)
{
    if (a->is_net != b->is_net)
        return a->is_net ? 1 : -1; /* names first */
    return a->is_net ? memcmp(&a->net.net, &b->net.net, sizeof a->net.net)
                     : strcmp(a->name.name, b->name.name);
}

static int compare(const void *one, const void *other)
{
    const struct cay_rule *a = one, *b = other;
    int order = compare_hosts(a, b);
    return order ? order : (int)a->name.ports.first - (int)b->name.ports.first;
}

static bool is_any(const struct cay_rule *rule)
{
    return rule->name.ports.first == 1 && rule->name.ports.last == UINT16_MAX;
}

/* The next rule into the last one: the same ports, those that follow, or a name of which no port is
 * known beside ports that are. */
static bool merge(struct cay_rule *last, const struct cay_rule *next)
{
    if (compare_hosts(last, next) != 0)
        return false;
    if (is_any(next))
        return true;
    if (is_any(last))
        last->name.ports = next->name.ports;
    else if (next->name.ports.first > (unsigned)last->name.ports.last + 1)
        return false;
    else if (next->name.ports.last > last->name.ports.last)
        last->name.ports.last = next->name.ports.last;
    last->net.ports = last->name.ports;
    return true;
}

void cay_wanted_propose(struct cay_arena *a, const struct cay_wanted *wanted, size_t count,
                        struct cay_network *out)
{
    struct cay_rule *rules = cay_arena_alloc(a, (count + 1) * sizeof *rules);
    size_t rule_count = 0, kept = 0;
    for (size_t i = 0; i < count; i++)
        if (cay_wanted_open(&wanted[i]))
            rules[rule_count++] = rule_of(a, &wanted[i]);
    qsort(rules, rule_count, sizeof *rules, compare);
    for (size_t i = 0; i < rule_count; i++)
        if (kept == 0 || !merge(&rules[kept - 1], &rules[i]))
            rules[kept++] = rules[i];
    *out = (struct cay_network){.form = CAY_NETWORK_POLICY, .mode = CAY_NETWORK_LISTED};
    for (size_t i = 0; i < kept; i++)
        cay_strs_push(a, &out->allow, cay_rule_text(a, &rules[i]));
}
