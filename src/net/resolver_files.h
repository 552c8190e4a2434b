/* SPDX-License-Identifier: Apache-2.0 */
/* The two files that say how this host finds addresses, read again when they change. */
#pragma once
#include "net/dns.h"
#include <sys/socket.h>
#include <time.h>

#define CAY_NAMESERVERS 3 /* that are asked; as resolv.conf(5) has it */

struct cay_resolver_file {
    const char *path;
    struct timespec changed;
    int64_t looked_ms;
};

struct cay_host_line {
    char name[CAY_HOST_SIZE];
    struct in6_addr ip;
};

struct cay_resolver_files {
    struct cay_resolver_file servers_file, hosts_file;
    struct sockaddr_storage servers[CAY_NAMESERVERS];
    size_t server_count;
    struct cay_host_line *hosts; /* malloc'ed */
    size_t host_count;
};

void cay_resolver_files_look(struct cay_resolver_files *f, int64_t now_ms);
/* What the file of hosts says of a name; false when it is not in there. */
bool cay_resolver_files_host(const struct cay_resolver_files *f, const char *name, uint16_t type,
                             struct cay_dns_found *out);
