/* SPDX-License-Identifier: Apache-2.0 */
#include "core/source_url.h"
#include "base/arena.h"
#include "base/str.h"
#include "net/rule.h"
#include <stdio.h>
#include <string.h>

#define SCHEME "https://"

static int bad(struct cay_error *err, const char *why)
{
    int r = cay_fail_as(err, CAY_ERR_INVALID, "INVALID_SOURCE", "%s", why);
    cay_str_copy(err->field, sizeof err->field, "source.url");
    return r;
}

/* What any program could read in another way than we do is not in it. */
static bool is_plain(const char *s)
{
    for (; *s; s++)
        if (*s <= ' ' || *s > '~' || strchr("\\\"'<>^`{|}#", *s))
            return false;
    return true;
}

int cay_source_url_read(const char *url, struct cay_source_url *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_rule rule;
    struct cay_error ignored; /* it would repeat the text */
    const size_t skip = strlen(SCHEME);
    if (strlen(url) > CAY_MAX_URL)
        return cay_fail_field(err, "source.url", "source.url has at most %d bytes", CAY_MAX_URL);
    if (strncmp(url, SCHEME, skip) != 0)
        return bad(err, "source.url must begin with https://");
    if (!is_plain(url))
        return bad(err, "source.url holds bytes that a URL does not have");
    size_t len = strcspn(url + skip, "/?");
    const char *at = memchr(url + skip, '@', len);
    if (at)
        return bad(err, "give credentials as source.username and source.password, not in the URL");
    char *host = cay_arena_strndup(&a, url + skip, len);
    bool six = host[0] == '[';
    const char *colon = strchr(six ? host + strcspn(host, "]") : host, ':');
    if (strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]") !=
            len ||
        (colon && (!colon[1] || colon[1 + strspn(colon + 1, "0123456789")])))
        return bad(err, "source.url names no host");
    const char *text = colon ? host : cay_arena_printf(&a, "%s:443", host);
    if (strlen(text) > CAY_MAX_RULE || cay_rule_read(&a, text, &rule, &ignored) < 0)
        return bad(err, "source.url names no host");
    cay_str_copy(out->rule, sizeof out->rule, text);
    (void)snprintf(out->origin, sizeof out->origin, SCHEME "%s/",
                   host); /* shorter than the URL + 1 */
    return 0;
}
