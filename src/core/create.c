/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a sandbox: the row first, then the provider, then its source, then the start command,
 * then the row again.
 *
 * A crash between two steps must leave something that names what to mend, so the row is written
 * before anything exists (PENDING) and says RUNNING only when the sandbox runs. A failure on the
 * way takes back what was made, in reverse; what even that cannot take back, reconcile.c finds.
 *
 * Whoever waits hears of a failure, and then there never was a row. Whoever does not want to wait
 * is answered with the row, so that stays and tells of the failure: `answered` is its mark. */
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "core/image.h"
#include "core/keeper.h"
#include "core/kept.h"
#include "core/maker.h"
#include "core/making.h"
#include "core/metrics.h"
#include "core/network.h"
#include "core/once.h"
#include "core/seal.h"
#include "core/source.h"
#include "core/ticket.h"
#include "core/validate.h"
#include "log/files.h"
#include <stdio.h>
#include <string.h>

#define NAME_TRIES 4
#define LOOK_MS 1000 /* until reconcile tries what an undo could not do */

int cay_core_undo_create(struct cay_core *core, struct cay_sandbox *sb, const char *why,
                         struct cay_error *err)
{
    cay_network_forget(core, sb->id);
    int r = cay_provider_destroy(core->provider, sb->id, NULL, NULL, err);
    if (r == CAY_ERR_NOT_FOUND)
        r = 0;
    if (r == 0)
        r = cay_core_release_volume(core, sb, err);
    bool left = r < 0;
    if (left && !sb->answered)
        return r; /* the row stays, and names what is left */
    cay_log_remove_all(core->logs_fd, sb->id);
    cay_history_forget(core, sb->id);
    if (!sb->answered)
        return cay_store_remove(core->store, sb->id, CAY_SOON, err);
    sb->state = CAY_ERROR;
    sb->status_reason = why;
    sb->has_death = true;
    sb->death = (struct cay_death){.reason = "error", .message = why};
    sb->start_exec[0] = 0;
    sb->started_at_ms = 0;
    sb->updated_at_ms = cay_clock_ms();
    struct cay_error unwritten = {0};
    int w = cay_store_update(core->store, sb, CAY_NOW, left ? &unwritten : err);
    if (w == 0)
        cay_core_tell(core, sb, NULL);
    else if (left)
        cay_log_error(&unwritten, "cannot record that sandbox %s is in error", sb->id);
    return left ? r : w;
}

static const char *make_name(char out[CAY_MAX_NAME + 1])
{
    static const char *const how[] = {"amber", "brave",  "calm",  "clear", "coral", "early",
                                      "fair",  "gentle", "green", "high",  "keen",  "late",
                                      "mild",  "quiet",  "sunny", "warm"};
    static const char *const what[] = {"bay",   "beach", "breeze", "cape", "cove", "dune",
                                       "gull",  "inlet", "island", "palm", "reef", "sand",
                                       "shell", "shoal", "tide",   "wave"};
    char hex[9];
    cay_id_hex(hex, 8);
    (void)snprintf(out, CAY_MAX_NAME + 1, "%s-%s-%s", how[hex[0] % CAY_COUNT(how)],
                   what[hex[1] % CAY_COUNT(what)], hex + 2); /* short words */
    return out;
}

static struct cay_sandbox new_row(struct cay_core *core, const struct cay_account *owner,
                                  const struct cay_spec *spec)
{
    struct cay_sandbox sb = {
        .account_id = owner->id, .spec = *spec, .state = CAY_PENDING, .server = core->server};
    if (spec->once) {
        cay_once_sandbox(core, owner->id, spec->once, sb.id);
        sb.fingerprint = spec->once->fingerprint;
    } else {
        cay_id_sandbox(sb.id);
    }
    sb.created_at_ms = sb.updated_at_ms = cay_clock_ms();
    if (spec->timeout_ms > 0)
        sb.expires_at_ms = sb.created_at_ms + spec->timeout_ms;
    cay_core_date_ports(&sb.spec);
    cay_str_copy(sb.keeps, sizeof sb.keeps, spec->volume ? spec->volume : "");
    return sb;
}

