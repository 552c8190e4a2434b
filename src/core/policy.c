/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach, and what it wanted to. */
#include "core/core.h"
#include "core/network.h"
#include "model/limits.h"
#include "net/rule.h"
#include "net/wanted.h"

uint64_t cay_core_network_applied(struct cay_core *core, const struct cay_sandbox *sb)
{
    return cay_network_holds(core, sb) ? sb->spec.network.generation : 0;
}

static struct cay_want want_of(struct cay_arena *a, const struct cay_wanted *w)
{
    char ip[INET6_ADDRSTRLEN];
    return (struct cay_want){
        .name = w->name[0] ? cay_arena_strdup(a, w->name) : NULL,
        .address = w->to.port ? cay_arena_strdup(a, cay_address_text(&w->to.ip, ip)) : NULL,
        .port = w->to.port,
        .verdict = cay_verdict_text(w->verdict),
        .failed = w->failed,
        .open_to_policy = cay_wanted_open(w),
        .count = w->count,
        .sent_bytes = w->sent_bytes,
        .received_bytes = w->received_bytes,
        .injected = w->injected,
        .first_ms = w->first_ms,
        .last_ms = w->last_ms,
    };
}

/* What it has of headers stays, for the hosts that the proposal allows. */
static void keep_headers(struct cay_arena *a, const struct cay_pairs *headers,
                         struct cay_network *proposal)
{
    for (size_t i = 0; i < headers->count; i++) {
        struct cay_network with = *proposal;
        struct cay_policy ignored;
        struct cay_error err = {0};
        with.headers = (struct cay_pairs){.at = &headers->at[i], .count = 1};
        if (cay_policy_read(a, &with, &ignored, &err) == 0)
            cay_pairs_push(a, &proposal->headers, headers->at[i].key, headers->at[i].value);
    }
}

int cay_core_wants(struct cay_core *core, const struct cay_account *owner, const char *id,
                   struct cay_arena *a, struct cay_wants *out, struct cay_error *err)
{
    struct cay_wants wants = {0};
    int r = cay_core_find(core, owner, id, a, &wants.sandbox, err);
    if (r < 0)
        return r;
    struct cay_wanted *found = cay_arena_alloc(a, CAY_NET_WANTED * sizeof *found);
    wants.count = cay_network_wanted(core, wants.sandbox.id, found, CAY_NET_WANTED);
    wants.at = cay_arena_alloc(a, (wants.count + 1) * sizeof *wants.at);
    for (size_t i = 0; i < wants.count; i++)
        wants.at[i] = want_of(a, &found[wants.count - 1 - i]);
    cay_wanted_propose(a, found, wants.count, &wants.proposal);
    keep_headers(a, &wants.sandbox.spec.network.headers, &wants.proposal);
    *out = wants;
    return 0;
}
