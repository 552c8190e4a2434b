/* SPDX-License-Identifier: Apache-2.0 */
/* Reading follows the order of writing, so that each key is found at the first look; a key that is
 * elsewhere or missing is found or defaulted all the same. */
#include "store/sqlite/row.h"
#include "base/clock.h"
#include "base/json.h"
#include <string.h>

struct cursor {
    const struct cay_json *object, *next;
    struct cay_arena *arena; /* strings are copied here */
};

static void put_strs(struct cay_json_writer *w, const char *key, const struct cay_strs *list)
{
    cay_jw_array(w, key);
    for (size_t i = 0; i < list->count; i++)
        cay_jw_str(w, NULL, list->at[i]);
    cay_jw_array_end(w);
}

static void put_pairs(struct cay_json_writer *w, const char *key, const struct cay_pairs *map)
{
    cay_jw_object(w, key);
    for (size_t i = 0; i < map->count; i++)
        cay_jw_str(w, map->at[i].key, map->at[i].value);
    cay_jw_object_end(w);
}

static void put_ports(struct cay_json_writer *w, const struct cay_spec *spec)
{
    cay_jw_array(w, "ports");
    for (size_t i = 0; i < spec->port_count; i++) {
        const struct cay_port *p = &spec->ports[i];
        cay_jw_object(w, NULL);
        cay_jw_int(w, "port", p->port);
        cay_jw_str(w, "name", p->name);
        cay_jw_bool(w, "public", p->is_public);
        cay_jw_bool(w, "tcp", p->is_tcp);
        cay_jw_int(w, "wait_s", p->wait_s);
        cay_jw_time(w, "created_at", p->created_at_ms);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
}

static void put_ready(struct cay_json_writer *w, const struct cay_ready *ready)
{
    cay_jw_object(w, "ready_when");
    cay_jw_int(w, "port", ready->port);
    cay_jw_str(w, "log_line", ready->line);
    cay_jw_int(w, "timeout_ms", ready->timeout_ms);
    cay_jw_object_end(w);
}

static void put_source(struct cay_json_writer *w, const struct cay_spec_source *s)
{
    if (s->kind == CAY_SOURCE_NONE)
        return;
    cay_jw_object(w, "source");
    cay_jw_str(w, "type", s->kind == CAY_SOURCE_GIT ? "git" : "tarball");
    cay_jw_str(w, "url", s->url);
    cay_jw_str(w, "revision", s->revision);
    cay_jw_int(w, "depth", s->depth);
    cay_jw_int(w, "timeout_ms", s->timeout_ms);
    cay_jw_object_end(w);
}

/* Rows say it in one word where that is all. */
static void put_network(struct cay_json_writer *w, const struct cay_network *n)
{
    cay_jw_bool(w, "network_access", cay_network_leads_out(n));
    if (n->form == CAY_NETWORK_ACCESS && n->generation == 1)
        return;
    cay_jw_object(w, "network");
    cay_jw_str(w, "form", cay_network_form_name(n->form));
    cay_jw_str(w, "mode", cay_network_mode_name(n->mode));
    put_strs(w, "allow", &n->allow);
    put_strs(w, "deny", &n->deny);
    put_strs(w, "subnets_allow", &n->subnets_allow);
    put_strs(w, "subnets_deny", &n->subnets_deny);
    put_pairs(w, "headers", &n->headers);
    cay_jw_int(w, "generation", (int64_t)n->generation);
    cay_jw_object_end(w);
}

static void put_spec(struct cay_json_writer *w, const struct cay_spec *spec)
{
    cay_jw_object(w, "config");
    cay_jw_str(w, "name", spec->name);
    cay_jw_str(w, "image", spec->image);
    cay_jw_str(w, "image_used", spec->image_used);
    cay_jw_str(w, "runtime", spec->runtime);
    put_strs(w, "start", &spec->start);
    cay_jw_str(w, "start_text", spec->start_text);
    cay_jw_int(w, "cpu_milli", spec->cpu_milli);
    cay_jw_int(w, "memory_bytes", (int64_t)spec->memory_bytes);
    cay_jw_int(w, "disk_bytes", (int64_t)spec->disk_bytes);
    cay_jw_int(w, "pids", spec->pids);
    cay_jw_int(w, "gpu_count", spec->gpu_count);
    put_network(w, &spec->network);
    cay_jw_bool(w, "persistent", spec->persistent);
    cay_jw_bool(w, "stop_when_start_ends", spec->stop_when_start_ends);
    cay_jw_int(w, "timeout_ms", spec->timeout_ms);
    if (spec->exec_ms)
        cay_jw_int(w, "exec_ms", spec->exec_ms);
    cay_jw_int(w, "idle_ms", spec->idle_ms);
    cay_jw_int(w, "idle_when", spec->idle_when);
    cay_jw_int(w, "lease_ms", spec->lease_ms);
    put_ready(w, &spec->ready);
    put_pairs(w, "env", &spec->env);
    put_pairs(w, "secrets", &spec->secrets);
    put_strs(w, "labels", &spec->labels);
    put_pairs(w, "tags", &spec->tags);
    put_ports(w, spec);
    cay_jw_str(w, "user", spec->user);
    cay_jw_str(w, "workdir", spec->workdir);
    cay_jw_str(w, "team_id", spec->team_id);
    cay_jw_str(w, "track", spec->track);
    cay_jw_str(w, "from", spec->from);
    put_source(w, &spec->source);
    cay_jw_str(w, "volume", spec->volume);
    cay_jw_object_end(w);
}

static void put_death(struct cay_json_writer *w, const struct cay_sandbox *sb)
{
    const struct cay_death *d = &sb->death;
    if (!sb->has_death) {
        cay_jw_null(w, "termination");
        return;
    }
    cay_jw_object(w, "termination");
    cay_jw_str(w, "reason", d->reason);
    cay_jw_str(w, "removal", d->removal);
    d->has_exit ? cay_jw_int(w, "exit_code", d->exit_code) : cay_jw_null(w, "exit_code");
    d->has_signal ? cay_jw_int(w, "signal", d->signal) : cay_jw_null(w, "signal");
    cay_jw_str(w, "message", d->message);
    cay_jw_int(w, "peak_bytes", (int64_t)d->peak_bytes);
    cay_jw_int(w, "cpu_ms", (int64_t)d->cpu_ms);
    cay_jw_int(w, "sent_bytes", (int64_t)d->sent_bytes);
    cay_jw_int(w, "received_bytes", (int64_t)d->received_bytes);
    cay_jw_object_end(w);
}

int cay_sqlite_row_meta(const struct cay_sandbox *sb, struct cay_buf *out, struct cay_error *err)
{
    struct cay_json_writer w = {.buf = out};
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "sandbox_id", sb->id);
    cay_jw_str(&w, "status", cay_state_name(sb->state));
    cay_jw_time(&w, "created_at", sb->created_at_ms);
    put_spec(&w, &sb->spec);
    cay_jw_null(&w, "s3_config");
    cay_jw_str(&w, "status_reason", sb->status_reason);
    cay_jw_str(&w, "server", sb->server);
    cay_jw_str(&w, "start_execution", sb->start_exec[0] ? sb->start_exec : NULL);
    cay_jw_time(&w, "started_at", sb->started_at_ms);
    cay_jw_time(&w, "updated_at", sb->updated_at_ms);
    cay_jw_time(&w, "stopped_at", sb->stopped_at_ms);
    cay_jw_time(&w, "expires_at", sb->expires_at_ms);
    cay_jw_time(&w, "deleted_at", sb->deleted_at_ms);
    cay_jw_int(&w, "created_in_ms", sb->created_in_ms);
    cay_jw_bool(&w, "answered", sb->answered);
    put_death(&w, sb);
    cay_jw_str(&w, "keeps_volume", sb->keeps[0] ? sb->keeps : NULL);
    cay_jw_str(&w, "copied_by", sb->copied.method);
    cay_jw_int(&w, "copied_in_ms", sb->copied.ms);
    cay_jw_str(&w, "fingerprint", sb->fingerprint);
    cay_jw_str(&w, "first_answer", sb->first_answer);
    cay_jw_object_end(&w);

    CAY_AUTO_ARENA struct cay_arena a = {0};
    const struct cay_json *back;
    if (cay_json_parse(&a, out->data, out->len, &back, err) < 0) {
        (void)cay_wrap(err, "sandbox %s cannot be recorded", sb->id);
        err->name = NULL;
        err->code = CAY_ERR_INTERNAL;
        return CAY_ERR_INTERNAL;
    }
    return 0;
}

