/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses are nobody's business inside, and what a net holds.
 *
 * Of IPv6 only what is globally unicast (2000::/3) is not guarded, so that a kind of address which
 * is new or forgotten here is refused. Where an IPv6 address has an IPv4 address in it, through
 * which it may be reached, that one is judged too. */
#include "net/policy.h"
#include <string.h>

struct net4 {
    uint32_t net;
    unsigned bits;
};

#define NET4(a, b, c, d, bits)                                                                     \
    {                                                                                              \
        (uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d), bits                                     \
    }

static const struct net4 guarded4[] = {
    NET4(0, 0, 0, 0, 8),        /* this network */
    NET4(10, 0, 0, 0, 8),       /* private */
    NET4(100, 64, 0, 0, 10),    /* shared by a provider's customers; metadata of some clouds */
    NET4(127, 0, 0, 0, 8),      /* loopback */
    NET4(168, 63, 129, 16, 32), /* metadata of a cloud, although it looks public */
    NET4(169, 254, 0, 0, 16),   /* link-local, metadata */
    NET4(172, 16, 0, 0, 12),    /* private */
    NET4(192, 0, 0, 0, 24),     /* protocol assignments; metadata of a cloud */
    NET4(192, 168, 0, 0, 16),   /* private */
    NET4(198, 18, 0, 0, 15),    /* benchmarks: in no table of the Internet */
    NET4(224, 0, 0, 0, 3),      /* multicast, reserved, broadcast */
};

static bool is_guarded4(uint32_t ip)
{
    for (size_t i = 0; i < CAY_COUNT(guarded4); i++)
        if ((ip ^ guarded4[i].net) >> (32 - guarded4[i].bits) == 0)
            return true;
    return false;
}

static uint32_t word(const struct in6_addr *ip, size_t at)
{
    return (uint32_t)ip->s6_addr[at] << 24 | (uint32_t)ip->s6_addr[at + 1] << 16 |
           (uint32_t)ip->s6_addr[at + 2] << 8 | ip->s6_addr[at + 3];
}

struct in6_addr cay_address_of4(uint32_t ip)
{
    struct in6_addr out = {0};
    out.s6_addr[10] = out.s6_addr[11] = 0xff;
    for (size_t i = 0; i < 4; i++)
        out.s6_addr[12 + i] = (uint8_t)(ip >> (24 - 8 * i));
    return out;
}

static bool is_mapped(const struct in6_addr *ip)
{
    return word(ip, 0) == 0 && word(ip, 4) == 0 && word(ip, 8) == 0xffff;
}

static bool is_nat64(const struct in6_addr *ip)
{
    return word(ip, 0) == 0x0064ff9b && word(ip, 4) == 0 && word(ip, 8) == 0;
}

/* The IPv4 addresses that an IPv6 address leads through; at most two. */
static size_t embedded(const struct in6_addr *ip, uint32_t out[2])
{
    size_t count = 0;
    uint32_t first = word(ip, 0);
    if (is_mapped(ip))
        return 0;
    if (first == 0 || is_nat64(ip)) /* v4-compatible, v4-translated */
        out[count++] = word(ip, 12);
    else if (first >> 16 == 0x2002) /* 6to4 */
        out[count++] = first << 16 | word(ip, 4) >> 16;
    else if (first == 0x20010000) { /* Teredo: its server, and the client, turned over */
        out[count++] = word(ip, 4);
        out[count++] = ~word(ip, 12);
    } else if ((word(ip, 8) & 0xfdffffff) == 0x5efe) /* ISATAP */
        out[count++] = word(ip, 12);
    return count;
}

static bool is_guarded(const struct in6_addr *ip)
{
    uint32_t inner[2];
    if (is_mapped(ip))
        return is_guarded4(word(ip, 12));
    if (!is_nat64(ip) && ip->s6_addr[0] >> 5 != 1)
        return true;
    size_t count = embedded(ip, inner);
    for (size_t i = 0; i < count; i++)
        if (is_guarded4(inner[i]))
            return true;
    return false;
}

static bool is_own(const struct in6_addr *ip, const struct in6_addr *own, size_t own_count)
{
    for (size_t i = 0; i < own_count; i++)
        if (memcmp(ip, &own[i], sizeof *ip) == 0)
            return true;
    return false;
}

bool cay_address_guarded(const struct in6_addr *ip, const struct in6_addr *own, size_t own_count)
{
    uint32_t inner[2];
    if (is_guarded(ip) || is_own(ip, own, own_count))
        return true;
    size_t count = embedded(ip, inner);
    for (size_t i = 0; i < count; i++) {
        struct in6_addr plain = cay_address_of4(inner[i]);
        if (is_own(&plain, own, own_count))
            return true;
    }
    return false;
}

/* A net of IPv6 holds no IPv4: "::/0" is not "0.0.0.0/0". */
static bool holds(const struct cay_net_rule *rule, const struct in6_addr *ip)
{
    unsigned bytes = rule->bits / 8, rest = rule->bits % 8;
    if (rule->bits > 128 || (rule->bits < 96 && is_mapped(ip)))
        return false;
    if (memcmp(&rule->net, ip, bytes) != 0)
        return false;
    return rest == 0 || (rule->net.s6_addr[bytes] ^ ip->s6_addr[bytes]) >> (8 - rest) == 0;
}

bool cay_net_holds(const struct cay_net_rule *rule, const struct cay_address *to)
{
    return to->port >= rule->ports.first && to->port <= rule->ports.last && holds(rule, &to->ip);
}

bool cay_net_leads(const struct cay_net_rule *rule, const struct cay_address *to)
{
    uint32_t inner[2];
    if (cay_net_holds(rule, to))
        return true;
    size_t count = embedded(&to->ip, inner);
    for (size_t i = 0; i < count; i++) {
        struct cay_address plain = {cay_address_of4(inner[i]), to->port};
        if (cay_net_holds(rule, &plain))
            return true;
    }
    return false;
}