/* A name that was made up may be taken; then another one is. It lives in `made_up`. */
static int insert_row(struct cay_core *core, char made_up[CAY_MAX_NAME + 1], struct cay_sandbox *sb,
                      enum cay_durable durable, struct cay_error *err)
{
    if (sb->spec.name)
        return cay_store_insert(core->store, sb, durable, err);
    int r = 0;
    for (int i = 0; i < NAME_TRIES; i++) {
        sb->spec.name = make_name(made_up);
        r = cay_store_insert(core->store, sb, durable, err);
        if (r != CAY_ERR_CONFLICT)
            break;
    }
    return r;
}

/* The image is not in the store; it may be had from elsewhere. */
static bool is_absent(const struct cay_spec *spec, const struct cay_error *err)
{
    return !spec->from && err->code == CAY_ERR_NOT_FOUND &&
           strcmp(cay_error_name(err), "IMAGE_NOT_FOUND") == 0;
}

/* When a registry is asked for an image that is not here. */
static enum cay_pull_policy policy_of(const struct cay_core *core, const struct cay_spec *spec)
{
    enum cay_pull_policy policy = spec->pull == CAY_PULL_AS_SET ? core->pull_policy : spec->pull;
    return policy == CAY_PULL_NEVER ? CAY_PULL_NEVER : CAY_PULL_MISSING;
}

/* Is its registry to be asked although it is here? The name by which it is then. */
static const char *to_recheck(struct cay_core *core, const struct cay_spec *spec)
{
    const char *names[CAY_IMAGE_NAMES];
    enum cay_pull_policy policy = spec->pull == CAY_PULL_AS_SET ? core->pull_policy : spec->pull;
    if (policy != CAY_PULL_ALWAYS || spec->from)
        return NULL;
    (void)cay_image_names(core, spec->image, names);
    return cay_images_may_be_old(core, names[0]) ? names[0] : NULL;
}

static int create_failed(const struct cay_spec *spec, int r, struct cay_error *err)
{
    if (spec->from && !spec->volume && r == CAY_ERR_NOT_FOUND &&
        strcmp(cay_error_name(err), "IMAGE_NOT_FOUND") != 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT,
                           cay_id_is_snapshot(spec->from) ? "SNAPSHOT_GONE" : "SANDBOX_GONE",
                           "the files of %s are gone", spec->from);
    return cay_wrap(err, "cannot create a sandbox from image %s", spec->image);
}

/* By the first of its names that the store knows. */
static int make_files(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err)
{
    const char *names[CAY_IMAGE_NAMES];
    struct cay_spec spec = sb->spec;
    if (sb->spec.from) {
        if (!sb->spec.image_used)
            sb->spec.image_used = sb->spec.image;
        return cay_provider_create(core->provider, sb->id, &spec, &sb->copied, err);
    }
    int r = CAY_ERR_NOT_FOUND;
    size_t count = cay_image_names(core, sb->spec.image, names);
    for (size_t i = 0; i < count; i++) {
        spec.image = sb->spec.image_used = names[i];
        r = cay_provider_create(core->provider, sb->id, &spec, &sb->copied, err);
        if (r == 0 || !is_absent(&spec, err))
            break;
    }
    return r;
}

/* A snapshot is shared meanwhile, so that it is not removed; a sandbox that is forked the caller
 * shares. */
static int make_empty(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold from = {0};
    int r = 0;
    if (sb->spec.from && cay_id_is_snapshot(sb->spec.from))
        r = cay_hold_share(&core->holds, sb->spec.from, &from, err);
    if (r < 0)
        return r;
    r = make_files(core, sb, err);
    if (r < 0)
        return create_failed(&sb->spec, r, err);
    sb->started_at_ms = cay_clock_ms();
    cay_core_copy_took(core, &sb->copied);
    cay_crash_point("create-provider-done");
    return 0;
}

