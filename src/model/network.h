/* SPDX-License-Identifier: Apache-2.0 */
/* What goes in and out of a sandbox. Its net namespace has a loopback device and nothing else;
 * sockets that we make in there are the only way. */
#pragma once
#include "model/limits.h"
#include "model/reach.h"
#include <netinet/in.h>

/* Which socket is made inside; all are non-blocking. */
enum cay_socket_kind {
    CAY_SOCKET_TCP4 = 1, /* not connected yet: whoever has it connects to 127.0.0.1:PORT */
    CAY_SOCKET_TCP6 = 2, /* to ::1 */
    CAY_SOCKET_OUT = 3,  /* two: the listener that every connection out of it comes to, whose
                            accepted sockets have the wanted address as their own, and the UDP socket
                            that everything meant for a port 53 comes to, with IPV6_PKTINFO */
};

/* What CAY_SOCKET_OUT is. */
struct cay_way_out {
    int tcp_fd, dns_fd;
};

/* What the namespace itself answers to beside loopback, and whom resolv.conf inside names: any
 * other address would do as well, because all are caught. Of the prefix that RFC 7335 gives to
 * such uses, and a private one. */
#define CAY_NET_OWN4 "192.0.0.2"
#define CAY_NET_OWN6 "fd63:6179::2"
#define CAY_NET_RESOLVER "192.0.0.1"

/* An address of either family: IPv4 as ::ffff:a.b.c.d, so that there is one form of each. */
struct cay_address {
    struct in6_addr ip;
    uint16_t port;
};

struct cay_ports {
    uint16_t first, last; /* 1 to 65535 when any may be */
};

/* "example.com" is that name alone, "*.example.com" every name below it, "*" all names. Lower case,
 * without a final dot, in ASCII (punycode). */
struct cay_name_rule {
    const char *name;
    struct cay_ports ports;
};

struct cay_net_rule {
    struct in6_addr net; /* as in struct cay_address */
    unsigned bits;       /* of 128 */
    struct cay_ports ports;
};

/* A header that requests for a host are given on their way out. */
struct cay_header_rule {
    struct cay_name_rule host;
    const char *name, *value;
};

/* Who may be reached. What is denied never is; else what a rule allows; else everything when
 * `open`. Made from a struct cay_network by cay_policy_read. */
struct cay_policy {
    bool open;                      /* "allow-all", or a list of what is denied alone */
    struct cay_name_rule *names;    /* allowed */
    struct cay_name_rule *no_names; /* denied */
    struct cay_net_rule *allow, *deny;
    struct cay_header_rule *headers;
    size_t name_count, no_name_count, allow_count, deny_count, header_count;
    uint64_t generation; /* rises with each change */
};
