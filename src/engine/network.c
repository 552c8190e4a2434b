/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/network.h"
#include "engine/netlink.h"
#include "model/network.h"
#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#define LO 1 /* the first device of every namespace */
#define TABLE "cay"
#define DNS_PORT 53
#define UDP_CHECKSUM_AT 6

/* What differs between the families. */
struct family {
    uint8_t number, bytes; /* of an address */
    uint8_t to_at;         /* where a packet's destination is in its header */
    const char *own;
    const char *loop; /* and all that begins with the same loop_bytes bytes */
    uint8_t loop_bytes;
    const char *guarded; /* where clouds answer with credentials: the first guarded_bits bits */
    uint8_t guarded_bits;
};
static const struct family families[] = {
    {.number = AF_INET,
     .bytes = 4,
     .to_at = 16,
     .own = CAY_NET_OWN4,
     .loop = "127.0.0.0",
     .loop_bytes = 1,
     .guarded = "169.254.0.0",
     .guarded_bits = 16},
    {.number = AF_INET6,
     .bytes = 16,
     .to_at = 24,
     .own = CAY_NET_OWN6,
     .loop = "::1",
     .loop_bytes = 16,
     .guarded = "fe80::",
     .guarded_bits = 10},
};

static void put_address(struct cay_netlink *n, uint16_t attr, const struct family *f)
{
    unsigned char ip[sizeof(struct in6_addr)];
    if (inet_pton(f->number, f->own, ip) != 1)
        abort();
    cay_netlink_put(n, attr, ip, f->bytes);
}

