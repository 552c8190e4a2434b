/* SPDX-License-Identifier: Apache-2.0 */
/* The language of .gitignore. Rules are a stranger's, and stars among stars take time: all that is
 * done for one look at a workspace is counted in steps, and ends when there are too many. */
#include "history/inside.h"
#include <string.h>

#define READ_STEPS 1000 /* for finding one file of rules */

bool cay_ignore_is_spent(const struct cay_ignore *rules)
{
    return rules->steps > CAY_HISTORY_RULE_STEPS;
}

static bool spend(struct cay_ignore *rules, size_t steps)
{
    rules->steps += steps;
    return !cay_ignore_is_spent(rules);
}

static void add_rule(struct cay_arena *a, struct cay_ignore *rules, const char *base,
                     const char *line, size_t len)
{
    struct cay_ignore_rule r = {.base = base, .base_len = strlen(base)};
    while (len > 0 && line[len - 1] == ' ' && (len < 2 || line[len - 2] != '\\'))
        len--;
    if (len == 0 || line[0] == '#' || rules->count == CAY_HISTORY_RULES ||
        len > CAY_HISTORY_RULE_BYTES)
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
    rules->kept[0] = 0;
    if (!spend(rules, READ_STEPS + 2 * len))
        return;
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

static bool matches(struct cay_ignore *rules, const char *p, const char *s)
{
    for (; *p; p++, s++) {
        const char *end;
        if (!spend(rules, 1))
            return false;
        if (p[0] == '*') {
            bool across = p[1] == '*';
            p += strspn(p, "*");
            if (across && *p == '/' && matches(rules, p + 1, s))
                return true; /* nothing at all between two slashes */
            for (;; s++) {
                if (matches(rules, p, s))
                    return true;
                if (!spend(rules, 1) || !*s || (*s == '/' && !across))
                    return false;
            }
        }
        if (p[0] == '[') {
            if (!*s || !in_set(p, *s, &end))
                return false;
            (void)spend(rules, (size_t)(end - p)); /* the next round asks */
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

static bool rule_fits(struct cay_ignore *rules, const struct cay_ignore_rule *r, const char *path,
                      bool is_dir)
{
    if (!spend(rules, 1 + r->base_len / 8) || (r->only_dirs && !is_dir) ||
        strncmp(path, r->base, r->base_len) != 0)
        return false;
    const char *name = strrchr(path, '/');
    return matches(rules, r->pattern, r->anchored || !name ? path + r->base_len : name + 1);
}

static bool one_fits(struct cay_ignore *rules, const char *path, bool is_dir)
{
    for (size_t i = rules->count; i > 0; i--)
        if (rule_fits(rules, &rules->at[i - 1], path, is_dir))
            return !rules->at[i - 1].negated;
    return false;
}

/* What lies in a directory that is ignored is, whatever is said of it. Neighbours come one after
 * the other: of directories that two have in common it is asked once. */
bool cay_ignore_has(struct cay_ignore *rules, const char *path)
{
    char part[PATH_MAX];
    size_t len = strlen(path), same = 0;
    if (rules->count == 0 || len >= sizeof part)
        return false;
    while (path[same] && path[same] == rules->kept[same])
        same++;
    memcpy(part, path, len + 1);
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        if (slash < part + same)
            continue;
        *slash = 0;
        bool ignored = one_fits(rules, part, true);
        *slash = '/';
        if (ignored)
            return true;
    }
    memcpy(rules->kept, path, len + 1);
    return one_fits(rules, path, false);
}
