/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolver_files.h"
#include "base/str.h"
#include "model/limits.h"
#include "net/policy.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_MS 5000
#define DNS_PORT 53
#define HOSTS_TTL_S 60
#define LINE 1024
#define BLANKS " \t\r\n"

static bool has_changed(struct cay_resolver_file *f, int64_t now_ms)
{
    struct stat st;
    if (f->looked_ms && now_ms - f->looked_ms < LOOK_MS)
        return false;
    f->looked_ms = now_ms;
    if (stat(f->path, &st) < 0 ||
        (st.st_mtim.tv_sec == f->changed.tv_sec && st.st_mtim.tv_nsec == f->changed.tv_nsec))
        return false;
    f->changed = st.st_mtim;
    return true;
}

static bool read_address(const char *text, struct in6_addr *out)
{
    struct in_addr v4;
    if (inet_pton(AF_INET, text, &v4) == 1) {
        *out = cay_address_of4(ntohl(v4.s_addr));
        return true;
    }
    return inet_pton(AF_INET6, text, out) == 1;
}

static void close_file(FILE **f)
{
    if (*f)
        fclose(*f);
}

/* ADDRESS, and for tests ADDRESS:PORT. */
static bool read_server(char *text, struct sockaddr_storage *out)
{
    uint64_t port = DNS_PORT;
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    *out = (struct sockaddr_storage){0};
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(DNS_PORT);
    if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
        return true;
    char *colon = strchr(text, ':');
    if (colon && !cay_str_u64(colon + 1, UINT16_MAX, &port))
        return false;
    if (colon)
        *colon = 0;
    *out = (struct sockaddr_storage){0};
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, text, &v4->sin_addr) == 1;
}

static void read_servers(struct cay_resolver_files *f)
{
    char line[LINE];
    CAY_CLEANUP(close_file) FILE *in = fopen(f->servers_file.path, "re");
    f->server_count = 0;
    while (in && f->server_count < CAY_NAMESERVERS && fgets(line, sizeof line, in)) {
        char *save, *word = strtok_r(line, BLANKS, &save);
        char *address = word ? strtok_r(NULL, BLANKS, &save) : NULL;
        if (address && strcmp(word, "nameserver") == 0 &&
            read_server(address, &f->servers[f->server_count]))
            f->server_count++;
    }
}

static void add_host(struct cay_resolver_files *f, const struct in6_addr *ip, const char *name)
{
    struct cay_host_line line = {.ip = *ip};
    if (!cay_host_read(name, strlen(name), line.name))
        return;
    if (!f->hosts)
        f->hosts = calloc(CAY_NET_HOSTS, sizeof *f->hosts);
    if (!f->hosts)
        abort();
    if (f->host_count < CAY_NET_HOSTS)
        f->hosts[f->host_count++] = line;
}

static void read_hosts(struct cay_resolver_files *f)
{
    char line[LINE];
    CAY_CLEANUP(close_file) FILE *in = fopen(f->hosts_file.path, "re");
    f->host_count = 0;
    while (in && fgets(line, sizeof line, in)) {
        struct in6_addr ip;
        line[strcspn(line, "#")] = 0;
        char *save, *word = strtok_r(line, BLANKS, &save);
        if (!word || !read_address(word, &ip))
            continue;
        while ((word = strtok_r(NULL, BLANKS, &save)) != NULL)
            add_host(f, &ip, word);
    }
}

void cay_resolver_files_look(struct cay_resolver_files *f, int64_t now_ms)
{
    if (has_changed(&f->servers_file, now_ms))
        read_servers(f);
    if (has_changed(&f->hosts_file, now_ms))
        read_hosts(f);
}

bool cay_resolver_files_host(const struct cay_resolver_files *f, const char *name, uint16_t type,
                             struct cay_dns_found *out)
{
    bool known = false;
    *out = (struct cay_dns_found){.code = CAY_DNS_OK, .ttl_s = HOSTS_TTL_S};
    for (size_t i = 0; i < f->host_count; i++) {
        const struct cay_host_line *line = &f->hosts[i];
        if (strcmp(line->name, name) != 0)
            continue;
        known = true;
        bool v4 = IN6_IS_ADDR_V4MAPPED(&line->ip);
        if (v4 == (type == CAY_DNS_A) && out->address_count < CAY_DNS_ADDRESSES)
            out->addresses[out->address_count++] = line->ip;
    }
    return known;
}
