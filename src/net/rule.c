/* SPDX-License-Identifier: Apache-2.0 */
#include "net/rule.h"
#include "net/name.h"
#include "net/policy.h"
#include <arpa/inet.h>
#include <string.h>

#define SHOWN "%.100s" /* of a text that is not ours */

static const struct cay_ports any_port = {1, UINT16_MAX};

static int bad(struct cay_error *err, const char *text, const char *why)
{
    return cay_fail_as(err, CAY_ERR_INVALID, "VALIDATION_ERROR", SHOWN ": %s", text, why);
}

static bool read_ports(const char *s, struct cay_ports *out)
{
    char first[8], last[8];
    uint64_t low, high;
    const char *dash = strchr(s, '-');
    size_t len = dash ? (size_t)(dash - s) : strlen(s);
    if (len >= sizeof first || (dash && strlen(dash + 1) >= sizeof last))
        return false;
    memcpy(first, s, len);
    first[len] = '\0';
    cay_str_copy(last, sizeof last, dash ? dash + 1 : first);
    if (!cay_str_u64(first, UINT16_MAX, &low) || !cay_str_u64(last, UINT16_MAX, &high))
        return false;
    if (low < 1 || low > high)
        return false;
    *out = (struct cay_ports){(uint16_t)low, (uint16_t)high};
    return true;
}

/* Cuts ":443" off the host, which is a copy: behind a bracket, or the only colon. */
static bool cut_ports(char *host, char **inner_out, struct cay_ports *out)
{
    char *colon = strchr(host, ':');
    *inner_out = host;
    *out = any_port;
    if (host[0] == '[') {
        char *end = strchr(host, ']');
        if (!end)
            return false;
        *end = '\0';
        *inner_out = host + 1;
        return end[1] == '\0' || (end[1] == ':' && read_ports(end + 2, out));
    }
    if (!colon || strchr(colon + 1, ':'))
        return true; /* none, or IPv6 */
    *colon = '\0';
    return read_ports(colon + 1, out);
}

static bool read_ip(const char *s, struct in6_addr *out, bool *is4_out)
{
    struct in_addr v4;
    *is4_out = inet_pton(AF_INET, s, &v4) == 1;
    if (*is4_out)
        *out = cay_address_of4(ntohl(v4.s_addr));
    return *is4_out || inet_pton(AF_INET6, s, out) == 1;
}

static bool has_bits_behind(const struct in6_addr *ip, unsigned bits)
{
    for (unsigned i = bits; i < 128; i++)
        if (ip->s6_addr[i / 8] >> (7 - i % 8) & 1)
            return true;
    return false;
}

static int read_net(const char *text, char *s, struct cay_net_rule *out, struct cay_error *err)
{
    char *slash = strchr(s, '/');
    bool is4;
    uint64_t bits;
    if (slash)
        *slash = '\0';
    if (!read_ip(s, &out->net, &is4))
        return bad(err, text, "not an address; write it like 192.0.2.0/24 or 2001:db8::/32");
    bits = is4 ? 32 : 128;
    if (slash && !cay_str_u64(slash + 1, bits, &bits))
        return bad(err, text, is4 ? "the prefix must be 0 to 32" : "the prefix must be 0 to 128");
    out->bits = (unsigned)bits + (is4 ? 96 : 0);
    if (has_bits_behind(&out->net, out->bits))
        return bad(err, text, "the address has bits behind its prefix");
    return 0;
}

static bool is_ascii(const char *s)
{
    while (*s && (unsigned char)*s < 128)
        s++;
    return *s == '\0';
}

static int read_name(struct cay_arena *a, const char *text, const char *s, const char **out,
                     struct cay_error *err)
{
    char host[CAY_HOST_SIZE];
    bool below = strncmp(s, "*.", 2) == 0;
    if (strcmp(s, "*") == 0) {
        *out = "*";
        return 0;
    }
    if (!is_ascii(s))
        return bad(err, text, "give the name in ASCII (punycode, xn--…)");
    if (strstr(s, "://") || strchr(s, '/'))
        return bad(err, text, "give a name, not a URL");
    if (strchr(s + (below ? 2 : 0), '*'))
        return bad(err, text, "* may be all of it, or its first label");
    if (!cay_host_read(s + (below ? 2 : 0), strlen(s + (below ? 2 : 0)), host))
        return bad(err, text, "neither a name of a host nor an address");
    *out = cay_arena_printf(a, "%s%s", below ? "*." : "", host);
    return 0;
}

/* An address, or something that was meant as one. */
static bool looks_like_net(const char *s)
{
    return strchr(s, ':') || (s[0] != '\0' && s[strspn(s, "0123456789./")] == '\0');
}

int cay_rule_read(struct cay_arena *a, const char *text, struct cay_rule *out,
                  struct cay_error *err)
{
    struct cay_rule rule = {0};
    struct cay_ports ports;
    char *inner;
    if (strlen(text) > CAY_MAX_RULE)
        return cay_fail_as(err, CAY_ERR_INVALID, "VALIDATION_ERROR", "longer than %d bytes",
                           CAY_MAX_RULE);
    if (strstr(text, "://"))
        return bad(err, text, "give a name, not a URL");
    char *copy = cay_arena_strdup(a, text);
    bool bracket = text[0] == '[';
    if (!cut_ports(copy, &inner, &ports))
        return bad(err, text, "a port is 1 to 65535, or a range like 8000-8080");
    rule.is_net = bracket || looks_like_net(inner);
    int r = rule.is_net ? read_net(text, inner, &rule.net, err)
                        : read_name(a, text, inner, &rule.name.name, err);
    if (r < 0)
        return r;
    rule.name.ports = rule.net.ports = ports;
    *out = rule;
    return 0;
}

const char *cay_address_text(const struct in6_addr *ip, char out[INET6_ADDRSTRLEN])
{
    bool is4 = IN6_IS_ADDR_V4MAPPED(ip);
    return inet_ntop(is4 ? AF_INET : AF_INET6, is4 ? (const void *)&ip->s6_addr[12] : ip, out,
                     INET6_ADDRSTRLEN);
}

static const char *ports_text(struct cay_arena *a, const struct cay_ports *p)
{
    if (p->first == 1 && p->last == UINT16_MAX)
        return "";
    if (p->first == p->last)
        return cay_arena_printf(a, ":%u", p->first);
    return cay_arena_printf(a, ":%u-%u", p->first, p->last);
}

const char *cay_rule_text(struct cay_arena *a, const struct cay_rule *rule)
{
    char ip[INET6_ADDRSTRLEN];
    if (!rule->is_net)
        return cay_arena_printf(a, "%s%s", rule->name.name, ports_text(a, &rule->name.ports));
    bool is4 = IN6_IS_ADDR_V4MAPPED(&rule->net.net) && rule->net.bits >= 96;
    unsigned bits = rule->net.bits - (is4 ? 96 : 0);
    const char *ports = ports_text(a, &rule->net.ports);
    const char *prefix = bits == (is4 ? 32U : 128U) ? "" : cay_arena_printf(a, "/%u", bits);
    bool bracket = !is4 && ports[0];
    return cay_arena_printf(a, "%s%s%s%s%s", bracket ? "[" : "",
                            cay_address_text(&rule->net.net, ip), prefix, bracket ? "]" : "",
                            ports);
}
