/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses a sandbox was given for which names. A rule that names a host allows exactly
 * these. They stay for a while longer than the resolver said, because programs keep them. */
#pragma once
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

struct cay_given_entry {
    struct in6_addr ip;
    int64_t until_ms;
    char *name;
};

struct cay_given { /* zeroed: none */
    struct cay_given_entry *at;
    size_t count, cap, next; /* next: the place that is used again when all are in use */
};

void cay_given_add(struct cay_given *g, const struct in6_addr *ip, const char *name,
                   int64_t until_ms);
/* The names, borrowed, at most max; returns how many. */
size_t cay_given_names(const struct cay_given *g, const struct in6_addr *ip, int64_t now_ms,
                       const char **out, size_t max);
void cay_given_done(struct cay_given *g);
