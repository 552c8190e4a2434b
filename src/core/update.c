/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a sandbox that is there: all that is asked for, or nothing.
 *
 * What a running one may have is changed first, because only that can be refused by the sandbox's
 * own state, then the row. A row that cannot be written takes the limits back. */
#include "base/clock.h"
#include "base/log.h"
#include "core/access.h"
#include "core/core.h"
#include "core/lease.h"
#include "core/network.h"
#include "core/seal.h"
#include "core/state.h"
#include "core/validate.h"
#include <string.h>

static bool is_up(const struct cay_sandbox *sb)
{
    return sb->state == CAY_RUNNING || sb->state == CAY_PAUSED;
}

static void apply_numbers(const struct cay_change *c, struct cay_spec *spec)
{
    if (c->timeout_ms)
        spec->timeout_ms = *c->timeout_ms;
    if (c->idle_ms)
        spec->idle_ms = *c->idle_ms;
    if (c->idle_when)
        spec->idle_when = *c->idle_when;
    if (c->lease_ms)
        spec->lease_ms = *c->lease_ms;
    if (c->network) {
        uint64_t generation = spec->network.generation + 1;
        spec->network = *c->network;
        spec->network.generation = generation;
    }
    if (c->cpu_milli)
        spec->cpu_milli = *c->cpu_milli;
    if (c->memory_bytes)
        spec->memory_bytes = *c->memory_bytes;
    spec->memory_by_vcpus = c->memory_by_vcpus;
    if (c->disk_bytes)
        spec->disk_bytes = *c->disk_bytes;
    if (c->ports) {
        memcpy(spec->ports, c->ports, sizeof spec->ports);
        spec->port_count = c->port_count;
        cay_core_date_ports(spec);
    }
}

static int apply(struct cay_core *core, const struct cay_change *c, const char *account_id,
                 struct cay_arena *a, struct cay_spec *spec, struct cay_error *err)
{
    const struct cay_pairs headers = spec->network.headers;
    if (c->name)
        spec->name = c->name;
    if (c->labels)
        spec->labels = *c->labels;
    if (c->tags)
        spec->tags = *c->tags;
    if (c->env)
        spec->env = *c->env;
    if (c->track)
        spec->track = c->track;
    apply_numbers(c, spec);
    int r = cay_network_seal(core, account_id, &headers, a, &spec->network, err);
    if (r == 0 && c->secrets)
        r = cay_seal_all(core, account_id, c->secrets, a, &spec->secrets, err);
    return r;
}

/* What is not to grow need not be there to be given. */
static int check(struct cay_core *core, const struct cay_spec *before, const struct cay_spec *spec,
                 struct cay_error *err)
{
    struct cay_host host = {.memory_bytes = UINT64_MAX};
    if (spec->memory_bytes > before->memory_bytes)
        host.memory_bytes = core->host_memory_bytes;
    if (spec->disk_bytes > before->disk_bytes)
        host.disk_bytes = cay_provider_room(core->provider);
    return cay_validate_spec(spec, &host, err);
}

/* What grows must fit beside all else of its account. */
static int check_quota(struct cay_core *core, const struct cay_spec *before,
                       const struct cay_sandbox *sb, struct cay_arena *a, struct cay_error *err)
{
    const struct {
        int quota;
        int64_t more;
    } grows[] = {
        {CAY_QUOTA_CPU_MILLI, (int64_t)sb->spec.cpu_milli - (int64_t)before->cpu_milli},
        {CAY_QUOTA_MEMORY_BYTES, (int64_t)(sb->spec.memory_bytes - before->memory_bytes)},
        {CAY_QUOTA_DISK_BYTES, (int64_t)(sb->spec.disk_bytes - before->disk_bytes)},
    };
    struct cay_holder holder;
    struct cay_quota used;
    if (grows[0].more <= 0 && grows[1].more <= 0 && grows[2].more <= 0)
        return 0;
    int r = cay_core_holder(core, sb->account_id, a, &holder, err);
    if (r == 0)
        r = cay_store_usage(core->store, sb->account_id, &used, err);
    for (size_t i = 0; i < CAY_COUNT(grows) && r == 0; i++) {
        int q = grows[i].quota;
        if (grows[i].more > 0 && holder.quota.at[q] != CAY_QUOTA_NONE &&
            grows[i].more > holder.quota.at[q] - used.at[q])
            r = cay_fail_quota(err, cay_quota_name(q),
                               (double)holder.quota.at[q] / cay_quota_unit(q),
                               (double)used.at[q] / cay_quota_unit(q));
    }
    return r;
}

