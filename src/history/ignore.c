/* SPDX-License-Identifier: Apache-2.0 */
/* The language of .gitignore. */
#include "history/inside.h"
#include <string.h>

#define RULES_MAX 10000

static void add_rule(struct cay_arena *a, struct cay_ignore *rules, const char *base,
                     const char *line, size_t len)
{
    struct cay_ignore_rule r = {.base = base};
    while (len > 0 && line[len - 1] == ' ' && (len < 2 || line[len - 2] != '\\'))
        len--;
    if (len == 0 || line[0] == '#' || rules->count == RULES_MAX)
        return;
    if (line[0] == '!') {
        r.negated = true;
        line++, len--;
    }
    if (len > 0 && line[len - 1] == '/') {
        r.only_dirs = true;
        len--;
    }
    r.anchored = memchr(line, '/', len) != NULL;
    if (len > 0 && line[0] == '/')
        line++, len--;
    if (len == 0)
        return;
    r.pattern = cay_arena_strndup(a, line, len);
    if (rules->count == rules->cap) {
        size_t cap = rules->cap ? 2 * rules->cap : 16;
        struct cay_ignore_rule *at = cay_arena_alloc(a, cap * sizeof *at);
        if (rules->count)
            memcpy(at, rules->at, rules->count * sizeof *at);
        rules->at = at;
        rules->cap = cap;
    }
    rules->at[rules->count++] = r;
}

void cay_ignore_add(struct cay_arena *a, struct cay_ignore *rules, const char *base,
                    const char *text, size_t len)
{
    base = cay_arena_strdup(a, base);
    for (const char *end = text + len; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t n = newline ? (size_t)(newline - text) : (size_t)(end - text);
        add_rule(a, rules, base, text, n > 0 && text[n - 1] == '\r' ? n - 1 : n);
        text += n + 1;
    }
}

/* One of [a-z!x]; *end is behind it. False also when there is no such set. */
static bool in_set(const char *set, char c, const char **end)
{
    bool negated = set[1] == '!' || set[1] == '^', found = false;
    const char *at = set + 1 + negated, *first = at;
    for (; *at && (*at != ']' || at == first); at++) {
        if (at[1] == '-' && at[2] && at[2] != ']') {
            found |= at[0] <= c && c <= at[2];
            at += 2;
        } else {
            found |= *at == c;
        }
    }
    *end = *at ? at + 1 : at;
    return *at && c != '/' && found != negated;
}

/* steps bounds what stars among stars can cost. */
static bool matches(const char *p, const char *s, unsigned *steps)
{
    for (; *p; p++, s++) {
        const char *end;
        if (++*steps > 100000)
            return false;
        if (p[0] == '*') {
            bool across = p[1] == '*';
            p += strspn(p, "*");
            if (across && *p == '/' && matches(p + 1, s, steps))
                return true; /* nothing at all between two slashes */
            for (;; s++) {
                if (matches(p, s, steps))
                    return true;
                if (!*s || (*s == '/' && !across))
                    return false;
            }
        }
        if (p[0] == '[') {
            if (!*s || !in_set(p, *s, &end))
                return false;
            p = end - 1;
            continue;
        }
        if (p[0] == '\\' && p[1])
            p++;
        else if (p[0] == '?' && *s && *s != '/')
            continue;
        if (*p != *s)
            return false;
    }
    return !*s;
}

static bool rule_fits(const struct cay_ignore_rule *r, const char *path, bool is_dir)
{
    size_t base = strlen(r->base);
    unsigned steps = 0;
    if ((r->only_dirs && !is_dir) || strncmp(path, r->base, base) != 0)
        return false;
    const char *name = strrchr(path, '/');
    return matches(r->pattern, r->anchored || !name ? path + base : name + 1, &steps);
}

static bool one_fits(const struct cay_ignore *rules, const char *path, bool is_dir)
{
    for (size_t i = rules->count; i > 0; i--)
        if (rule_fits(&rules->at[i - 1], path, is_dir))
            return !rules->at[i - 1].negated;
    return false;
}

/* What lies in a directory that is ignored is, whatever is said of it. */
bool cay_ignore_has(const struct cay_ignore *rules, const char *path)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (rules->count == 0 || len >= sizeof part)
        return false;
    memcpy(part, path, len + 1);
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        bool ignored = one_fits(rules, part, true);
        *slash = '/';
        if (ignored)
            return true;
    }
    return one_fits(rules, path, false);
}