static const struct cay_json *pick(struct cursor *c, const char *key)
{
    const struct cay_json *v = c->next;
    if (!v || strcmp(v->key, key) != 0)
        v = cay_json_get(c->object, key);
    if (v)
        c->next = v->next;
    return v;
}

static struct cursor into(struct cursor *c, const char *key)
{
    const struct cay_json *v = pick(c, key);
    if (v && v->kind != CAY_JSON_OBJECT)
        v = NULL;
    return (struct cursor){v, v ? v->first : NULL, c->arena};
}

static const char *pick_str(struct cursor *c, const char *key)
{
    const struct cay_json *v = pick(c, key);
    if (!v || v->kind != CAY_JSON_STRING)
        return NULL;
    return cay_arena_strndup(c->arena, v->text, v->len);
}

static int64_t pick_int(struct cursor *c, const char *key, bool *has_out)
{
    int64_t value = 0;
    bool has = cay_json_int(pick(c, key), &value);
    if (has_out)
        *has_out = has;
    return value;
}

static bool pick_bool(struct cursor *c, const char *key)
{
    const struct cay_json *v = pick(c, key);
    return v && v->kind == CAY_JSON_BOOL && v->truth;
}

static int64_t pick_time(struct cursor *c, const char *key)
{
    const struct cay_json *v = pick(c, key);
    int64_t ms = 0;
    if (v && v->kind == CAY_JSON_STRING)
        (void)cay_clock_parse(v->text, &ms); /* 0, "never", when it is none */
    return ms;
}