/* All that follows the row, which the caller holds, but for the row's last word. */
static int make(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err)
{
    int r = make_empty(core, sb, err);
    if (r == 0)
        r = cay_network_up(core, sb, err);
    if (r == 0)
        r = cay_core_begin_inside(core, sb, err);
    if (r == 0 && sb->start_exec[0])
        cay_crash_point("create-start-command");
    return r;
}

/* Whose row is about to say RUNNING. */
static int begin_history(struct cay_core *core, const struct cay_sandbox *sb, struct cay_error *err)
{
    const char *from = sb->spec.from;
    if (from && cay_id_is_sandbox(from))
        return cay_history_fork(core, from, sb, err);
    cay_history_begin(core, sb);
    return 0;
}

static int say_running(struct cay_core *core, struct cay_sandbox *sb, int64_t began_ms,
                       enum cay_durable durable, struct cay_error *err)
{
    sb->state = CAY_RUNNING;
    int r = begin_history(core, sb, err);
    if (r < 0)
        return r;
    sb->created_in_ms = cay_clock_mono_ms() - began_ms;
    sb->updated_at_ms = cay_clock_ms();
    r = cay_store_update(core->store, sb, durable, err);
    if (r < 0)
        return r;
    cay_crash_point("create-row-running");
    cay_core_mind_start(core, sb);
    return 0;
}

/* The caller has, or will be told by the row, the error that matters. */
void cay_core_take_back(struct cay_core *core, struct cay_sandbox *sb, const struct cay_error *why)
{
    struct cay_error err = {0};
    char reason[sizeof why->msg + sizeof why->cause + 2];
    (void)snprintf(reason, sizeof reason, "%s%s%s", why->msg, why->cause[0] ? ": " : "",
                   why->cause);
    if (cay_core_undo_create(core, sb, reason, &err) < 0) {
        cay_log_error(&err, "cannot take back sandbox %s yet", sb->id);
        cay_keeper_look(core, LOOK_MS);
    }
    sb->status_reason = sb->death.message = NULL; /* reason goes with us */
}

static int check_isolation(struct cay_core *core, const char *wanted, struct cay_error *err)
{
    const char *here = cay_core_isolation(core);
    if (!wanted || strcmp(wanted, here) == 0 || strcmp(wanted, "default") == 0)
        return 0;
    int r = cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "ISOLATION_UNAVAILABLE",
                        "no isolation %s here: %s is what there is", wanted, here);
    cay_str_copy(err->field, sizeof err->field, "isolation");
    return r;
}

int cay_core_check_spec(struct cay_core *core, struct cay_spec *spec, struct cay_error *err)
{
    struct cay_host host = {.memory_bytes = core->host_memory_bytes,
                            .disk_bytes = cay_provider_room(core->provider)};
    cay_validate_fit(spec, &host);
    int r = cay_validate_spec(spec, &host, err);
    return r < 0 ? r : check_isolation(core, spec->isolation, err);
}

/* What is asked for, as a row that is not written yet. */
static int prepare(struct cay_core *core, const struct cay_account *owner,
                   const struct cay_spec *spec, struct cay_sandbox *out, struct cay_error *err)
{
    struct cay_spec wanted = *spec;
    int r = cay_core_check_spec(core, &wanted, err);
    if (r == 0)
        *out = new_row(core, owner, &wanted);
    return r;
}

int cay_making_begin(struct cay_making *m, struct cay_core *core, const struct cay_account *owner,
                     const struct cay_spec *spec, struct cay_error *err)
{
    m->began_ms = cay_clock_mono_ms();
    int r = prepare(core, owner, spec, &m->sb, err);
    if (r < 0)
        return r;
    m->core = core;
    (void)cay_hold_try(&core->holds, m->sb.id, &m->hold); /* nobody else knows this id */
    r = insert_row(core, m->name, &m->sb, CAY_SOON, err);
    if (r < 0)
        return r;
    m->in_store = true;
    if (m->overlaps)
        m->wish = cay_store_sync_begin(core->store);
    cay_crash_point("create-row-written");
    r = spec->volume ? cay_core_claim_volume(core, &m->sb, err) : 0;
    return r < 0 ? r : make(core, &m->sb, err);
}