int cay_network_open(int *sock_out, struct cay_error *err)
{
    static struct cay_netlink up; /* the same for every namespace */
    const struct ifinfomsg lo = {.ifi_index = LO, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    if (!up.len) {
        cay_netlink_begin(&up, RTM_NEWLINK, 0, &lo, sizeof lo);
        cay_netlink_want_answer(&up);
    }
    CAY_AUTO_FD int sock = cay_netlink_open(NETLINK_ROUTE, err);
    int r = sock < 0 ? sock : cay_netlink_send(&up, sock, err);
    if (r < 0)
        return cay_wrap(err, "cannot bring the loopback device up");
    *sock_out = cay_take_fd(&sock);
    return 0;
}

/* An address of its own, or resolvers think that there is no network; and all others as local ones,
 * spoken to from there. */
static void build_routes(struct cay_netlink *n)
{
    for (size_t i = 0; i < CAY_COUNT(families); i++) {
        const struct family *f = &families[i];
        struct ifaddrmsg address = {.ifa_family = f->number,
                                    .ifa_prefixlen = (uint8_t)(f->bytes * 8),
                                    .ifa_flags = IFA_F_NODAD,
                                    .ifa_index = LO};
        struct rtmsg route = {.rtm_family = f->number,
                              .rtm_table = RT_TABLE_LOCAL,
                              .rtm_protocol = RTPROT_STATIC,
                              .rtm_scope = RT_SCOPE_HOST,
                              .rtm_type = RTN_LOCAL};
        uint32_t device = LO;
        cay_netlink_begin(n, RTM_NEWADDR, NLM_F_CREATE, &address, sizeof address);
        put_address(n, IFA_LOCAL, f);
        put_address(n, IFA_ADDRESS, f);
        cay_netlink_begin(n, RTM_NEWROUTE, NLM_F_CREATE, &route, sizeof route);
        cay_netlink_put(n, RTA_OIF, &device, sizeof device);
        put_address(n, RTA_PREFSRC, f);
    }
    cay_netlink_want_answer(n);
}

/* ---- rules, as nft's own program writes them ---- */

/* One table for both families: to make and to end a second one costs every sandbox. */
static void begin_nft(struct cay_netlink *n, uint16_t what, uint16_t flags)
{
    struct nfgenmsg head = {.nfgen_family = NFPROTO_INET};
    cay_netlink_begin(n, NFNL_SUBSYS_NFTABLES << 8 | what, flags, &head, sizeof head);
}

static void mark_batch(struct cay_netlink *n, uint16_t type)
{
    struct nfgenmsg head = {.res_id = htons(NFNL_SUBSYS_NFTABLES)};
    cay_netlink_begin(n, type, 0, &head, sizeof head);
}

static void add_chain(struct cay_netlink *n, const char *name, uint32_t hook)
{
    begin_nft(n, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
    cay_netlink_put_text(n, NFTA_CHAIN_TABLE, TABLE);
    cay_netlink_put_text(n, NFTA_CHAIN_NAME, name);
    size_t at = cay_netlink_nest(n, NFTA_CHAIN_HOOK);
    cay_netlink_put_be32(n, NFTA_HOOK_HOOKNUM, hook);
    cay_netlink_put_be32(n, NFTA_HOOK_PRIORITY, (uint32_t)NF_IP_PRI_MANGLE);
    cay_netlink_nest_end(n, at);
    cay_netlink_put_text(n, NFTA_CHAIN_TYPE, "filter");
}

struct rule {
    struct cay_netlink *n;
    size_t list, element, data;
};

static struct rule begin_rule(struct cay_netlink *n, const char *chain)
{
    begin_nft(n, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
    cay_netlink_put_text(n, NFTA_RULE_TABLE, TABLE);
    cay_netlink_put_text(n, NFTA_RULE_CHAIN, chain);
    return (struct rule){.n = n, .list = cay_netlink_nest(n, NFTA_RULE_EXPRESSIONS)};
}

static void end_rule(struct rule *r)
{
    cay_netlink_nest_end(r->n, r->list);
}

static void begin_step(struct rule *r, const char *name)
{
    r->element = cay_netlink_nest(r->n, NFTA_LIST_ELEM);
    cay_netlink_put_text(r->n, NFTA_EXPR_NAME, name);
    r->data = cay_netlink_nest(r->n, NFTA_EXPR_DATA);
}

static void end_step(struct rule *r)
{
    cay_netlink_nest_end(r->n, r->data);
    cay_netlink_nest_end(r->n, r->element);
}

static void put_value(struct rule *r, uint16_t attr, const void *value, size_t len)
{
    size_t at = cay_netlink_nest(r->n, attr);
    cay_netlink_put(r->n, NFTA_DATA_VALUE, value, len);
    cay_netlink_nest_end(r->n, at);
}

static void compare(struct rule *r, const void *value, size_t len)
{
    begin_step(r, "cmp");
    cay_netlink_put_be32(r->n, NFTA_CMP_SREG, NFT_REG_1);
    cay_netlink_put_be32(r->n, NFTA_CMP_OP, NFT_CMP_EQ);
    put_value(r, NFTA_CMP_DATA, value, len);
    end_step(r);
}

static void load_bytes(struct rule *r, uint32_t header, uint32_t at, size_t len)
{
    begin_step(r, "payload");
    cay_netlink_put_be32(r->n, NFTA_PAYLOAD_DREG, NFT_REG_1);
    cay_netlink_put_be32(r->n, NFTA_PAYLOAD_BASE, header);
    cay_netlink_put_be32(r->n, NFTA_PAYLOAD_OFFSET, at);
    cay_netlink_put_be32(r->n, NFTA_PAYLOAD_LEN, (uint32_t)len);
    end_step(r);
}

static void if_bytes(struct rule *r, uint32_t header, uint32_t at, const void *value, size_t len)
{
    load_bytes(r, header, at, len);
    compare(r, value, len);
}

static void if_meta(struct rule *r, uint32_t key, uint8_t value)
{
    begin_step(r, "meta");
    cay_netlink_put_be32(r->n, NFTA_META_DREG, NFT_REG_1);
    cay_netlink_put_be32(r->n, NFTA_META_KEY, key);
    end_step(r);
    compare(r, &value, sizeof value);
}

static void if_protocol(struct rule *r, uint8_t protocol)
{
    if_meta(r, NFT_META_L4PROTO, protocol);
}

/* To the first `bytes` bytes of an address of that family. */
static void if_to(struct rule *r, const struct family *f, const char *address, size_t bytes)
{
    unsigned char ip[sizeof(struct in6_addr)];
    if (inet_pton(f->number, address, ip) != 1)
        abort();
    if_meta(r, NFT_META_NFPROTO, f->number); /* NFPROTO_IPV4 is AF_INET, and so for 6 */
    if_bytes(r, NFT_PAYLOAD_NETWORK_HEADER, f->to_at, ip, bytes);
}

/* The same with the first `bits` bits. */
static void if_net(struct rule *r, const struct family *f, const char *net, unsigned bits)
{
    unsigned char ip[sizeof(struct in6_addr)], mask[sizeof(struct in6_addr)];
    const unsigned char none[sizeof(struct in6_addr)] = {0};
    size_t len = (bits + 7) / 8;
    if (inet_pton(f->number, net, ip) != 1)
        abort();
    for (size_t i = 0; i < len; i++)
        mask[i] = (unsigned char)(bits >= 8 * (i + 1) ? 0xff : 0xff << (8 * (i + 1) - bits));
    if_meta(r, NFT_META_NFPROTO, f->number);
    load_bytes(r, NFT_PAYLOAD_NETWORK_HEADER, f->to_at, len);
    begin_step(r, "bitwise");
    cay_netlink_put_be32(r->n, NFTA_BITWISE_SREG, NFT_REG_1);
    cay_netlink_put_be32(r->n, NFTA_BITWISE_DREG, NFT_REG_1);
    cay_netlink_put_be32(r->n, NFTA_BITWISE_LEN, (uint32_t)len);
    put_value(r, NFTA_BITWISE_MASK, mask, len);
    put_value(r, NFTA_BITWISE_XOR, none, len);
    end_step(r);
    compare(r, ip, len);
}

static void accept_it(struct rule *r)
{
    begin_step(r, "immediate");
    cay_netlink_put_be32(r->n, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    size_t data = cay_netlink_nest(r->n, NFTA_IMMEDIATE_DATA);
    size_t verdict = cay_netlink_nest(r->n, NFTA_DATA_VERDICT);
    cay_netlink_put_be32(r->n, NFTA_VERDICT_CODE, NF_ACCEPT);
    cay_netlink_nest_end(r->n, verdict);
    cay_netlink_nest_end(r->n, data);
    end_step(r);
}

static void load_port(struct rule *r, uint16_t port)
{
    port = htons(port);
    begin_step(r, "immediate");
    cay_netlink_put_be32(r->n, NFTA_IMMEDIATE_DREG, NFT_REG_1);
    put_value(r, NFTA_IMMEDIATE_DATA, &port, sizeof port);
    end_step(r);
}

/* Ends the rule where nobody has the socket: then the next ones refuse it. */
static void give_to_us(struct rule *r)
{
    load_port(r, CAY_NET_PORT);
    begin_step(r, "tproxy");
    cay_netlink_put_be32(r->n, NFTA_TPROXY_FAMILY, NFPROTO_UNSPEC);
    cay_netlink_put_be32(r->n, NFTA_TPROXY_REG_PORT, NFT_REG_1);
    end_step(r);
    accept_it(r);
}

static void refuse(struct rule *r, uint32_t how, uint8_t code)
{
    begin_step(r, "reject");
    cay_netlink_put_be32(r->n, NFTA_REJECT_TYPE, how);
    cay_netlink_put(r->n, NFTA_REJECT_ICMP_CODE, &code, sizeof code);
    end_step(r);
}

static void accept_own(struct cay_netlink *n, const struct family *f, const char *address,
                       size_t bytes)
{
    struct rule r = begin_rule(n, "in");
    if_to(&r, f, address, bytes);
    accept_it(&r);
    end_rule(&r);
}

/* Refused here already, before anything is accepted, so that whoever tries sees a closed door and
 * no door that shuts. Everything else that no policy opens is the relay's to refuse, which also
 * tells of it. */
static void refuse_guarded(struct cay_netlink *n, const struct family *f)
{
    struct rule r = begin_rule(n, "in");
    if_protocol(&r, IPPROTO_TCP);
    if_net(&r, f, f->guarded, f->guarded_bits);
    refuse(&r, NFT_REJECT_TCP_RST, 0);
    end_rule(&r);
}

static void add_in(struct cay_netlink *n, bool guards)
{
    uint16_t dns = htons(DNS_PORT);
    for (size_t i = 0; i < CAY_COUNT(families); i++) {
        const struct family *f = &families[i];
        accept_own(n, f, f->loop, f->loop_bytes);
        accept_own(n, f, f->own, f->bytes);
        if (guards)
            refuse_guarded(n, f);
    }
    struct rule r = begin_rule(n, "in");
    if_protocol(&r, IPPROTO_TCP);
    give_to_us(&r);
    end_rule(&r);

    r = begin_rule(n, "in");
    if_protocol(&r, IPPROTO_UDP);
    if_bytes(&r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, &dns, sizeof dns);
    give_to_us(&r);
    end_rule(&r);

    r = begin_rule(n, "in");
    if_protocol(&r, IPPROTO_TCP);
    refuse(&r, NFT_REJECT_TCP_RST, 0);
    end_rule(&r);

    r = begin_rule(n, "in");
    refuse(&r, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_PORT_UNREACH);
    end_rule(&r);
}

/* Our socket is not at port 53, which a sandbox may want for itself; but its answers come from
 * there. */
static void add_out(struct cay_netlink *n)
{
    uint16_t ours = htons(CAY_NET_PORT);
    struct rule r = begin_rule(n, "out");
    if_protocol(&r, IPPROTO_UDP);
    if_bytes(&r, NFT_PAYLOAD_TRANSPORT_HEADER, 0, &ours, sizeof ours);
    load_port(&r, DNS_PORT);
    begin_step(&r, "payload");
    cay_netlink_put_be32(n, NFTA_PAYLOAD_SREG, NFT_REG_1);
    cay_netlink_put_be32(n, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
    cay_netlink_put_be32(n, NFTA_PAYLOAD_OFFSET, 0);
    cay_netlink_put_be32(n, NFTA_PAYLOAD_LEN, sizeof ours);
    cay_netlink_put_be32(n, NFTA_PAYLOAD_CSUM_TYPE, NFT_PAYLOAD_CSUM_INET);
    cay_netlink_put_be32(n, NFTA_PAYLOAD_CSUM_OFFSET, UDP_CHECKSUM_AT);
    end_step(&r);
    end_rule(&r);
}

static void build_rules(struct cay_netlink *n, bool guards)
{
    mark_batch(n, NFNL_MSG_BATCH_BEGIN);
    begin_nft(n, NFT_MSG_NEWTABLE, NLM_F_CREATE);
    cay_netlink_put_text(n, NFTA_TABLE_NAME, TABLE);
    add_chain(n, "in", NF_INET_PRE_ROUTING);
    add_chain(n, "out", NF_INET_LOCAL_OUT);
    add_in(n, guards);
    add_out(n);
    cay_netlink_want_answer(n);
    mark_batch(n, NFNL_MSG_BATCH_END);
}

int cay_network_catch(int sock, bool guards, struct cay_error *err)
{
    static struct cay_netlink routes, rules; /* the same for every namespace */
    if (!routes.len) {
        build_routes(&routes);
        build_rules(&rules, guards);
    }
    /* The rules first: with the routes alone everything would be refused as well, but what listens
     * inside at any address would hear what is meant for outside. */
    CAY_AUTO_FD int filter = cay_netlink_open(NETLINK_NETFILTER, err);
    int r = filter < 0 ? filter : cay_netlink_send(&rules, filter, err);
    if (r < 0)
        return cay_wrap(err, "the kernel has no nftables with tproxy and reject");
    r = cay_netlink_send(&routes, sock, err);
    return r < 0 ? cay_wrap(err, "cannot set a sandbox's routes") : 0;
}