static struct cay_strs pick_strs(struct cursor *c, const char *key)
{
    const struct cay_json *v = pick(c, key);
    struct cay_strs list = {0};
    if (!v || v->kind != CAY_JSON_ARRAY)
        return list;
    list = cay_strs_room(c->arena, v->count);
    for (v = v->first; v; v = v->next)
        if (v->kind == CAY_JSON_STRING)
            cay_strs_push(c->arena, &list, cay_arena_strndup(c->arena, v->text, v->len));
    return list;
}

static struct cay_pairs pick_pairs(struct cursor *c, const char *key)
{
    const struct cay_json *v = pick(c, key);
    struct cay_pairs map = {0};
    if (!v || v->kind != CAY_JSON_OBJECT)
        return map;
    map = cay_pairs_room(c->arena, v->count);
    for (v = v->first; v; v = v->next)
        if (v->kind == CAY_JSON_STRING)
            cay_pairs_push(c->arena, &map, cay_arena_strdup(c->arena, v->key),
                           cay_arena_strndup(c->arena, v->text, v->len));
    return map;
}

static void read_ports(struct cursor *c, struct cay_spec *spec)
{
    const struct cay_json *v = pick(c, "ports");
    for (v = v && v->kind == CAY_JSON_ARRAY ? v->first : NULL;
         v && spec->port_count < CAY_MAX_PORTS; v = v->next) {
        struct cursor each = {v, v->first, c->arena};
        struct cay_port *p = &spec->ports[spec->port_count++];
        p->port = (uint16_t)pick_int(&each, "port", NULL);
        const char *name = pick_str(&each, "name");
        cay_str_copy(p->name, sizeof p->name, name ? name : "");
        p->is_public = pick_bool(&each, "public");
        p->is_tcp = pick_bool(&each, "tcp");
        p->wait_s = (uint16_t)pick_int(&each, "wait_s", NULL);
        p->created_at_ms = pick_time(&each, "created_at");
    }
}

