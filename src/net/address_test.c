/* SPDX-License-Identifier: Apache-2.0 */
#include "net/policy.h"
#include "net/rule.h"
#include "tests/test.h"
#include <arpa/inet.h>

static struct in6_addr ip_of(const char *text)
{
    struct in6_addr ip = {0};
    struct in_addr v4;
    if (inet_pton(AF_INET, text, &v4) == 1)
        return cay_address_of4(ntohl(v4.s_addr));
    CHECK_EQ(text, inet_pton(AF_INET6, text, &ip), 1);
    return ip;
}

static const struct {
    const char *ip;
    bool guarded;
} addresses[] = {
    {"0.0.0.0", true},
    {"0.255.255.255", true},
    {"1.0.0.0", false},
    {"9.255.255.255", false},
    {"10.0.0.0", true},
    {"10.255.255.255", true},
    {"11.0.0.0", false},
    {"100.63.255.255", false},
    {"100.64.0.0", true},
    {"100.100.100.200", true},
    {"100.127.255.255", true},
    {"100.128.0.0", false},
    {"126.255.255.255", false},
    {"127.0.0.1", true},
    {"127.255.255.255", true},
    {"128.0.0.0", false},
    {"168.63.129.15", false},
    {"168.63.129.16", true},
    {"168.63.129.17", false},
    {"169.253.255.255", false},
    {"169.254.0.0", true},
    {"169.254.169.254", true},
    {"169.255.0.0", false},
    {"172.15.255.255", false},
    {"172.16.0.0", true},
    {"172.31.255.255", true},
    {"172.32.0.0", false},
    {"192.0.0.192", true},
    {"192.0.1.0", false},
    {"192.0.2.1", false}, /* documentation */
    {"192.167.255.255", false},
    {"192.168.0.0", true},
    {"192.168.255.255", true},
    {"192.169.0.0", false},
    {"198.17.255.255", false},
    {"198.18.0.0", true},
    {"198.19.255.255", true},
    {"198.20.0.0", false},
    {"198.51.100.1", false}, /* documentation */
    {"203.0.113.1", false},  /* documentation */
    {"223.255.255.255", false},
    {"224.0.0.1", true},
    {"239.255.255.255", true},
    {"240.0.0.1", true},
    {"255.255.255.255", true},
    {"8.8.8.8", false},
    {"::", true},
    {"::1", true},
    {"::2", true},
    {"::ffff:127.0.0.1", true},
    {"::ffff:10.1.2.3", true},
    {"::ffff:8.8.8.8", false},
    {"::127.0.0.1", true},
    {"::8.8.8.8", true}, /* v4-compatible: nobody routes it */
    {"::ffff:0:127.0.0.1", true},
    {"::ffff:0:8.8.8.8", true},
    {"64:ff9b::127.0.0.1", true},
    {"64:ff9b::169.254.169.254", true},
    {"64:ff9b::192.168.1.1", true},
    {"64:ff9b::8.8.8.8", false},
    {"64:ff9b::1:8.8.8.8", true}, /* not behind the prefix */
    {"64:ff9b:1::8.8.8.8", true}, /* local use */
    {"64:ff9b:1:ffff::1", true},
    {"64:ff9b:2::8.8.8.8", true},
    {"100::1", true},
    {"1fff::1", true},
    {"2000::1", false},
    {"2001:0:808:808:0:0:f7f7:f7f7", false}, /* Teredo, 8.8.8.8 both */
    {"2001:0:a00:1:0:0:f7f7:f7f7", true},    /* its server is 10.0.0.1 */
    {"2001:0:808:808:0:0:80ff:fffe", true},  /* its client is 127.0.0.1 */
    {"2001:db8::1", false},                  /* documentation */
    {"2002:7f00:1::1", true},                /* 6to4 */
    {"2002:a9fe:a9fe::", true},
    {"2002:c0a8:101::5", true},
    {"2002:808:808::1", false},
    {"2606:4700::1111", false},
    {"2606:4700::5efe:10.0.0.1", true}, /* ISATAP */
    {"2606:4700::200:5efe:10.0.0.1", true},
    {"2606:4700::5efe:8.8.8.8", false},
    {"3fff::1", false}, /* documentation */
    {"3fff:ffff::1", false},
    {"4000::1", true},
    {"5f00::1", true},
    {"fbff::1", true},
    {"fc00::1", true},
    {"fd00:ec2::254", true},
    {"fe80::1", true},
    {"febf::1", true},
    {"fec0::1", true},
    {"ff02::1", true},
    {"ffff::1", true},
};

