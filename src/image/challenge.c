/* SPDX-License-Identifier: Apache-2.0 */
#include "image/challenge.h"
#include <string.h>
#include <strings.h>

#define SCHEMES 8 /* of one header that are looked at */

static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static const char *skip(const char *s)
{
    return s + strspn(s, " \t");
}

/* A token into the arena; NULL when there is none. */
static const char *take_token(struct cay_arena *a, const char **at)
{
    size_t len = 0;
    while (is_token((*at)[len]))
        len++;
    const char *word = len ? cay_arena_strndup(a, *at, len) : NULL;
    *at += len;
    return word;
}

static const char *take_quoted(struct cay_arena *a, const char **at)
{
    char *out = cay_arena_alloc(a, strlen(*at) + 1);
    size_t len = 0;
    const char *s = *at + 1;
    for (; *s && *s != '"'; s++) {
        if (*s == '\\' && *++s == 0)
            return NULL;
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return NULL;
        out[len++] = *s;
    }
    if (*s != '"')
        return NULL;
    *at = s + 1;
    return out;
}

/* name=value; false when what comes is none, and *at stays. */
static bool take_param(struct cay_arena *a, const char **at, const char **name, const char **value)
{
    const char *s = *at;
    *name = take_token(a, &s);
    s = skip(s);
    if (!*name || *s != '=')
        return false;
    s = skip(s + 1);
    *value = *s == '"' ? take_quoted(a, &s) : take_token(a, &s);
    *at = s;
    return true;
}

static bool set_once(const char **to, const char *value)
{
    if (*to || !value)
        return false;
    *to = value;
    return true;
}

static bool keep(struct cay_challenge *c, const char *name, const char *value)
{
    if (strcasecmp(name, "realm") == 0)
        return set_once(&c->realm, value);
    if (strcasecmp(name, "service") == 0)
        return set_once(&c->service, value);
    if (strcasecmp(name, "scope") == 0)
        return set_once(&c->scope, value);
    return value != NULL;
}

/* One scheme with its parameters; false when the rules are broken. */
static bool take_scheme(struct cay_arena *a, const char **at, struct cay_challenge *out)
{
    const char *name, *value, *scheme = take_token(a, at);
    if (!scheme)
        return false;
    out->kind = strcasecmp(scheme, "bearer") == 0  ? CAY_CHALLENGE_BEARER
                : strcasecmp(scheme, "basic") == 0 ? CAY_CHALLENGE_BASIC
                                                   : CAY_CHALLENGE_NONE;
    *at = skip(*at);
    while (**at && take_param(a, at, &name, &value)) {
        if (!keep(out, name, value))
            return false;
        *at = skip(*at);
        if (**at && **at != ',')
            return false;
        *at += strspn(*at, ", \t");
    }
    *at += strspn(*at, ", \t"); /* of one without parameters */
    return true;
}

struct cay_challenge cay_challenge_read(struct cay_arena *a, const char *text)
{
    struct cay_challenge best = {0};
    const char *at = text + strspn(text, ", \t");
    for (int i = 0; *at && i < SCHEMES; i++) {
        struct cay_challenge one = {0};
        const char *before = at;
        if (!take_scheme(a, &at, &one))
            return (struct cay_challenge){0};
        if (one.kind > best.kind && (one.kind != CAY_CHALLENGE_BEARER || one.realm))
            best = one;
        if (at == before)
            break;
    }
    return best;
}