/* The end is the start and the time, whenever the time was said. */
static int set_end(struct cay_sandbox *sb, struct cay_error *err)
{
    if (!is_up(sb) && sb->spec.persistent)
        return 0; /* counted from the next start */
    int64_t end_ms = sb->started_at_ms + sb->spec.timeout_ms;
    if (sb->spec.timeout_ms > 0 && end_ms <= cay_clock_ms()) {
        int r = cay_fail_as(err, CAY_ERR_CONFLICT, "TIMEOUT_PASSED",
                            "it was started longer ago than that");
        cay_str_copy(err->field, sizeof err->field, "timeoutMs");
        return r;
    }
    sb->expires_at_ms = sb->spec.timeout_ms > 0 ? end_ms : 0;
    return 0;
}

static int limit(struct cay_core *core, const struct cay_sandbox *sb, const struct cay_spec *spec,
                 struct cay_error *err)
{
    int r = cay_provider_limit(core->provider, sb->id, spec, err);
    return r < 0 && r != CAY_ERR_CONFLICT ? cay_core_gone("change", sb->id, r, err) : r;
}

static int write_change(struct cay_core *core, const struct cay_spec *before,
                        struct cay_sandbox *sb, struct cay_error *err)
{
    struct cay_error failed = {0};
    bool limits = is_up(sb) && (sb->spec.cpu_milli != before->cpu_milli ||
                                sb->spec.memory_bytes != before->memory_bytes ||
                                sb->spec.disk_bytes != before->disk_bytes);
    bool network = is_up(sb) && sb->spec.network.generation != before->network.generation;
    int r = limits ? limit(core, sb, &sb->spec, err) : 0;
    if (r == 0 && network)
        r = cay_network_change(core, sb, err);
    if (r == 0) {
        sb->updated_at_ms = cay_clock_ms();
        r = cay_store_update(core->store, sb, CAY_NOW, err);
    }
    if (r < 0 && limits && cay_provider_limit(core->provider, sb->id, before, &failed) < 0)
        cay_log_error(&failed, "sandbox %s has limits that its record does not tell", sb->id);
    if (r < 0 && network) {
        struct cay_sandbox old = *sb;
        old.spec = *before;
        if (cay_network_change(core, &old, &failed) < 0)
            cay_log_error(&failed, "sandbox %s has another policy than its record", sb->id);
    }
    return r;
}

int cay_core_update(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const struct cay_change *change, struct cay_arena *a, struct cay_sandbox *out,
                    struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    int r = cay_core_find_held(core, owner, id, a, &hold, &sb, err);
    if (r == 0)
        r = cay_state_apply(&sb.state, CAY_CHANGE, err);
    if (r < 0)
        return r;
    if (change->generation && *change->generation != sb.spec.network.generation)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "GENERATION_PASSED",
                           "the policy is of generation %llu by now",
                           (unsigned long long)sb.spec.network.generation);
    struct cay_spec before = sb.spec;
    r = apply(core, change, sb.account_id, a, &sb.spec, err);
    if (r == 0)
        r = check(core, &before, &sb.spec, err);
    if (r == 0)
        r = check_quota(core, &before, &sb, a, err);
    if (r == 0 && change->timeout_ms)
        r = set_end(&sb, err);
    if (r == 0)
        r = write_change(core, &before, &sb, err);
    if (r < 0)
        return r;
    cay_lease_renew(core, &sb);
    *out = sb;
    return 0;
}

/* Never sooner than it was: who asks twice, or later than another, takes nothing away. */
static int put_off(struct cay_sandbox *sb, int64_t timeout_ms, struct cay_error *err)
{
    if (!is_up(sb) && sb->expires_at_ms == 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING",
                           "the sandbox is %s: its time does not run", cay_state_name(sb->state));
    int64_t end_ms = timeout_ms > 0 ? cay_clock_ms() + timeout_ms : 0;
    if (sb->expires_at_ms > 0 && (end_ms == 0 || end_ms > sb->expires_at_ms))
        sb->expires_at_ms = end_ms;
    return 0;
}

int cay_core_extend(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const int64_t *timeout_ms, const int64_t *lease_ms, struct cay_arena *a,
                    struct cay_sandbox *out, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    int r = cay_core_find_held(core, owner, id, a, &hold, &sb, err);
    if (r == 0)
        r = cay_state_apply(&sb.state, CAY_CHANGE, err);
    if (r < 0)
        return r;
    struct cay_spec asked = sb.spec;
    asked.timeout_ms = timeout_ms ? *timeout_ms : asked.timeout_ms;
    asked.lease_ms = lease_ms ? *lease_ms : asked.lease_ms;
    r = check(core, &sb.spec, &asked, err);
    if (r == 0 && timeout_ms)
        r = put_off(&sb, *timeout_ms, err);
    if (r < 0)
        return r;
    sb.spec.lease_ms = asked.lease_ms;
    sb.updated_at_ms = cay_clock_ms();
    r = cay_store_update(core->store, &sb, CAY_NOW, err);
    if (r < 0)
        return r;
    cay_lease_renew(core, &sb);
    *out = sb;
    return 0;
}