static void read_ready(struct cursor *c, struct cay_ready *ready)
{
    struct cursor in = into(c, "ready_when");
    ready->port = (uint16_t)pick_int(&in, "port", NULL);
    ready->line = pick_str(&in, "log_line");
    ready->timeout_ms = pick_int(&in, "timeout_ms", NULL);
}

static void read_source(struct cursor *c, struct cay_spec_source *s)
{
    struct cursor in = into(c, "source");
    const char *type = pick_str(&in, "type");
    if (!type)
        return;
    s->kind = strcmp(type, "git") == 0 ? CAY_SOURCE_GIT : CAY_SOURCE_TARBALL;
    s->url = pick_str(&in, "url");
    s->revision = pick_str(&in, "revision");
    s->depth = pick_int(&in, "depth", NULL);
    s->timeout_ms = pick_int(&in, "timeout_ms", NULL);
}

/* What cannot be understood leads nowhere. */
static void read_network(struct cursor *c, struct cay_network *n)
{
    bool access = pick_bool(c, "network_access");
    *n = (struct cay_network){.mode = access ? CAY_NETWORK_OPEN : CAY_NETWORK_OFF, .generation = 1};
    struct cursor in = into(c, "network");
    if (!in.object)
        return;
    const char *form = pick_str(&in, "form"), *mode = pick_str(&in, "mode");
    if (!form || !mode || !cay_network_form_parse(form, &n->form) ||
        !cay_network_mode_parse(mode, &n->mode))
        n->mode = CAY_NETWORK_OFF;
    n->allow = pick_strs(&in, "allow");
    n->deny = pick_strs(&in, "deny");
    n->subnets_allow = pick_strs(&in, "subnets_allow");
    n->subnets_deny = pick_strs(&in, "subnets_deny");
    n->headers = pick_pairs(&in, "headers");
    n->generation = (uint64_t)pick_int(&in, "generation", NULL);
}

static void read_spec(struct cursor *c, struct cay_spec *spec)
{
    spec->name = pick_str(c, "name");
    spec->image = pick_str(c, "image");
    spec->image_used = pick_str(c, "image_used");
    spec->runtime = pick_str(c, "runtime");
    spec->start = pick_strs(c, "start");
    spec->start_text = pick_str(c, "start_text");
    spec->cpu_milli = (uint32_t)pick_int(c, "cpu_milli", NULL);
    spec->memory_bytes = (uint64_t)pick_int(c, "memory_bytes", NULL);
    spec->disk_bytes = (uint64_t)pick_int(c, "disk_bytes", NULL);
    spec->pids = (uint32_t)pick_int(c, "pids", NULL);
    spec->gpu_count = (uint32_t)pick_int(c, "gpu_count", NULL);
    read_network(c, &spec->network);
    spec->persistent = pick_bool(c, "persistent");
    spec->stop_when_start_ends = pick_bool(c, "stop_when_start_ends");
    spec->timeout_ms = pick_int(c, "timeout_ms", NULL);
    spec->exec_ms = pick_int(c, "exec_ms", NULL);
    spec->idle_ms = pick_int(c, "idle_ms", NULL);
    spec->idle_when = (unsigned)pick_int(c, "idle_when", NULL);
    spec->lease_ms = pick_int(c, "lease_ms", NULL);
    read_ready(c, &spec->ready);
    spec->env = pick_pairs(c, "env");
    spec->secrets = pick_pairs(c, "secrets");
    spec->labels = pick_strs(c, "labels");
    spec->tags = pick_pairs(c, "tags");
    read_ports(c, spec);
    spec->user = pick_str(c, "user");
    spec->workdir = pick_str(c, "workdir");
    spec->team_id = pick_str(c, "team_id");
    spec->track = pick_str(c, "track");
    spec->from = pick_str(c, "from");
    read_source(c, &spec->source);
    spec->volume = pick_str(c, "volume");
}