TEST(address_that_is_nobodys_business)
{
    for (size_t i = 0; i < COUNT(addresses); i++) {
        struct in6_addr ip = ip_of(addresses[i].ip);
        CHECK_EQ(addresses[i].ip, cay_address_guarded(&ip, NULL, 0), addresses[i].guarded);
    }
}

static const struct {
    const char *ip;
    bool guarded;
} owned[] = {
    {"203.0.113.7", true},       {"203.0.113.8", false},          {"::ffff:203.0.113.7", true},
    {"2001:db8::7", true},       {"2001:db8::8", false},          {"64:ff9b::203.0.113.7", true},
    {"2002:cb00:7107::1", true}, {"64:ff9b::203.0.113.8", false},
};

TEST(address_that_is_the_hosts_own)
{
    struct in6_addr own[] = {ip_of("203.0.113.7"), ip_of("2001:db8::7")};
    for (size_t i = 0; i < COUNT(owned); i++) {
        struct in6_addr ip = ip_of(owned[i].ip);
        CHECK_EQ(owned[i].ip, cay_address_guarded(&ip, own, COUNT(own)), owned[i].guarded);
    }
}

static const struct {
    const char *net, *ip;
    uint16_t port;
    bool holds, leads;
} nets[] = {
    {"192.0.2.0/24", "192.0.2.0", 1, true, true},
    {"192.0.2.0/24", "192.0.2.255", 65535, true, true},
    {"192.0.2.0/24", "192.0.3.0", 1, false, false},
    {"192.0.2.0/24", "::ffff:192.0.2.1", 1, true, true},
    {"192.0.2.0/24", "64:ff9b::192.0.2.1", 1, false, true},
    {"192.0.2.0/24", "2002:c000:201::1", 1, false, true},
    {"192.0.2.0/24", "::192.0.2.1", 1, false, true},
    {"192.0.2.0/23", "192.0.3.9", 1, true, true},
    {"192.0.2.128/25", "192.0.2.127", 1, false, false},
    {"192.0.2.128/25", "192.0.2.128", 1, true, true},
    {"192.0.2.7", "192.0.2.7", 1, true, true},
    {"192.0.2.7", "192.0.2.6", 1, false, false},
    {"192.0.2.7:443", "192.0.2.7", 443, true, true},
    {"192.0.2.7:443", "192.0.2.7", 442, false, false},
    {"192.0.2.7:80-90", "192.0.2.7", 80, true, true},
    {"192.0.2.7:80-90", "192.0.2.7", 90, true, true},
    {"192.0.2.7:80-90", "192.0.2.7", 91, false, false},
    {"0.0.0.0/0", "8.8.8.8", 1, true, true},
    {"0.0.0.0/0", "2001:db8::1", 1, false, false},
    {"0.0.0.0/0", "64:ff9b::8.8.8.8", 1, false, true},
    {"::/0", "2001:db8::1", 1, true, true},
    {"::/0", "8.8.8.8", 1, false, false},
    {"::ffff:192.0.2.0/120", "192.0.2.9", 1, true, true},
    {"2001:db8::/33", "2001:db8:7fff::1", 1, true, true},
    {"2001:db8::/33", "2001:db8:8000::1", 1, false, false},
    {"[2001:db8::1]:22", "2001:db8::1", 22, true, true},
    {"[2001:db8::1]:22", "2001:db8::1", 23, false, false},
};

TEST(address_in_a_net)
{
    for (size_t i = 0; i < COUNT(nets); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_rule rule = {0};
        struct cay_address to = {ip_of(nets[i].ip), nets[i].port};
        CHECK_EQ(nets[i].net, cay_rule_read(&a, nets[i].net, &rule, &err), 0);
        CHECK_EQ(nets[i].net, cay_net_holds(&rule.net, &to), nets[i].holds);
        CHECK_EQ(nets[i].net, cay_net_leads(&rule.net, &to), nets[i].leads);
    }
}
