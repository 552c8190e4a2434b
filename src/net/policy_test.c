/* SPDX-License-Identifier: Apache-2.0 */
#include "model/limits.h"
#include "net/policy.h"
#include "net/rule.h"
#include "tests/test.h"
#include <stdio.h>

#define MOST 4

struct asked_for {
    enum cay_network_mode mode;
    const char *allow[MOST], *deny[MOST], *subnets_allow[MOST], *subnets_deny[MOST];
};

static struct cay_strs strs(const char *const list[MOST])
{
    struct cay_strs out = {.at = (const char **)(uintptr_t)list};
    while (out.count < MOST && list[out.count])
        out.count++;
    return out;
}

static struct cay_network network_of(const struct asked_for *f, enum cay_network_form form)
{
    return (struct cay_network){.form = form,
                                .mode = f->mode,
                                .allow = strs(f->allow),
                                .deny = strs(f->deny),
                                .subnets_allow = strs(f->subnets_allow),
                                .subnets_deny = strs(f->subnets_deny),
                                .generation = 7};
}

static struct cay_policy policy_of(struct cay_arena *a, const char *what, const struct asked_for *f)
{
    struct cay_error err = {0};
    struct cay_policy p = {0};
    struct cay_network n = network_of(f, CAY_NETWORK_POLICY);
    CHECK_EQ(what, cay_policy_read(a, &n, &p, &err), 0);
    CHECK_EQ(what, p.generation, 7);
    return p;
}

static const struct asked_for open_all = {CAY_NETWORK_OPEN}, watched = {CAY_NETWORK_OBSERVE},
                              off = {CAY_NETWORK_OFF}, nothing = {CAY_NETWORK_LISTED},
                              some = {CAY_NETWORK_LISTED,
                                      .allow = {"a.example", "*.b.example:443", "c.example:80-90",
                                                "192.0.2.9"},
                                      .subnets_allow = {"198.51.100.0/24:443", "10.0.0.0/8"},
                                      .subnets_deny = {"198.51.100.7", "203.0.113.0/24"}},
                              but = {CAY_NETWORK_OPEN,
                                     .deny = {"bad.example", "*.bad.example", "half.example:25",
                                              "203.0.113.0/24"}},
                              all_names = {CAY_NETWORK_LISTED, .allow = {"*"}};

static const struct {
    const char *what;
    const struct asked_for *f;
    const char *name;
    uint16_t port;
    enum cay_verdict want;
} names[] = {
    {"open", &open_all, "x.example", 1, CAY_NET_ALLOWED},
    {"open, a resolver", &open_all, "x.example", 0, CAY_NET_ALLOWED},
    {"observed", &watched, "x.example", 0, CAY_NET_ALLOWED},
    {"open, no name", &open_all, "x y", 0, CAY_NET_UNLISTED},
    {"open, a number", &open_all, "2130706433", 0, CAY_NET_UNLISTED},
    {"open, the root", &open_all, "", 0, CAY_NET_UNLISTED},
    {"off", &off, "a.example", 0, CAY_NET_UNLISTED},
    {"nothing listed", &nothing, "a.example", 443, CAY_NET_UNLISTED},
    {"listed", &some, "a.example", 1, CAY_NET_ALLOWED},
    {"listed, otherwise spelled", &some, "A.Example.", 65535, CAY_NET_ALLOWED},
    {"below what is listed", &some, "x.a.example", 1, CAY_NET_UNLISTED},
    {"not listed", &some, "aa.example", 1, CAY_NET_UNLISTED},
    {"by pattern", &some, "x.b.example", 443, CAY_NET_ALLOWED},
    {"by pattern, deeper", &some, "x.y.b.example", 443, CAY_NET_ALLOWED},
    {"by pattern, not its root", &some, "b.example", 443, CAY_NET_UNLISTED},
    {"by pattern, other port", &some, "x.b.example", 80, CAY_NET_UNLISTED},
    {"by pattern, a resolver", &some, "x.b.example", 0, CAY_NET_ALLOWED},
    {"range, first", &some, "c.example", 80, CAY_NET_ALLOWED},
    {"range, last", &some, "c.example", 90, CAY_NET_ALLOWED},
    {"range, before", &some, "c.example", 79, CAY_NET_UNLISTED},
    {"range, behind", &some, "c.example", 91, CAY_NET_UNLISTED},
    {"denied", &but, "bad.example", 443, CAY_NET_DENIED},
    {"denied, otherwise spelled", &but, "BAD.example.", 443, CAY_NET_DENIED},
    {"denied, a resolver", &but, "bad.example", 0, CAY_NET_DENIED},
    {"denied below", &but, "x.bad.example", 0, CAY_NET_DENIED},
    {"another", &but, "good.example", 443, CAY_NET_ALLOWED},
    {"one port denied", &but, "half.example", 25, CAY_NET_DENIED},
    {"its others not", &but, "half.example", 443, CAY_NET_ALLOWED},
    {"so it resolves", &but, "half.example", 0, CAY_NET_ALLOWED},
    {"all names", &all_names, "x.y.z", 9, CAY_NET_ALLOWED},
};

