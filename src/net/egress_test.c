/* SPDX-License-Identifier: Apache-2.0 */
/* The way out without a sandbox: its sockets are loopback's, so every address that is wanted is the
 * listener's own, which is guarded. */
#include "net/dns.h"
#include "net/egress.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

struct bench {
    struct cay_egress *egress;
    struct sockaddr_in6 tcp, dns;
    char hosts[256], resolvers[256];
};

static const struct cay_ports any = {1, 65535};

static int catcher(int type, struct sockaddr_in6 *at)
{
    int on = 1, fd = socket(AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof *at;
    *at = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)at, len) < 0 ||
        getsockname(fd, (struct sockaddr *)at, &len) < 0 ||
        (type == SOCK_STREAM && listen(fd, 8) < 0))
        abort();
    return fd;
}

static void attach(struct bench *b, const char *id, const struct cay_policy *policy)
{
    struct cay_way_out way = {catcher(SOCK_STREAM, &b->tcp), catcher(SOCK_DGRAM, &b->dns)};
    cay_egress_attach(b->egress, id, "local", policy, &way);
}

static void begin(struct bench *b)
{
    struct cay_error err;
    snprintf(b->hosts, sizeof b->hosts, "%s/hosts", test_dir());
    snprintf(b->resolvers, sizeof b->resolvers, "%s/resolv", test_dir());
    FILE *f = fopen(b->hosts, "w");
    fputs("203.0.113.7 good.example\n10.1.2.3 private.example\n203.0.113.8 other.example\n", f);
    fclose(f);
    f = fopen(b->resolvers, "w"); /* nobody */
    fclose(f);
    struct cay_egress_options o = {.hosts = b->hosts, .resolvers = b->resolvers};
    CHECK_EQ("open", cay_egress_open(&o, &b->egress, &err), 0);
}

/* The code of the answer, and how many addresses it has; -1: there is none. */
static int ask(struct bench *b, const char *name, size_t *count)
{
    uint8_t msg[600];
    struct cay_dns_found found;
    struct timeval patience = {.tv_sec = 10};
    CAY_AUTO_FD int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    size_t len = cay_dns_query_write(7, name, CAY_DNS_A, msg, sizeof msg);
    sendto(fd, msg, len, 0, (struct sockaddr *)&b->dns, sizeof b->dns);
    ssize_t n = recv(fd, msg, sizeof msg, 0);
    if (n <= 0 || !cay_dns_reply_read(msg, (size_t)n, 7, name, CAY_DNS_A, &found))
        return -1;
    *count = found.address_count;
    return (int)found.code;
}

static int try_connect(const struct bench *b)
{
    char byte;
    CAY_AUTO_FD int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&b->tcp, sizeof b->tcp) < 0)
        return errno;
    return recv(fd, &byte, 1, 0) < 0 ? errno : 0;
}

static const struct cay_wanted *find(const struct cay_wanted *all, size_t count, const char *name,
                                     enum cay_verdict verdict)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].name, name) == 0 && all[i].verdict == verdict)
            return &all[i];
    return NULL;
}

TEST(egress_answers_what_is_allowed)
{
    struct bench b;
    struct cay_name_rule good = {"good.example", any}, both = {"*.example", any};
    struct cay_policy policy = {.names = &good, .name_count = 1};
    struct cay_wanted wanted[CAY_NET_WANTED];
    size_t count = 0;
    begin(&b);
    attach(&b, "sb-aaaaaaaaaaaaaaaaaaaa", &policy);
    CHECK_EQ("allowed", ask(&b, "good.example", &count), CAY_DNS_OK);
    CHECK_EQ("its address", count, 1);
    CHECK_EQ("not allowed", ask(&b, "other.example", &count), CAY_DNS_REFUSED);
    policy.names = &both;
    CHECK("changed", cay_egress_change(b.egress, "sb-aaaaaaaaaaaaaaaaaaaa", &policy));
    CHECK_EQ("now it is", ask(&b, "other.example", &count), CAY_DNS_OK);
    CHECK_EQ("guarded", ask(&b, "private.example", &count), CAY_DNS_OK);
    CHECK_EQ("is left out", count, 0);
    CHECK_EQ("nobody knows", ask(&b, "none.example", &count), CAY_DNS_FAILED);
    size_t n = cay_egress_wanted(b.egress, "sb-aaaaaaaaaaaaaaaaaaaa", wanted, CAY_NET_WANTED);
    CHECK("told: unlisted", find(wanted, n, "other.example", CAY_NET_UNLISTED) != NULL);
    CHECK("told: guarded", find(wanted, n, "private.example", CAY_NET_GUARDED) != NULL);
    cay_egress_close(b.egress);
}

