/* SPDX-License-Identifier: Apache-2.0 */
#include "image/hosts.h"
#include "base/json.h"
#include "model/limits.h"
#include <ctype.h>
#include <string.h>

#define HUB "docker.io"

static char *lower(struct cay_arena *a, const char *s, size_t len)
{
    char *out = cay_arena_strndup(a, s, len);
    for (char *c = out; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return out;
}

const char *cay_registry_host_of(struct cay_arena *a, const char *url)
{
    static const char *const hub[] = {"index.docker.io", "registry-1.docker.io",
                                      "registry.hub.docker.com"};
    const char *colon = strstr(url, "://");
    const char *host = colon ? colon + 3 : url;
    const char *found = lower(a, host, strcspn(host, "/"));
    for (size_t i = 0; i < CAY_COUNT(hub); i++)
        if (strcmp(found, hub[i]) == 0)
            return HUB;
    return found;
}

const struct cay_registry_host *cay_registry_host_find(const struct cay_registry_hosts *hosts,
                                                       const char *host)
{
    static const struct cay_registry_host unknown = {.host = ""};
    for (size_t i = 0; i < hosts->count; i++)
        if (strcmp(hosts->at[i].host, host) == 0)
            return &hosts->at[i];
    return &unknown;
}

/* The entry of a host, made when there is none. */
static int entry(struct cay_registry_hosts *hosts, const char *host, struct cay_registry_host **out,
                 struct cay_error *err)
{
    const struct cay_registry_host *known = cay_registry_host_find(hosts, host);
    if (!known->host[0] && hosts->count == CAY_REGISTRIES)
        return cay_fail(err, CAY_ERR_INVALID, "more than %d registries are named", CAY_REGISTRIES);
    if (!known->host[0]) {
        hosts->at[hosts->count] = (struct cay_registry_host){.host = host};
        known = &hosts->at[hosts->count++];
    }
    *out = &hosts->at[known - hosts->at];
    return 0;
}

/* ---- our own settings ---- */

static int set_truth(bool *to, const char *key, const char *value, struct cay_error *err)
{
    bool yes = strcmp(value, "true") == 0;
    if (!yes && strcmp(value, "false") != 0)
        return cay_fail(err, CAY_ERR_INVALID, "registry.%s: \"%s\" is not true or false", key,
                        value);
    *to = *to || yes;
    return 0;
}

static int add_mirrors(struct cay_arena *a, struct cay_registry_hosts *hosts, const char *host,
                       const char *value, struct cay_error *err)
{
    char *copy = cay_arena_strdup(a, value), *save;
    for (char *url = strtok_r(copy, ", ", &save); url; url = strtok_r(NULL, ", ", &save)) {
        struct cay_registry_host *origin, *mirror;
        bool plain = strncmp(url, "http://", 7) == 0;
        size_t len = strlen(url);
        while (len && url[len - 1] == '/')
            url[--len] = 0;
        const char *at = cay_registry_host_of(a, url);
        if ((!plain && strncmp(url, "https://", 8) != 0) || !*at ||
            strlen(strstr(url, "://") + 3) != strlen(at))
            return cay_fail(err, CAY_ERR_INVALID, "the mirror %s is not http[s]://HOST[:PORT]",
                            url);
        int r = entry(hosts, at, &mirror, err);
        if (r == 0)
            r = entry(hosts, host, &origin, err);
        if (r < 0)
            return r;
        if (origin->mirrors.count == CAY_REGISTRY_MIRRORS)
            return cay_fail(err, CAY_ERR_INVALID, "%s has more than %d mirrors", host,
                            CAY_REGISTRY_MIRRORS);
        mirror->named = true;
        mirror->insecure = mirror->insecure || plain;
        cay_strs_push(a, &origin->mirrors, url);
    }
    return 0;
}

static int set_one(struct cay_arena *a, struct cay_registry_hosts *hosts, const struct cay_pair *p,
                   struct cay_error *err)
{
    const char *dot = strrchr(p->key, '.'), *word = dot ? dot + 1 : "";
    const char *host = dot ? cay_registry_host_of(a, lower(a, p->key, (size_t)(dot - p->key))) : "";
    struct cay_registry_host *h;
    bool ignored;
    if (!*host)
        return cay_fail(err, CAY_ERR_INVALID, "registry.%s is not registry.HOST.KEY", p->key);
    int r = entry(hosts, host, &h, err);
    if (r < 0)
        return r;
    h->named = true;
    if (strcmp(word, "username") == 0)
        h->username = p->value;
    else if (strcmp(word, "password") == 0)
        h->password = p->value;
    else if (strcmp(word, "ca") == 0)
        h->ca = p->value;
    else if (strcmp(word, "insecure") == 0)
        return set_truth(&h->insecure, p->key, p->value, err);
    else if (strcmp(word, "private") == 0)
        return set_truth(&ignored, p->key, p->value, err); /* being named says so already */
    else if (strcmp(word, "mirror") == 0)
        return add_mirrors(a, hosts, host, p->value, err);
    else
        return cay_fail(err, CAY_ERR_INVALID,
                        "registry.%s: it must end in username, password, ca, insecure, private or "
                        "mirror",
                        p->key);
    return 0;
}

static int add_insecure(struct cay_arena *a, struct cay_registry_hosts *hosts, const char *text,
                        struct cay_error *err)
{
    char *copy = cay_arena_strdup(a, text), *save;
    for (char *word = strtok_r(copy, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        struct cay_registry_host *h;
        if (strchr(word, '/'))
            return cay_fail(err, CAY_ERR_INVALID, "the registry %s is not HOST[:PORT]", word);
        int r = entry(hosts, cay_registry_host_of(a, word), &h, err);
        if (r < 0)
            return r;
        h->insecure = h->named = true;
    }
    return 0;
}

/* ---- Docker's file ---- */

/* "auth" is base64 of NAME:PASSWORD. What our own settings say stands over it. */
static void take_auth(struct cay_arena *a, struct cay_registry_host *h, const struct cay_json *v)
{
    const char *text, *auth = cay_json_get_str(v, "auth", NULL);
    const char *user = cay_json_get_str(v, "username", NULL);
    const char *password = cay_json_get_str(v, "password", NULL);
    if (auth && *auth && cay_str_unbase64(a, auth, &text) && strchr(text, ':')) {
        size_t len = strcspn(text, ":");
        user = cay_arena_strndup(a, text, len);
        password = text + len + 1;
    }
    if (h->username || !user || !*user || !password)
        return;
    h->username = cay_arena_strdup(a, user);
    h->password = cay_arena_strdup(a, password);
}

static int read_docker(struct cay_arena *a, struct cay_registry_hosts *hosts, const char *text,
                       struct cay_error *err)
{
    const struct cay_json *root;
    int r = cay_json_parse(a, text, strlen(text), &root, err);
    if (r < 0)
        return cay_wrap(err, "Docker's config.json cannot be read");
    const struct cay_json *auths =
        root->kind == CAY_JSON_OBJECT ? cay_json_get(root, "auths") : NULL;
    if (!auths || auths->kind != CAY_JSON_OBJECT)
        return 0;
    for (const struct cay_json *v = auths->first; v; v = v->next) {
        struct cay_registry_host *h;
        if (v->kind != CAY_JSON_OBJECT || !v->key)
            continue;
        r = entry(hosts, cay_registry_host_of(a, v->key), &h, err);
        if (r < 0)
            return r;
        take_auth(a, h, v);
    }
    return 0;
}

int cay_registry_hosts_read(struct cay_arena *a, const struct cay_registry_options *o,
                            struct cay_registry_hosts *out, struct cay_error *err)
{
    struct cay_registry_hosts hosts = {
        .at = cay_arena_alloc(a, CAY_REGISTRIES * sizeof(struct cay_registry_host))};
    int r = 0;
    for (size_t i = 0; r == 0 && i < o->settings.count; i++)
        r = set_one(a, &hosts, &o->settings.at[i], err);
    if (r == 0 && o->insecure)
        r = add_insecure(a, &hosts, o->insecure, err);
    if (r == 0 && o->docker)
        r = read_docker(a, &hosts, o->docker, err);
    if (r == 0)
        *out = hosts;
    return r;
}