TEST(policy_of_names)
{
    for (size_t i = 0; i < COUNT(names); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_policy p = policy_of(&a, names[i].what, names[i].f);
        CHECK_EQ(names[i].what, cay_policy_name(&p, names[i].name, names[i].port), names[i].want);
    }
}

static const struct {
    const char *what;
    const struct asked_for *f;
    const char *to; /* with its port */
    enum cay_verdict want;
    const char *names[MOST];
    const char *claim, *opened;
} addresses[] = {
    {"open", &open_all, "192.0.2.1:80", CAY_NET_ALLOWED},
    {"open, IPv6", &open_all, "[2001:db8::1]:80", CAY_NET_ALLOWED},
    {"open, guarded", &open_all, "10.0.0.1:80", CAY_NET_GUARDED},
    {"open, metadata", &open_all, "169.254.169.254:80", CAY_NET_GUARDED},
    {"open, metadata, IPv6", &open_all, "[fd00:ec2::254]:80", CAY_NET_GUARDED},
    {"open, rebound", &open_all, "127.0.0.1:80", CAY_NET_GUARDED, {"x.example"}},
    {"open, the host's own", &open_all, "198.51.100.200:80", CAY_NET_GUARDED},
    {"observed, guarded", &watched, "127.0.0.1:80", CAY_NET_GUARDED},
    {"observed", &watched, "192.0.2.1:80", CAY_NET_ALLOWED},
    {"off", &off, "192.0.2.1:80", CAY_NET_UNLISTED},
    {"off, named", &off, "192.0.2.1:80", CAY_NET_UNLISTED, {"a.example"}},
    {"given for an allowed name", &some, "192.0.2.1:80", CAY_NET_ALLOWED, {"a.example"}},
    {"for two, one allowed", &some, "192.0.2.1:80", CAY_NET_ALLOWED, {"x.example", "a.example"}},
    {"for another", &some, "192.0.2.1:80", CAY_NET_UNLISTED, {"x.example"}},
    {"for none", &some, "192.0.2.1:80", CAY_NET_UNLISTED},
    {"for one on another port", &some, "192.0.2.1:80", CAY_NET_UNLISTED, {"x.b.example"}},
    {"for one, rebound", &some, "192.168.0.1:80", CAY_NET_GUARDED, {"a.example"}},
    {"for one, into what is denied", &some, "203.0.113.5:80", CAY_NET_DENIED, {"a.example"}},
    {"a claim alone", &some, "192.0.2.1:80", CAY_NET_UNLISTED, .claim = "a.example"},
    {"a claim that fits", &some, "192.0.2.1:80", CAY_NET_ALLOWED, {"a.example"}, "a.example"},
    {"a claim beside it", &some, "192.0.2.1:80", CAY_NET_UNLISTED, {"a.example"}, "x.example"},
    {"an address", &some, "192.0.2.9:22", CAY_NET_ALLOWED},
    {"an address, whatever is claimed", &some, "192.0.2.9:22", CAY_NET_ALLOWED,
     .claim = "x.example"},
    {"a net", &some, "198.51.100.8:443", CAY_NET_ALLOWED},
    {"a net, another port", &some, "198.51.100.8:444", CAY_NET_UNLISTED},
    {"denied within a net", &some, "198.51.100.7:443", CAY_NET_DENIED},
    {"denied, by NAT64", &some, "[64:ff9b::198.51.100.7]:443", CAY_NET_DENIED},
    {"allowed, not by NAT64", &some, "[64:ff9b::198.51.100.8]:443", CAY_NET_UNLISTED},
    {"a guarded net is not the caller's", &some, "10.0.0.1:443", CAY_NET_GUARDED},
    {"but the operator's", &some, "10.0.0.1:443", CAY_NET_ALLOWED, .opened = "10.0.0.1:443"},
    {"on that port", &some, "10.0.0.1:442", CAY_NET_GUARDED, .opened = "10.0.0.1:443"},
    {"that is not enough", &some, "192.168.0.1:443", CAY_NET_UNLISTED, .opened = "192.168.0.0/16"},
    {"nor if it is denied", &but, "203.0.113.5:80", CAY_NET_DENIED, .opened = "203.0.113.0/24"},
    {"open and opened", &open_all, "10.0.0.1:80", CAY_NET_ALLOWED, .opened = "10.0.0.0/8"},
    {"no denied name", &but, "192.0.2.1:80", CAY_NET_ALLOWED, {"good.example"}},
    {"a denied name", &but, "192.0.2.1:80", CAY_NET_DENIED, {"bad.example"}},
    {"shared with a denied name",
     &but,
     "192.0.2.1:80",
     CAY_NET_ALLOWED,
     {"bad.example", "good.example"}},
    {"shared, and claimed",
     &but,
     "192.0.2.1:80",
     CAY_NET_DENIED,
     {"bad.example", "good.example"},
     "bad.example"},
    {"denied by claim alone", &but, "192.0.2.1:80", CAY_NET_DENIED, .claim = "x.bad.example"},
    {"a denied net", &but, "203.0.113.1:80", CAY_NET_DENIED},
    {"all names, by none", &all_names, "192.0.2.1:80", CAY_NET_UNLISTED},
    {"all names, by one", &all_names, "192.0.2.1:80", CAY_NET_ALLOWED, {"x.example"}},
};

