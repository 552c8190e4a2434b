/* SPDX-License-Identifier: Apache-2.0 */
#include "http/url.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool cay_url_is_plain(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= 0x20 || (unsigned char)*s >= 0x7f)
            return false;
    return true;
}

static bool is_port(const char *s, size_t len)
{
    unsigned n = 0;
    for (size_t i = 0; i < len; i++) {
        if (i >= 5 || s[i] < '0' || s[i] > '9')
            return false;
        n = n * 10 + (unsigned)(s[i] - '0');
    }
    return n > 0 && n <= 65535;
}

int cay_url_parse(const char *text, struct cay_url *out, struct cay_error *err)
{
    bool tls = strncasecmp(text, "https://", 8) == 0;
    if ((!tls && strncasecmp(text, "http://", 7) != 0) || !cay_url_is_plain(text))
        return cay_fail(err, CAY_ERR_INVALID, "%s is no URL like http://127.0.0.1:3000", text);
    const char *host = strstr(text, "://") + 3;
    size_t auth_len = strcspn(host, "/?#");
    const char *path = host + auth_len;
    bool bracket = host[0] == '[';
    size_t host_len = bracket ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    const char *rest = host_len <= auth_len ? host + host_len : "@";
    size_t port_len = host_len <= auth_len ? auth_len - host_len : 0;
    bool has_port = port_len > 0;

    if (memchr(host, '@', auth_len) || host_len > auth_len || host_len == 0 || host_len > 255 ||
        (has_port && (rest[0] != ':' || !is_port(rest + 1, port_len - 1))) ||
        strlen(path) >= sizeof out->base || strpbrk(path, "?#"))
        return cay_fail(err, CAY_ERR_INVALID, "%s is no URL like http://127.0.0.1:3000", text);

    size_t trim = bracket ? 1 : 0;
    (void)snprintf(out->host, sizeof out->host, "%.*s", (int)(host_len - 2 * trim), host + trim);
    (void)snprintf(out->port, sizeof out->port, "%.*s", has_port ? (int)port_len - 1 : 3,
                   has_port ? rest + 1
                   : tls    ? "443"
                            : "80");
    (void)snprintf(out->authority, sizeof out->authority, "%.*s", (int)auth_len, host);
    size_t path_len = strlen(path);
    while (path_len && path[path_len - 1] == '/')
        path_len--;
    (void)snprintf(out->base, sizeof out->base, "%.*s", (int)path_len, path);
    out->tls = tls;
    return 0;
}

const char *cay_url_scheme(const struct cay_url *url)
{
    return url->tls ? "https" : "http";
}