/* Empty messages cost their turn as questions do: who sent many is answered later. */
TEST(egress_counts_what_is_no_question)
{
    struct bench b;
    struct cay_policy open = {.open = true};
    const char *id = "sb-aaaaaaaaaaaaaaaaaaaa";
    bool attached;
    uint8_t msg[600];
    begin(&b);
    attach(&b, id, &open);
    CAY_AUTO_FD int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < CAY_NET_DNS_BURST + 200; i++) {
        sendto(fd, msg, 0, 0, (struct sockaddr *)&b.dns, sizeof b.dns);
        cay_egress_which(b.egress, &id, &attached, 1); /* it has had its turn */
    }
    size_t len = cay_dns_query_write(7, "good.example", CAY_DNS_A, msg, sizeof msg);
    sendto(fd, msg, len, 0, (struct sockaddr *)&b.dns, sizeof b.dns);
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    CHECK_EQ("not at once", poll(&answer, 1, 200), 0);
    CHECK_EQ("but then", poll(&answer, 1, (int)test_ms(20000)), 1);
    cay_egress_close(b.egress);
}

TEST(egress_resets_what_is_guarded)
{
    struct bench b;
    struct cay_policy open = {.open = true};
    struct cay_wanted wanted[4];
    struct cay_traffic moved;
    bool attached[2];
    const char *ids[] = {"sb-aaaaaaaaaaaaaaaaaaaa", "sb-bbbbbbbbbbbbbbbbbbbb"};
    begin(&b);
    attach(&b, ids[0], &open);
    CHECK_EQ("reset", try_connect(&b), ECONNRESET);
    CHECK_EQ("told", cay_egress_wanted(b.egress, ids[0], wanted, 4), 1);
    CHECK_EQ("why", wanted[0].verdict, CAY_NET_GUARDED);
    CHECK_EQ("where", wanted[0].to.port, ntohs(b.tcp.sin6_port));
    cay_egress_which(b.egress, ids, attached, 2);
    CHECK("one is attached", attached[0] && !attached[1]);
    cay_egress_traffic(b.egress, ids[0], &moved);
    CHECK_EQ("nothing moved", moved.sent_bytes + moved.received_bytes, 0);

    cay_egress_detach(b.egress, ids[0]);
    CHECK("not attached", !cay_egress_change(b.egress, ids[0], &open));
    CHECK_EQ("nobody listens", try_connect(&b), ECONNREFUSED);
    CHECK_EQ("still told", cay_egress_wanted(b.egress, ids[0], wanted, 4), 1);
    cay_egress_forget(b.egress, ids[0]);
    CHECK_EQ("forgotten", cay_egress_wanted(b.egress, ids[0], wanted, 4), 0);
    cay_egress_close(b.egress);
}

TEST(egress_reads_what_the_operator_says)
{
    static const struct {
        const char *name;
        struct cay_egress_options o;
        bool good;
    } cases[] = {
        {"nothing", {0}, true},
        {"nets", {.allow = "10.0.0.0/8, fd00::/8,192.168.1.1:443"}, true},
        {"a name", {.allow = "a.example"}, false},
        {"no net", {.allow = "10.0.0.0/99"}, false},
        {"a proxy",
         {.proxy = "http://u:p%40@127.0.0.1:3128/", .no_proxy = "*.a.example,10.0.0.0/8"},
         true},
        {"a proxy by version 6", {.proxy = "http://[::1]:3128"}, true},
        {"a proxy of another kind", {.proxy = "socks5://127.0.0.1"}, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_egress *e = NULL;
        struct cay_error err;
        int r = cay_egress_open(&cases[i].o, &e, &err);
        CHECK_EQ(cases[i].name, r, cases[i].good ? 0 : CAY_ERR_INVALID);
        cay_egress_close(e);
    }
}