static struct cay_net_rule net_of(struct cay_arena *a, const char *text)
{
    struct cay_error err = {0};
    struct cay_rule rule = {0};
    CHECK_EQ(text, cay_rule_read(a, text, &rule, &err), 0);
    return rule.net;
}

TEST(policy_of_addresses)
{
    for (size_t i = 0; i < COUNT(addresses); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_policy p = policy_of(&a, addresses[i].what, addresses[i].f);
        struct cay_net_rule to = net_of(&a, addresses[i].to), operators = {0};
        struct in6_addr own = net_of(&a, "198.51.100.200").net;
        struct cay_policy_asked q = {.to = {to.net, to.ports.first},
                                     .names = addresses[i].names,
                                     .name_count = strs(addresses[i].names).count,
                                     .claim = addresses[i].claim,
                                     .own = &own,
                                     .own_count = 1,
                                     .operators = &operators};
        if (addresses[i].opened) {
            operators = net_of(&a, addresses[i].opened);
            q.operator_count = 1;
        }
        CHECK_EQ(addresses[i].what, cay_policy_address(&p, &q), addresses[i].want);
    }
}

static const struct {
    const char *what, *field;
    enum cay_network_form form;
    struct asked_for f;
} faults[] = {
    {"IDN", "networkPolicy.allow[1]", CAY_NETWORK_POLICY, {.allow = {"a", "\xC3\xBC.de"}}},
    {"a bare pattern", "networkPolicy.allow[0]", CAY_NETWORK_POLICY, {.allow = {"*."}}},
    {"a name as a subnet",
     "networkPolicy.subnets.allow[1]",
     CAY_NETWORK_POLICY,
     {.subnets_allow = {"192.0.2.0/24", "a.example"}}},
    {"a bad prefix",
     "networkPolicy.subnets.deny[0]",
     CAY_NETWORK_POLICY,
     {.subnets_deny = {"192.0.2.0/99"}}},
    {"a net allowed and denied",
     "networkPolicy.subnets.deny[1]",
     CAY_NETWORK_POLICY,
     {.subnets_allow = {"0.0.0.0/0"}, .subnets_deny = {"192.0.2.0/24", "0.0.0.0/0"}}},
    {"the same in other words",
     "networkPolicy.subnets.deny[0]",
     CAY_NETWORK_POLICY,
     {.allow = {"192.0.2.1:443"}, .subnets_deny = {"::ffff:192.0.2.1/128"}}},
    {"a name allowed and denied",
     "networkDenylist[0]",
     CAY_NETWORK_LISTS,
     {.allow = {"a.example"}, .deny = {"A.example."}}},
    {"a list", "networkAllowlist[2]", CAY_NETWORK_LISTS, {.allow = {"a", "b", "c:0"}}},
};

TEST(policy_faults_name_their_field)
{
    for (size_t i = 0; i < COUNT(faults); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_policy p;
        struct cay_network n = network_of(&faults[i].f, faults[i].form);
        CHECK_EQ(faults[i].what, cay_policy_read(&a, &n, &p, &err), CAY_ERR_INVALID);
        CHECK_STR(faults[i].what, err.field, faults[i].field);
        CHECK_STR(faults[i].what, cay_error_name(&err), "VALIDATION_ERROR");
    }
}

TEST(policy_denies_a_part_of_what_it_allows)
{
    static const struct asked_for f = {CAY_NETWORK_LISTED, .subnets_allow = {"192.0.2.0/24"},
                                       .subnets_deny = {"192.0.2.0/24:22"}};
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CHECK_EQ("both", policy_of(&a, "both", &f).deny_count, 1);
}

TEST(policy_has_so_many_rules)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_policy p;
    struct cay_network n = {.form = CAY_NETWORK_LISTS, .mode = CAY_NETWORK_LISTED};
    for (size_t i = 0; i < CAY_MAX_RULES; i++)
        cay_strs_push(&a, &n.allow, cay_arena_printf(&a, "h%zu.example", i));
    CHECK_EQ("most", cay_policy_read(&a, &n, &p, &err), 0);
    CHECK_EQ("most", p.name_count, CAY_MAX_RULES);
    cay_strs_push(&a, &n.deny, "x.example");
    CHECK_EQ("one more", cay_policy_read(&a, &n, &p, &err), CAY_ERR_INVALID);
    CHECK_STR("one more", err.field, "networkDenylist");
}
