/* SPDX-License-Identifier: Apache-2.0 */
#include "core/network.h"
#include "base/log.h"
#include "core/core.h"
#include "core/seal.h"
#include "core/traffic.h"
#include "net/egress.h"
#include "net/policy.h"
#include "net/rule.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int cay_network_begin(struct cay_core *core, const struct cay_config *cfg, struct cay_error *err)
{
    struct cay_egress_options o = {.allow = cfg->egress_allow,
                                   .proxy = cfg->egress_proxy,
                                   .no_proxy = cfg->egress_no_proxy,
                                   .resolvers = cfg->resolv_conf};
    core->data_fd = fcntl(cfg->data_fd, F_DUPFD_CLOEXEC, 3);
    if (core->data_fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot copy a descriptor");
    int r = cay_egress_open(&o, &core->egress, err);
    return r < 0 ? r : cay_traffic_begin(core, err);
}

void cay_network_end(struct cay_core *core)
{
    cay_traffic_keep(core);
    cay_egress_close(core->egress);
    core->egress = NULL;
    cay_close_fd(&core->data_fd);
}

/* ---- headers that requests are given ---- */

static int bad_header(const struct cay_pair *pair, const char *why, struct cay_error *err)
{
    int r = cay_fail_as(err, CAY_ERR_INVALID, "VALIDATION_ERROR", "%.100s: %s", pair->key, why);
    (void)snprintf(err->field, sizeof err->field, "networkPolicy.headers.%.*s",
                   (int)strcspn(pair->key, " "), pair->key);
    return r;
}

static int check_header(const struct cay_pairs *all, size_t i, struct cay_error *err)
{
    const struct cay_pair *pair = &all->at[i];
    for (size_t k = 0; k < i; k++)
        if (strcasecmp(all->at[k].key, pair->key) == 0)
            return bad_header(pair, "it is there twice", err);
    if (!pair->value)
        return 0;
    if (!pair->value[0] || strlen(pair->value) > CAY_MAX_NET_HEADER)
        return bad_header(pair, "a header has 1 to 8192 bytes", err);
    for (const char *c = pair->value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return bad_header(pair, "a header may not hold control characters", err);
    return 0;
}

int cay_network_seal(struct cay_core *core, const char *account_id, const struct cay_pairs *before,
                     struct cay_arena *a, struct cay_network *network, struct cay_error *err)
{
    const struct cay_pairs *said = &network->new_headers;
    struct cay_pairs sealed = cay_pairs_room(a, said->count);
    size_t sum = 0;
    if (said->count > CAY_MAX_NET_HEADERS)
        return cay_fail_field(err, "networkPolicy.headers", "a policy has at most %d headers",
                              CAY_MAX_NET_HEADERS);
    for (size_t i = 0; i < said->count; i++) {
        const struct cay_pair *pair = &said->at[i];
        int r = check_header(said, i, err);
        if (r < 0)
            return r;
        const char *text = pair->value ? cay_seal(core, account_id, pair->key, pair->value, a)
                           : before    ? cay_pairs_get(before, pair->key)
                                       : NULL;
        if (!text && pair->value)
            return cay_fail(err, CAY_ERR_INTERNAL, "cannot seal a header");
        if (!text)
            return bad_header(pair, "null keeps a header that is there, and there is none", err);
        cay_pairs_push(a, &sealed, pair->key, text);
        sum += strlen(text) / 4 * 3; /* as it is without base64 */
    }
    if (sum > CAY_MAX_NET_HEADERS_SUM)
        return cay_fail_field(err, "networkPolicy.headers",
                              "the headers of a policy have at most %lld KiB together",
                              CAY_MAX_NET_HEADERS_SUM / CAY_KIB);
    if (said->count > 0)
        network->headers = sealed;
    network->new_headers = (struct cay_pairs){0};
    return 0;
}

/* What it may reach, with the headers' own values. */
static int policy_of(struct cay_core *core, const struct cay_sandbox *sb, struct cay_arena *a,
                     struct cay_policy *out, struct cay_error *err)
{
    const struct cay_pairs *sealed = &sb->spec.network.headers;
    int r = cay_policy_read(a, &sb->spec.network, out, err);
    for (size_t i = 0; r == 0 && i < out->header_count; i++) {
        const char *key = sealed->at[i].key;
        out->headers[i].value = cay_unseal(core, sb->account_id, key, sealed->at[i].value, a);
        if (!out->headers[i].value)
            r = cay_fail_as(err, CAY_ERR_INTERNAL, "SECRET_UNREADABLE",
                            "the header %.64s cannot be read: it was changed, or kept under "
                            "another key; set it again",
                            key);
    }
    return r;
}

/* ---- the way out ---- */

static bool is_closed(const struct cay_policy *p)
{
    return !p->open && p->name_count + p->allow_count == 0;
}

static int attach(struct cay_core *core, const struct cay_sandbox *sb,
                  const struct cay_policy *policy, struct cay_error *err)
{
    struct cay_way_out way;
    int r = cay_provider_way_out(core->provider, sb->id, &way, err);
    if (r == CAY_ERR_UNSUPPORTED)
        return 0; /* its network is the provider's own matter */
    if (r < 0)
        return cay_wrap(err, "cannot give sandbox %s a way out", sb->id);
    cay_egress_attach(core->egress, sb->id, sb->account_id, policy, &way);
    return 0;
}

int cay_network_up(struct cay_core *core, const struct cay_sandbox *sb, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_policy policy;
    if (!core->egress)
        return 0;
    int r = policy_of(core, sb, &a, &policy, err);
    return r < 0 || is_closed(&policy) ? r : attach(core, sb, &policy, err);
}

static void *one_more(struct cay_arena *a, const void *at, size_t count, const void *one,
                      size_t size)
{
    char *made = cay_arena_alloc(a, (count + 1) * size);
    if (count)
        memcpy(made, at, count * size);
    memcpy(made + count * size, one, size);
    return made;
}

int cay_network_up_with(struct cay_core *core, const struct cay_sandbox *sb, const char *text,
                        struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_policy p;
    struct cay_rule rule;
    if (!core->egress)
        return 0;
    int r = policy_of(core, sb, &a, &p, err);
    if (r == 0)
        r = cay_rule_read(&a, text, &rule, err);
    if (r < 0)
        return r;
    if (rule.is_net)
        p.allow = one_more(&a, p.allow, p.allow_count++, &rule.net, sizeof rule.net);
    else
        p.names = one_more(&a, p.names, p.name_count++, &rule.name, sizeof rule.name);
    return attach(core, sb, &p, err);
}

int cay_network_settle(struct cay_core *core, const struct cay_sandbox *sb, struct cay_error *err)
{
    int r = cay_network_change(core, sb, err);
    if (r == 0 && core->egress && !cay_network_leads_out(&sb->spec.network))
        cay_egress_detach(core->egress, sb->id);
    return r;
}

int cay_network_change(struct cay_core *core, const struct cay_sandbox *sb, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_policy policy;
    if (!core->egress)
        return 0;
    int r = policy_of(core, sb, &a, &policy, err);
    if (r < 0 || cay_egress_change(core->egress, sb->id, &policy) || is_closed(&policy))
        return r;
    return attach(core, sb, &policy, err);
}

bool cay_network_holds(struct cay_core *core, const struct cay_sandbox *sb)
{
    const char *id = sb->id;
    bool attached = false;
    if (!core->egress || (sb->state != CAY_RUNNING && sb->state != CAY_PAUSED))
        return false;
    cay_egress_which(core->egress, &id, &attached, 1);
    return attached || !cay_network_leads_out(&sb->spec.network);
}

size_t cay_network_wanted(struct cay_core *core, const char *id, struct cay_wanted *out, size_t max)
{
    return core->egress ? cay_egress_wanted(core->egress, id, out, max) : 0;
}

void cay_network_moved(struct cay_core *core, const char *id, uint64_t *sent_out,
                       uint64_t *received_out)
{
    struct cay_traffic moved = {0};
    if (core->egress)
        cay_egress_traffic(core->egress, id, &moved);
    *sent_out = moved.sent_bytes;
    *received_out = moved.received_bytes;
}

void cay_network_down(struct cay_core *core, struct cay_sandbox *sb)
{
    struct cay_traffic moved;
    if (!core->egress)
        return;
    cay_egress_traffic(core->egress, sb->id, &moved);
    if (moved.sent_bytes + moved.received_bytes > 0) {
        sb->death.sent_bytes = moved.sent_bytes;
        sb->death.received_bytes = moved.received_bytes;
    }
    cay_egress_detach(core->egress, sb->id);
}

void cay_network_forget(struct cay_core *core, const char *id)
{
    if (core->egress)
        cay_egress_forget(core->egress, id);
}

/* The row is looked at again while it is held: it may have been stopped, or changed, meanwhile. */
static void give_back(struct cay_core *core, const struct cay_sandbox *seen)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_error err = {0};
    if (!cay_hold_try(&core->holds, seen->id, &hold))
        return; /* who holds it gives it one, or the next pass does */
    int r = cay_store_get(core->store, seen->account_id, seen->id, &a, &sb, &err);
    if (r == 0 && sb.state != CAY_RUNNING && sb.state != CAY_PAUSED)
        return;
    if (r == 0)
        r = cay_network_up(core, &sb, &err);
    if (r < 0 && r != CAY_ERR_NOT_FOUND)
        cay_log_error(&err, "sandbox %s has no way out", seen->id);
}

void cay_network_reconcile(struct cay_core *core, const struct cay_sandbox_list *rows)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    cay_traffic_keep(core);
    if (!core->egress || !rows->count)
        return;
    const char **ids = cay_arena_alloc(&a, rows->count * sizeof *ids);
    bool *attached = cay_arena_alloc(&a, rows->count * sizeof *attached);
    for (size_t i = 0; i < rows->count; i++)
        ids[i] = rows->at[i].id;
    cay_egress_which(core->egress, ids, attached, rows->count);
    for (size_t i = 0; i < rows->count; i++) {
        enum cay_state state = rows->at[i].state;
        if (!attached[i] && (state == CAY_RUNNING || state == CAY_PAUSED))
            give_back(core, &rows->at[i]);
    }
}

/* ---- what accounts may have ---- */

void cay_network_limit(struct cay_core *core, const struct cay_holder *holder)
{
    int64_t bytes = holder->quota.at[CAY_QUOTA_EGRESS_BYTES];
    int64_t connections = holder->quota.at[CAY_QUOTA_CONNECTIONS];
    struct cay_egress_limit limit = {bytes == CAY_QUOTA_NONE ? UINT64_MAX : (uint64_t)bytes,
                                     connections == CAY_QUOTA_NONE || connections > UINT32_MAX
                                         ? UINT32_MAX
                                         : (uint32_t)connections};
    if (core->egress)
        cay_egress_limit(core->egress, holder->id, &limit);
}

void cay_network_usage(struct cay_core *core, const char *account_id, struct cay_quota *used)
{
    struct cay_egress_use use = {0};
    if (core->egress)
        (void)cay_egress_used(core->egress, account_id, &use, 1); /* none: nothing */
    used->at[CAY_QUOTA_EGRESS_BYTES] = (int64_t)use.bytes;
    used->at[CAY_QUOTA_CONNECTIONS] = use.connections;
}
