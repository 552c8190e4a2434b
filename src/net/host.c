/* SPDX-License-Identifier: Apache-2.0 */
#include "net/host.h"
#include "net/egress.h"
#include "net/rule.h"
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define PROXY_PORT "3128"

void cay_net_host_look(struct cay_net_host *h, int64_t now_ms)
{
    struct ifaddrs *all;
    if (h->looked_ms && now_ms - h->looked_ms < CAY_NET_LOOK_MS)
        return;
    h->looked_ms = now_ms;
    if (getifaddrs(&all) < 0)
        return; /* what was known stays known */
    h->own_count = 0;
    for (struct ifaddrs *i = all; i && h->own_count < CAY_NET_OWN; i = i->ifa_next) {
        if (!i->ifa_addr)
            continue;
        if (i->ifa_addr->sa_family == AF_INET)
            h->own[h->own_count++] =
                cay_address_of4(ntohl(((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr));
        else if (i->ifa_addr->sa_family == AF_INET6)
            h->own[h->own_count++] = ((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
    }
    freeifaddrs(all);
}

bool cay_net_host_guards(const struct cay_net_host *h, const struct in6_addr *ip)
{
    const struct cay_address any = {.ip = *ip};
    if (!cay_address_guarded(ip, h->own, h->own_count))
        return false;
    for (size_t i = 0; i < h->operator_count; i++) {
        struct cay_net_rule rule = h->operators[i];
        rule.ports.first = 0; /* whichever port it will be */
        if (cay_net_holds(&rule, &any))
            return false;
    }
    return true;
}

/* ---- options ---- */

static int read_nets(struct cay_net_host *h, const char *text, struct cay_error *err)
{
    char *copy = cay_arena_strdup(&h->arena, text), *save;
    for (char *word = strtok_r(copy, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        struct cay_rule rule;
        int r = cay_rule_read(&h->arena, word, &rule, err);
        if (r < 0)
            return cay_wrap(err, "cannot open %s to sandboxes", word);
        if (!rule.is_net)
            return cay_fail(err, CAY_ERR_INVALID,
                            "cannot open %s to sandboxes: only addresses and nets can be named",
                            word);
        if (h->operator_count == CAY_NET_OPERATORS)
            return cay_fail(err, CAY_ERR_INVALID, "more than %d nets to open", CAY_NET_OPERATORS);
        h->operators[h->operator_count++] = rule.net;
    }
    return 0;
}

static int look_up(const char *host, const char *port, struct cay_address *out,
                   struct cay_error *err)
{
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
    int r = getaddrinfo(host, port, &hints, &found);
    if (r != 0)
        return cay_fail(err, CAY_ERR_INVALID, "cannot find the proxy %s: %s", host,
                        gai_strerror(r));
    if (found->ai_family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)found->ai_addr;
        *out =
            (struct cay_address){cay_address_of4(ntohl(v4->sin_addr.s_addr)), ntohs(v4->sin_port)};
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)found->ai_addr;
        *out = (struct cay_address){v6->sin6_addr, ntohs(v6->sin6_port)};
    }
    freeaddrinfo(found);
    return 0;
}

/* http://[USER:PASSWORD@]HOST[:PORT][/] */
static int read_proxy(struct cay_net_host *h, const char *url, struct cay_error *err)
{
    static const char scheme[] = "http://";
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return cay_fail(err, CAY_ERR_INVALID, "the proxy %s is not http://HOST:PORT", url);
    char *host = cay_arena_strdup(&h->arena, url + sizeof scheme - 1);
    host[strcspn(host, "/")] = 0;
    char *at = strrchr(host, '@');
    if (at) {
        const char *user;
        *at = 0;
        if (!cay_str_percent(&h->arena, host, strlen(host), &user) ||
            strlen(user) >= sizeof h->proxy.credentials / 2)
            return cay_fail(err, CAY_ERR_INVALID, "the proxy's user and password cannot be read");
        (void)cay_str_base64(user, strlen(user), h->proxy.credentials);
        host = at + 1;
    }
    char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    char *colon = strchr(end ? end : host, ':');
    if (colon)
        *colon = 0;
    if (end) {
        *end = 0;
        host++;
    }
    return look_up(host, colon ? colon + 1 : PROXY_PORT, &h->proxy.at, err);
}

/* As curl and others read it: what is no net is the end of a name. */
static void read_no_proxy(struct cay_net_host *h, const char *text)
{
    char *copy = cay_arena_strdup(&h->arena, text), *save;
    struct cay_net_proxy *p = &h->proxy;
    p->nets = cay_arena_alloc(&h->arena, (strlen(text) / 2 + 1) * sizeof *p->nets);
    for (char *word = strtok_r(copy, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        struct cay_rule rule;
        struct cay_error ignored;
        word += strspn(word, "*.");
        if (cay_rule_read(&h->arena, word, &rule, &ignored) < 0)
            continue; /* what nobody understands excepts nothing */
        if (rule.is_net)
            p->nets[p->net_count++] = rule.net;
        else
            cay_strs_push(&h->arena, &p->names, rule.name.name);
    }
}

int cay_net_host_open(struct cay_net_host *h, const struct cay_egress_options *o,
                      struct cay_error *err)
{
    int r = o->allow ? read_nets(h, o->allow, err) : 0;
    if (r == 0 && o->proxy && *o->proxy)
        r = read_proxy(h, o->proxy, err);
    if (r == 0 && o->no_proxy)
        read_no_proxy(h, o->no_proxy);
    return r;
}

void cay_net_host_done(struct cay_net_host *h)
{
    cay_arena_done(&h->arena);
}

bool cay_net_host_proxied(const struct cay_net_host *h, const struct cay_address *to,
                          const char *name)
{
    const struct cay_net_proxy *p = &h->proxy;
    if (!p->at.port)
        return false;
    for (size_t i = 0; i < p->net_count; i++)
        if (cay_net_holds(&p->nets[i], to))
            return false;
    for (size_t i = 0; name && i < p->names.count; i++) {
        size_t len = strlen(name), end = strlen(p->names.at[i]);
        if (len >= end && strcmp(name + len - end, p->names.at[i]) == 0 &&
            (len == end || name[len - end - 1] == '.'))
            return false;
    }
    return true;
}
