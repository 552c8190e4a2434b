/* SPDX-License-Identifier: Apache-2.0 */
/* Host, Origin and Sec-Fetch-Site, before anything else is looked at. */
#include "api/guard.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 80

static bool is_address(char *name)
{
    struct in6_addr ignored;
    size_t len = strlen(name);
    if (name[0] != '[')
        return inet_pton(AF_INET, name, &ignored) == 1;
    if (len < 2 || name[len - 1] != ']')
        return false;
    name[len - 1] = 0;
    return inet_pton(AF_INET6, name + 1, &ignored) == 1;
}

bool cay_guard_host(const char *host, unsigned port, bool tls)
{
    char name[HOST_MAX];
    uint64_t given = tls ? 443 : 80;
    if (!host || strlen(host) >= sizeof name)
        return false;
    cay_str_copy(name, sizeof name, host);
    char *colon = strrchr(name, ':');
    if (colon && !strchr(colon, ']')) {
        *colon = 0;
        if (!cay_str_u64(colon + 1, 65535, &given))
            return false;
    }
    if (given != port)
        return false;
    return strcasecmp(name, "localhost") == 0 || is_address(name);
}

int cay_guard_check(const char *host, const char *origin, const char *fetch_site, unsigned port,
                    bool tls, struct cay_error *err)
{
    char ours[8 + 256];
    if (port > 0 && !cay_guard_host(host, port, tls))
        return cay_fail(err, CAY_ERR_MISDIRECTED, "this server does not answer for that host");
    (void)snprintf(ours, sizeof ours, "%s://%s", tls ? "https" : "http", host);
    if (origin && strcasecmp(origin, ours) != 0 &&
        (port > 0 || strncasecmp(origin, "https://", 8) != 0 || strcasecmp(origin + 8, host) != 0))
        return cay_fail(err, CAY_ERR_FORBIDDEN, "requests from other origins are refused");
    if (fetch_site && strcmp(fetch_site, "same-origin") != 0 && strcmp(fetch_site, "none") != 0)
        return cay_fail(err, CAY_ERR_FORBIDDEN, "requests from other sites are refused");
    return 0;
}
