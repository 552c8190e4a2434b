/* SPDX-License-Identifier: Apache-2.0 */
/* From what was asked for to a policy: each rule is read, counted and put where it belongs. */
#include "model/limits.h"
#include "net/name.h"
#include "net/policy.h"
#include "net/request.h"
#include "net/rule.h"
#include <stdio.h>
#include <string.h>

struct list {
    const struct cay_strs *rules;
    const char *field;
    bool deny, nets_only;
};

static size_t lists_of(const struct cay_network *n, struct list out[4])
{
    bool lists = n->form == CAY_NETWORK_LISTS;
    size_t count = 0;
    out[count++] =
        (struct list){&n->allow, lists ? "networkAllowlist" : "networkPolicy.allow", false, false};
    out[count++] = (struct list){&n->subnets_allow, "networkPolicy.subnets.allow", false, true};
    out[count++] =
        (struct list){&n->deny, lists ? "networkDenylist" : "networkPolicy.deny", true, false};
    out[count++] = (struct list){&n->subnets_deny, "networkPolicy.subnets.deny", true, true};
    return count;
}

static bool covers(const struct cay_ports *wide, const struct cay_ports *narrow)
{
    return wide->first <= narrow->first && wide->last >= narrow->last;
}

/* Would the rule take all of another away that allows the very same? */
static bool contradicts(const struct cay_policy *p, const struct cay_rule *rule)
{
    for (size_t i = 0; rule->is_net && i < p->allow_count; i++)
        if (p->allow[i].bits == rule->net.bits && covers(&rule->net.ports, &p->allow[i].ports) &&
            memcmp(&p->allow[i].net, &rule->net.net, sizeof rule->net.net) == 0)
            return true;
    for (size_t i = 0; !rule->is_net && i < p->name_count; i++)
        if (strcmp(p->names[i].name, rule->name.name) == 0 &&
            covers(&rule->name.ports, &p->names[i].ports))
            return true;
    return false;
}

static void add(struct cay_policy *p, const struct cay_rule *rule, bool deny)
{
    if (rule->is_net && deny)
        p->deny[p->deny_count++] = rule->net;
    else if (rule->is_net)
        p->allow[p->allow_count++] = rule->net;
    else if (deny)
        p->no_names[p->no_name_count++] = rule->name;
    else
        p->names[p->name_count++] = rule->name;
}

static int read_rule(struct cay_arena *a, const struct list *list, const char *text,
                     struct cay_policy *p, struct cay_error *err)
{
    struct cay_rule rule;
    int r = cay_rule_read(a, text, &rule, err);
    if (r < 0)
        return r;
    if (list->nets_only && !rule.is_net)
        return cay_fail_as(err, CAY_ERR_INVALID, "VALIDATION_ERROR",
                           "%.100s: not an address; write it like 192.0.2.0/24", text);
    if (list->deny && contradicts(p, &rule))
        return cay_fail_as(err, CAY_ERR_INVALID, "VALIDATION_ERROR",
                           "%.100s is both allowed and denied", text);
    add(p, &rule, list->deny);
    return 0;
}

static int read_list(struct cay_arena *a, const struct list *list, struct cay_policy *p,
                     struct cay_error *err)
{
    for (size_t i = 0; i < list->rules->count; i++) {
        int r = read_rule(a, list, list->rules->at[i], p, err);
        if (r < 0) {
            (void)snprintf(err->field, sizeof err->field, "%s[%zu]", list->field, i);
            return r;
        }
    }
    return 0;
}

/* "HOST NAME": the host must be one that is reached by its name. */
static int read_header(struct cay_arena *a, const struct cay_pair *pair, const struct cay_policy *p,
                       struct cay_header_rule *out, struct cay_error *err)
{
    struct cay_rule rule;
    size_t len = strcspn(pair->key, " ");
    const char *host = cay_arena_strndup(a, pair->key, len);
    const char *name = pair->key[len] ? pair->key + len + 1 : "";
    int r = cay_rule_read(a, host, &rule, err);
    if (r == 0 && rule.is_net)
        r = cay_fail_as(err, CAY_ERR_INVALID, "VALIDATION_ERROR",
                        "%.100s: headers are added for names of hosts", host);
    if (r == 0 && rule.name.name[0] != '*' &&
        cay_policy_name(p, rule.name.name, 0) != CAY_NET_ALLOWED)
        r = cay_fail_as(err, CAY_ERR_INVALID, "VALIDATION_ERROR", "%.100s is not allowed", host);
    if (r == 0 && !cay_request_may_set(name))
        r = cay_fail_as(err, CAY_ERR_INVALID, "VALIDATION_ERROR",
                        "%.64s is no header that can be set", name);
    if (r < 0) {
        (void)snprintf(err->field, sizeof err->field, "networkPolicy.headers.%s", host);
        return r;
    }
    *out = (struct cay_header_rule){rule.name, name, pair->value};
    return 0;
}

static int read_headers(struct cay_arena *a, const struct cay_pairs *all, struct cay_policy *p,
                        struct cay_error *err)
{
    if (all->count > CAY_MAX_NET_HEADERS)
        return cay_fail_field(err, "networkPolicy.headers", "a policy has at most %d headers",
                              CAY_MAX_NET_HEADERS);
    p->headers = cay_arena_alloc(a, (all->count + 1) * sizeof *p->headers);
    for (size_t i = 0; i < all->count; i++) {
        int r = read_header(a, &all->at[i], p, &p->headers[i], err);
        if (r < 0)
            return r;
    }
    p->header_count = all->count;
    return 0;
}

int cay_policy_read(struct cay_arena *a, const struct cay_network *network, struct cay_policy *out,
                    struct cay_error *err)
{
    struct list lists[4];
    struct cay_policy p = {.generation = network->generation,
                           .open = network->mode == CAY_NETWORK_OPEN ||
                                   network->mode == CAY_NETWORK_OBSERVE};
    size_t count = lists_of(network, lists), rules = 0;
    for (size_t i = 0; i < count; i++) {
        rules += lists[i].rules->count;
        if (rules > CAY_MAX_RULES)
            return cay_fail_field(err, lists[i].field, "a policy has at most %d rules",
                                  CAY_MAX_RULES);
    }
    p.names = cay_arena_alloc(a, (rules + 1) * sizeof *p.names);
    p.no_names = cay_arena_alloc(a, (rules + 1) * sizeof *p.no_names);
    p.allow = cay_arena_alloc(a, (rules + 1) * sizeof *p.allow);
    p.deny = cay_arena_alloc(a, (rules + 1) * sizeof *p.deny);
    for (size_t i = 0; i < count; i++) {
        int r = read_list(a, &lists[i], &p, err);
        if (r < 0)
            return r;
    }
    int r = read_headers(a, &network->headers, &p, err);
    if (r == 0)
        *out = p;
    return r;
}