static void read_death(struct cursor *c, struct cay_death *d)
{
    d->reason = pick_str(c, "reason");
    d->removal = pick_str(c, "removal");
    d->exit_code = (int)pick_int(c, "exit_code", &d->has_exit);
    d->signal = (int)pick_int(c, "signal", &d->has_signal);
    d->message = pick_str(c, "message");
    d->peak_bytes = (uint64_t)pick_int(c, "peak_bytes", NULL);
    d->cpu_ms = (uint64_t)pick_int(c, "cpu_ms", NULL);
    d->sent_bytes = (uint64_t)pick_int(c, "sent_bytes", NULL);
    d->received_bytes = (uint64_t)pick_int(c, "received_bytes", NULL);
}

static void read_meta(struct cursor *c, struct cay_sandbox *out)
{
    struct cursor config = into(c, "config");
    read_spec(&config, &out->spec);
    out->status_reason = pick_str(c, "status_reason");
    out->server = pick_str(c, "server");
    const char *exec = pick_str(c, "start_execution");
    cay_str_copy(out->start_exec, sizeof out->start_exec, exec ? exec : "");
    out->started_at_ms = pick_time(c, "started_at");
    out->stopped_at_ms = pick_time(c, "stopped_at");
    out->created_in_ms = pick_int(c, "created_in_ms", NULL);
    out->answered = pick_bool(c, "answered");
    struct cursor death = into(c, "termination");
    out->has_death = death.object != NULL;
    if (out->has_death)
        read_death(&death, &out->death);
    const char *keeps = pick_str(c, "keeps_volume");
    cay_str_copy(out->keeps, sizeof out->keeps, keeps ? keeps : "");
    out->copied.method = pick_str(c, "copied_by");
    out->copied.ms = pick_int(c, "copied_in_ms", NULL);
    out->fingerprint = pick_str(c, "fingerprint");
    out->first_answer = pick_str(c, "first_answer");
}

int cay_sqlite_row_read(sqlite3_stmt *s, struct cay_arena *scratch, struct cay_arena *a,
                        struct cay_sandbox *out, struct cay_error *err)
{
    const char *id = (const char *)sqlite3_column_text(s, 0);
    const char *account = (const char *)sqlite3_column_text(s, 1);
    const char *status = (const char *)sqlite3_column_text(s, 2);
    const char *text = (const char *)sqlite3_column_text(s, 7);
    struct cay_sandbox sb = {.created_at_ms = sqlite3_column_int64(s, 3),
                             .updated_at_ms = sqlite3_column_int64(s, 4),
                             .expires_at_ms = sqlite3_column_int64(s, 5),
                             .deleted_at_ms = sqlite3_column_int64(s, 6)};
    const struct cay_json *meta = NULL;

    cay_arena_reset(scratch);
    if (!id || !account || !status || !text || !cay_state_parse(status, &sb.state) ||
        cay_json_parse(scratch, text, (size_t)sqlite3_column_bytes(s, 7), &meta, err) < 0 ||
        meta->kind != CAY_JSON_OBJECT)
        return cay_fail(err, CAY_ERR_STORE, "the record of sandbox %s is damaged", id ? id : "?");
    cay_str_copy(sb.id, sizeof sb.id, id);
    sb.account_id = cay_arena_strdup(a, account);
    struct cursor c = {meta, meta->first, a};
    read_meta(&c, &sb);
    *out = sb;
    return 0;
}
