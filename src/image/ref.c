/* SPDX-License-Identifier: Apache-2.0 */
#include "image/ref.h"
#include "image/manifest.h"
#include "model/limits.h"
#include <ctype.h>
#include <string.h>

#define LIBRARY "library/" /* of the hub's own images */
#define DEFAULT_TAG "latest"
#define MAX_TAG 128

static int bad(struct cay_error *err, const char *text, const char *why)
{
    int r = cay_fail_field(err, "image", "not the name of an image, %s: %.100s", why, text);
    err->name = "INVALID_IMAGE_NAME";
    return r;
}

static bool is_in(char c, const char *more)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr(more, c));
}

/* Parts of small letters and digits, with single dots, one or two underscores or any number of
 * dashes between them. */
static bool is_part(const char *s, size_t len)
{
    if (len == 0 || !is_in(s[0], "") || !is_in(s[len - 1], ""))
        return false;
    for (size_t i = 1; i < len; i++) {
        if (!is_in(s[i], "._-"))
            return false;
        if (s[i] == '.' && !is_in(s[i - 1], ""))
            return false;
        if (s[i] == '_' && !is_in(s[i - 1], "_"))
            return false;
        if (s[i] == '_' && i > 1 && s[i - 1] == '_' && s[i - 2] == '_')
            return false;
        if (s[i] == '-' && (s[i - 1] == '.' || s[i - 1] == '_'))
            return false;
    }
    return true;
}

static bool is_repository(const char *s)
{
    for (;;) {
        size_t n = strcspn(s, "/");
        if (!is_part(s, n))
            return false;
        if (!s[n])
            return true;
        s += n + 1;
    }
}

static bool is_tag(const char *s)
{
    size_t len = strlen(s);
    if (len == 0 || len > MAX_TAG || s[0] == '.' || s[0] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("_.-", s[i]))
            return false;
    return true;
}

/* host[:port], or [v6][:port] */
static bool is_registry(const char *s)
{
    size_t host = s[0] == '[' ? strcspn(s, "]") + 1 : strcspn(s, ":");
    const char *letters = s[0] == '[' ? "[]:." : ".-";
    if (host == 0 || host > CAY_MAX_HOST || host > strlen(s))
        return false;
    for (size_t i = 0; i < host; i++)
        if (!is_in(s[i], letters) || (s[i] == '.' && (i == 0 || !is_in(s[i - 1], ""))))
            return false;
    if (!s[host])
        return true;
    size_t digits = strspn(s + host + 1, "0123456789");
    return s[host] == ':' && digits > 0 && digits <= 5 && !s[host + 1 + digits];
}

static void lower(char *s)
{
    for (; *s; s++)
        *s = (char)tolower((unsigned char)*s);
}

/* The first part is a registry when it could not be the beginning of a repository. */
static void split_registry(struct cay_arena *a, char *text, struct cay_ref *out)
{
    char *slash = strchr(text, '/');
    size_t n = slash ? (size_t)(slash - text) : 0;
    char *first = cay_arena_strndup(a, text, n);
    if (n > 0 && (strpbrk(first, ".:[") || strcmp(first, "localhost") == 0)) {
        lower(first);
        out->registry = strcmp(first, "index.docker.io") == 0 ? CAY_REF_HUB : first;
        text = slash + 1;
    } else {
        out->registry = CAY_REF_HUB;
    }
    bool bare = strcmp(out->registry, CAY_REF_HUB) == 0 && !strchr(text, '/');
    out->repository = bare ? cay_arena_printf(a, LIBRARY "%s", text) : text;
}

int cay_ref_parse(struct cay_arena *a, const char *given, struct cay_ref *out,
                  struct cay_error *err)
{
    struct cay_ref ref = {0};
    if (!*given || strlen(given) > CAY_MAX_IMAGE_NAME)
        return bad(err, given, *given ? "too long" : "empty");
    char *text = cay_arena_strdup(a, given);
    char *at = strchr(text, '@');
    if (at) {
        *at = 0;
        ref.digest = cay_digest_hex(at + 1);
        if (!ref.digest)
            return bad(err, given, "bad digest");
    }
    char *slash = strrchr(text, '/');
    char *colon = strrchr(slash ? slash : text, ':');
    if (colon) {
        *colon = 0;
        ref.tag = colon + 1;
        if (!is_tag(ref.tag))
            return bad(err, given, "bad tag");
    }
    if (!ref.tag && !ref.digest)
        ref.tag = DEFAULT_TAG;
    split_registry(a, text, &ref);
    if (!is_registry(ref.registry))
        return bad(err, given, "bad registry");
    if (!is_repository(ref.repository))
        return bad(err, given, "bad repository");
    *out = ref;
    return 0;
}

static const char *join(struct cay_arena *a, const char *head, const struct cay_ref *ref,
                        const char *repository)
{
    return cay_arena_printf(a, "%s%s%s%s%s%s", head, repository, ref->tag ? ":" : "",
                            ref->tag ? ref->tag : "", ref->digest ? "@sha256:" : "",
                            ref->digest ? ref->digest : "");
}

const char *cay_ref_full(struct cay_arena *a, const struct cay_ref *ref)
{
    return join(a, cay_arena_printf(a, "%s/", ref->registry), ref, ref->repository);
}

const char *cay_ref_short(struct cay_arena *a, const struct cay_ref *ref)
{
    const char *name = ref->repository;
    if (strcmp(ref->registry, CAY_REF_HUB) != 0)
        return cay_ref_full(a, ref);
    if (strncmp(name, LIBRARY, strlen(LIBRARY)) == 0 && !strchr(name + strlen(LIBRARY), '/'))
        name += strlen(LIBRARY);
    return join(a, "", ref, name);
}