int cay_making_end(struct cay_making *m, enum cay_durable durable, struct cay_error *err)
{
    int r = say_running(m->core, &m->sb, m->began_ms, m->overlaps ? CAY_SOON : durable, err);
    return r == 0 && m->overlaps ? cay_store_sync_end(m->core->store, m->wish, err) : r;
}

static void tell_made(struct cay_core *core, const struct cay_sandbox *sb)
{
    bool forked = sb->spec.from && cay_id_is_sandbox(sb->spec.from);
    cay_core_tell(core, sb, forked ? "forked" : "created");
}

void cay_making_release(struct cay_making *m, struct cay_arena *a, struct cay_sandbox *out)
{
    if (m->sb.spec.name == m->name)
        m->sb.spec.name = cay_arena_strdup(a, m->name);
    *out = m->sb;
    tell_made(m->core, out);
    m->core = NULL;
    cay_hold_end(&m->hold);
}

void cay_making_undo(struct cay_making *m)
{
    struct cay_error err = {0}; /* the caller already has the one that matters */
    if (m->core && m->in_store && cay_core_undo_create(m->core, &m->sb, NULL, &err) < 0) {
        cay_log_error(&err, "cannot take back sandbox %s yet", m->sb.id);
        m->sb.state = CAY_PENDING; /* the row stays, and names what is left */
        cay_core_note(m->core, &m->sb, CAY_SOON);
        cay_keeper_look(m->core, LOOK_MS);
    }
    cay_hold_end(&m->hold);
    m->core = NULL;
}

/* Whoever makes it holds its id to the end, and takes the row back when it fails: then there is
 * none, and who asked again is the first. */
static int await_first(struct cay_core *core, const struct cay_account *owner, const char *id,
                       struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold made = {0};
    int r = cay_hold_wait(&core->holds, id, &made, err);
    return r < 0 ? r : cay_store_get(core->store, owner->id, id, a, out, err);
}

int cay_making_first(struct cay_core *core, const struct cay_account *owner,
                     const struct cay_spec *spec, struct cay_hold *turn, struct cay_arena *a,
                     struct cay_sandbox *out, bool *found, struct cay_error *err)
{
    char id[CAY_ID_SIZE], name[CAY_ID_SIZE];
    *found = false;
    if (!spec->once)
        return 0;
    cay_once_sandbox(core, owner->id, spec->once, id);
    cay_id_volume(name, id); /* the id itself is whose row it is */
    int r = cay_hold_wait(&core->holds, name, turn, err);
    if (r == 0)
        r = cay_store_get(core->store, owner->id, id, a, out, err);
    if (r == 0 && out->state == CAY_PENDING && !out->answered)
        r = await_first(core, owner, id, a, out, err);
    if (r == CAY_ERR_NOT_FOUND)
        return 0;
    *found = r == 0;
    return r < 0 ? r : cay_once_same(spec->once, out->fingerprint, err);
}

void cay_core_answered(struct cay_core *core, const struct cay_sandbox *made, const char *answer)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_error err = {0};
    int r = cay_hold_wait(&core->holds, made->id, &hold, &err);
    if (r == 0)
        r = cay_store_get(core->store, made->account_id, made->id, &a, &sb, &err);
    if (r == 0) {
        sb.first_answer = answer;
        r = cay_store_update(core->store, &sb, CAY_SOON, &err);
    }
    if (r < 0)
        cay_log_error(&err, "cannot keep the answer about sandbox %s", made->id);
}

/* A team's sandbox is the team's, whoever made it. Secrets are sealed for whom they belong to. */
static int for_whom(struct cay_core *core, const struct cay_account *owner, struct cay_spec *wanted,
                    struct cay_arena *a, struct cay_account *as, struct cay_error *err)
{
    int r = cay_core_as_team(core, owner, wanted->team_id, CAY_ROLE_MEMBER, as, err);
    if (r == 0 && cay_id_is_team(as->id))
        wanted->team_id = as->id;
    if (r == 0)
        r = cay_seal_all(core, as->id, &wanted->new_secrets, a, &wanted->secrets, err);
    if (r == 0)
        r = cay_network_seal(core, as->id, NULL, a, &wanted->network, err);
    return r;
}

static int create_now(struct cay_core *core, const struct cay_account *owner,
                      const struct cay_spec *spec, struct cay_arena *a, struct cay_sandbox *out,
                      struct cay_error *err)
{
    CAY_AUTO_COPY struct cay_core *copies = NULL;
    CAY_AUTO_HOLD struct cay_hold turn = {0};
    CAY_CLEANUP(cay_making_undo) struct cay_making m = {0};
    struct cay_spec wanted = *spec;
    struct cay_account as;
    int64_t began_us = cay_clock_mono_us();
    bool found = false;
    int r = for_whom(core, owner, &wanted, a, &as, err);
    if (r == 0)
        r = cay_making_first(core, &as, spec, &turn, a, out, &found, err);
    if (r < 0 || found)
        return r;
    r = wanted.from ? cay_core_copy_begin(core, &copies, err) : 0;
    if (r == 0 && wanted.from)
        r = cay_core_use_snapshot(core, owner, &wanted, a, err);
    /* After a power cut the row alone says that it was there: that is enough for one that did not
     * outlive it. One that does must be found as what it is. */
    m.overlaps = !wanted.persistent;
    if (r == 0)
        r = cay_making_begin(&m, core, &as, &wanted, err);
    if (r == 0)
        r = cay_making_end(&m, CAY_NOW, err);
    if (r == 0) {
        cay_making_release(&m, a, out);
        cay_core_took(CAY_TOOK_CREATE, began_us);
    }
    return r;
}

/* With a ticket somebody waits, and hears of a failure. */
static int begin_create(struct cay_core *core, const struct cay_account *owner,
                        const struct cay_spec *spec, struct cay_ticket *ticket, struct cay_arena *a,
                        struct cay_sandbox *out, bool *found, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold turn = {0};
    struct cay_sandbox sb;
    struct cay_spec wanted = *spec;
    char made_up[CAY_MAX_NAME + 1];
    struct cay_account as;
    int r = for_whom(core, owner, &wanted, a, &as, err);
    if (r == 0)
        r = cay_making_first(core, &as, spec, &turn, a, out, found, err);
    if (r < 0 || *found)
        return r;
    r = wanted.from ? cay_core_use_snapshot(core, owner, &wanted, a, err) : 0;
    if (r == 0)
        r = prepare(core, &as, &wanted, &sb, err);
    if (r < 0)
        return r;
    struct cay_maker_job *job = cay_maker_reserve(core, sb.id, as.id, &spec->source, err);
    if (!job)
        return err->code;
    struct cay_awaited *awaited = cay_maker_awaited(job);
    const char *old = to_recheck(core, spec);
    awaited->policy = policy_of(core, spec);
    awaited->recheck = old != NULL;
    cay_str_copy(awaited->image, sizeof awaited->image, old ? old : "");
    sb.answered = !ticket;
    r = insert_row(core, made_up, &sb, CAY_NOW, err);
    if (r == 0 && wanted.volume) {
        struct cay_error left = {0};
        r = cay_core_claim_volume(core, &sb, err);
        if (r < 0 && cay_store_remove(core->store, sb.id, CAY_SOON, &left) < 0)
            cay_log_error(&left, "cannot take back the row of sandbox %s yet", sb.id);
    }
    if (r < 0) {
        cay_maker_cancel(core, job);
        return r;
    }
    cay_crash_point("create-row-written");
    if (sb.answered)
        tell_made(core, &sb);
    sb.spec.name = cay_arena_strdup(a, sb.spec.name);
    *out = sb;
    cay_maker_go(core, job, ticket);
    return 0;
}

int cay_core_begin_create(struct cay_core *core, const struct cay_account *owner,
                          const struct cay_spec *spec, struct cay_arena *a, struct cay_sandbox *out,
                          struct cay_ticket **ticket_out, struct cay_error *err)
{
    struct cay_ticket *ticket = ticket_out ? cay_ticket_new(err) : NULL;
    bool found = false;
    if (ticket_out && !ticket)
        return err->code;
    int r = begin_create(core, owner, spec, ticket, a, out, &found, err);
    if (r < 0 || found) { /* nobody else knows of it */
        cay_ticket_free(ticket);
        cay_ticket_free(ticket);
        ticket = NULL;
    }
    if (ticket_out)
        *ticket_out = ticket;
    return r;
}

int cay_core_make(struct cay_core *core, const struct cay_account *owner,
                  const struct cay_spec *spec, struct cay_arena *a, struct cay_sandbox *out,
                  struct cay_ticket **ticket_out, struct cay_error *err)
{
    const char *build;
    *ticket_out = NULL;
    if (!cay_spec_lasts(spec) && !to_recheck(core, spec)) {
        int r = create_now(core, owner, spec, a, out, err);
        if (r == 0 || !is_absent(spec, err))
            return r;
        r = cay_image_plan(core, spec->image, policy_of(core, spec), a, &build, err);
        if (r < 0)
            return r;
    }
    return cay_core_begin_create(core, owner, spec, a, out, ticket_out, err);
}

int cay_core_say_made(struct cay_core *core, struct cay_sandbox *sb, int64_t began_ms,
                      struct cay_error *err)
{
    int r = say_running(core, sb, began_ms, CAY_NOW, err);
    if (r == 0)
        sb->answered ? cay_core_tell(core, sb, NULL) : tell_made(core, sb);
    return r;
}

/* Not RUNNING yet; but what it has must be found if we do not come back. */
static int wait_until_ready(struct cay_core *core, struct cay_sandbox *sb, int64_t began_ms,
                            const struct cay_bringing *fetch, struct cay_hold *hold,
                            struct cay_ticket **ticket, struct cay_error *err)
{
    sb->updated_at_ms = cay_clock_ms();
    int r = cay_store_update(core->store, sb, CAY_SOON, err);
    if (r < 0)
        return r;
    struct cay_ticket *waits = *ticket;
    *ticket = NULL;
    cay_ready_add(core, sb, fetch, false, began_ms, hold, waits);
    return 0;
}

/* Where it may come from, to be waited for. */
static int find_elsewhere(struct cay_core *core, const struct cay_spec *spec, struct cay_arena *a,
                          struct cay_awaited *awaited, struct cay_error *err)
{
    const char *build;
    int r = cay_image_plan(core, spec->image, awaited->policy, a, &build, err);
    if (r == 0)
        cay_str_copy(awaited->image, sizeof awaited->image, build);
    return r;
}

/* The row tells how it went. It is read again, because the request it came from may be over. */
int cay_core_finish_create(struct cay_core *core, const char *account_id, const char *id,
                           int64_t began_ms, struct cay_hold *hold, struct cay_ticket **ticket,
                           struct cay_awaited *awaited, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox sb = {0};
    struct cay_bringing fetch = {0};
    int r = cay_store_get(core->store, account_id, id, &a, &sb, err);
    bool fetches = sb.spec.source.kind != CAY_SOURCE_NONE;
    if (r == 0 && awaited->failed.code != CAY_OK) {
        *err = awaited->failed;
        r = create_failed(&sb.spec, err->code, err);
    } else if (r == 0) {
        r = fetches ? make_empty(core, &sb, err) : make(core, &sb, err);
        if (r < 0 && is_absent(&sb.spec, err) && !awaited->image[0] &&
            (r = find_elsewhere(core, &sb.spec, &a, awaited, err)) == 0)
            return 0;
    }
    if (r == 0 && fetches)
        r = cay_source_begin(core, &sb, awaited->login, &fetch, err);
    if (r == 0)
        r = cay_spec_lasts(&sb.spec)
                ? wait_until_ready(core, &sb, began_ms, fetches ? &fetch : NULL, hold, ticket, err)
                : cay_core_say_made(core, &sb, began_ms, err);
    if (r == 0)
        return 0;
    cay_log_error(err, "cannot create sandbox %s", id);
    if (sb.id[0])
        cay_core_take_back(core, &sb, err);
    else
        cay_keeper_look(core, LOOK_MS);
    return r;
}
