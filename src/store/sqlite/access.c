/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts, teams, members and keys; and quotas, which are held against the rows of sandboxes in
 * the very transaction that adds one: there is one writer, so no two creates can both be the last
 * that fits. */
#include "base/json.h"
#include "store/sqlite/sqlite.h"
#include <string.h>

enum {
    HOLDER_PUT = CAY_SQLITE_ACCESS,
    HOLDER_GET,
    HOLDER_LIST,
    KEY_ADD,
    KEY_USE,
    KEY_REVOKE,
    KEY_FIND,
    KEY_LIST,
    MEMBER_PUT,
    MEMBER_REMOVE,
    MEMBER_CLEAR,
    MEMBER_LIST,
    WHOSE,
    USAGE,
    OWN,
    QUOTA,
    ACCESS_END,
};

_Static_assert(ACCESS_END <= CAY_SQLITE_STATEMENTS, "room for all");

#define HOLDER_COLUMNS "SELECT id, kind, name, quota, created_at, deleted_at FROM holders "
#define KEY_COLUMNS                                                                                \
    "SELECT k.id, k.account_id, k.name, k.hash, k.scopes, k.created_at, k.expires_at,"             \
    " k.last_used_at, k.revoked_at FROM api_keys k "
/* A row of its own for `local` is only there when it has a quota. */
#define OF_LIVING                                                                                  \
    "AND (k.account_id = '" CAY_LOCAL_ACCOUNT "' OR EXISTS (SELECT 1 FROM holders h"               \
    " WHERE h.id = k.account_id AND h.deleted_at IS NULL))"

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
    (void)sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC); /* fails only when out of memory */
}

static void bind_time(sqlite3_stmt *s, int at, int64_t time_ms)
{
    if (time_ms > 0) /* else NULL */
        (void)sqlite3_bind_int64(s, at, time_ms);
}

static const char *text_at(sqlite3_stmt *s, int column, struct cay_arena *a)
{
    return cay_arena_strdup(a, (const char *)sqlite3_column_text(s, column));
}

/* ---- quotas ---- */

static void write_quota(const struct cay_quota *q, struct cay_buf *out)
{
    struct cay_json_writer w = {.buf = out};
    bool any = false;
    for (int i = 0; i < CAY_QUOTAS; i++)
        any = any || q->at[i] != CAY_QUOTA_NONE;
    if (!any)
        return;
    cay_jw_object(&w, NULL);
    for (int i = 0; i < CAY_QUOTAS; i++)
        if (q->at[i] != CAY_QUOTA_NONE)
            cay_jw_int(&w, cay_quota_name(i), q->at[i]);
    cay_jw_object_end(&w);
}

static int read_quota(const char *text, struct cay_quota *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const struct cay_json *json;
    *out = cay_quota_none();
    if (!text)
        return 0;
    if (cay_json_parse(&a, text, strlen(text), &json, err) < 0 || json->kind != CAY_JSON_OBJECT)
        return cay_fail(err, CAY_ERR_STORE, "the record of a quota is damaged");
    for (int i = 0; i < CAY_QUOTAS; i++)
        out->at[i] = cay_json_get_int(json, cay_quota_name(i), CAY_QUOTA_NONE);
    return 0;
}

/* kept_out: how many snapshots and volumes; may be NULL. */
static int read_usage(struct cay_sqlite_db *db, const char *account_id, struct cay_quota *out,
                      int64_t *kept_out, struct cay_error *err)
{
    struct cay_quota used = {{0}};
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(
        db, USAGE,
        "SELECT count(*), coalesce(sum(json_extract(meta_data, '$.config.cpu_milli')), 0),"
        " coalesce(sum(json_extract(meta_data, '$.config.memory_bytes')), 0),"
        " coalesce(sum(json_extract(meta_data, '$.config.disk_bytes')), 0) +"
        " (SELECT coalesce(sum(json_extract(meta_data, '$.size_bytes')), 0)"
        "  FROM kept WHERE account_id = ?1),"
        " (SELECT count(*) FROM kept WHERE account_id = ?1)"
        " FROM sandboxes INDEXED BY sandboxes_living WHERE account_id = ?1 AND deleted_at IS NULL",
        &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, account_id);
    if (sqlite3_step(s) == SQLITE_ROW)
        for (int i = CAY_QUOTA_SANDBOXES; i <= CAY_QUOTA_DISK_BYTES; i++)
            used.at[i] = sqlite3_column_int64(s, i);
    else
        r = cay_sqlite_fail(db, err, "the database cannot be read");
    if (kept_out)
        *kept_out = sqlite3_column_int64(s, CAY_QUOTA_DISK_BYTES + 1);
    cay_sqlite_reset(s);
    if (r == 0)
        *out = used;
    return r;
}

static int find_quota(struct cay_sqlite_db *db, const char *account_id, struct cay_quota *out,
                      bool *found, struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(db, QUOTA, "SELECT quota, deleted_at FROM holders WHERE id = ?1", &s,
                               err);
    if (r < 0)
        return r;
    bind_text(s, 1, account_id);
    int step = sqlite3_step(s);
    *found = step == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL;
    if (step == SQLITE_ROW && sqlite3_column_type(s, 1) != SQLITE_NULL)
        r = cay_fail(err, CAY_ERR_FORBIDDEN, "account %s is deleted", account_id);
    else if (*found)
        r = read_quota((const char *)sqlite3_column_text(s, 0), out, err);
    else if (step != SQLITE_ROW && step != SQLITE_DONE)
        r = cay_sqlite_fail(db, err, "the database cannot be read");
    cay_sqlite_reset(s);
    return r;
}

/* What the row has so far; nothing when it is not there yet. */
static int read_own(struct cay_sqlite_db *db, const char *id, struct cay_quota *out,
                    struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(db, OWN,
                               "SELECT 1, json_extract(meta_data, '$.config.cpu_milli'),"
                               " json_extract(meta_data, '$.config.memory_bytes'),"
                               " json_extract(meta_data, '$.config.disk_bytes')"
                               " FROM sandboxes WHERE id = ?1 AND deleted_at IS NULL",
                               &s, err);
    if (r < 0)
        return r;
    *out = (struct cay_quota){{0}};
    bind_text(s, 1, id);
    int step = sqlite3_step(s);
    for (int i = 0; step == SQLITE_ROW && i <= CAY_QUOTA_DISK_BYTES; i++)
        out->at[i] = sqlite3_column_int64(s, i);
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        r = cay_sqlite_fail(db, err, "the database cannot be read");
    cay_sqlite_reset(s);
    return r;
}

int cay_sqlite_check_quota(struct cay_sqlite_db *db, const struct cay_sandbox *sb,
                           struct cay_error *err)
{
    struct cay_quota quota, used, own;
    bool found;
    int r = find_quota(db, sb->account_id, &quota, &found, err);
    if (r < 0 || !found)
        return r;
    r = read_own(db, sb->id, &own, err);
    const int64_t wanted[] = {1, sb->spec.cpu_milli, (int64_t)sb->spec.memory_bytes,
                              (int64_t)sb->spec.disk_bytes};
    bool grows = false;
    for (size_t i = 0; i < CAY_COUNT(wanted); i++)
        grows = grows || wanted[i] > own.at[i];
    if (r < 0 || !grows)
        return r;
    r = read_usage(db, sb->account_id, &used, NULL, err);
    for (int i = 0; r == 0 && i < (int)CAY_COUNT(wanted); i++) {
        int64_t more = wanted[i] - own.at[i];
        double unit = cay_quota_unit(i);
        if (quota.at[i] != CAY_QUOTA_NONE && more > 0 && more > quota.at[i] - used.at[i])
            r = cay_fail_quota(err, cay_quota_name(i), (double)quota.at[i] / unit,
                               (double)used.at[i] / unit);
    }
    return r;
}

int cay_sqlite_check_room(struct cay_sqlite_db *db, const char *account_id, struct cay_error *err)
{
    struct cay_quota quota, used;
    bool found;
    const int kind = CAY_QUOTA_DISK_BYTES;
    int r = find_quota(db, account_id, &quota, &found, err);
    if (r < 0 || !found || quota.at[kind] == CAY_QUOTA_NONE)
        return r;
    r = read_usage(db, account_id, &used, NULL, err);
    if (r == 0 && used.at[kind] >= quota.at[kind])
        r = cay_fail_quota(err, cay_quota_name(kind), (double)quota.at[kind] / cay_quota_unit(kind),
                           (double)used.at[kind] / cay_quota_unit(kind));
    return r;
}

static int usage(struct cay_store *store, const char *account_id, struct cay_quota *out,
                 struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = read_usage(&r->db, account_id, out, NULL, err);
    cay_sqlite_give_back(s, r);
    return e;
}

/* ---- writing ---- */

static int write_row(struct cay_store *s, struct cay_sqlite_job *job, struct cay_error *err)
{
    return cay_sqlite_writer_do(&((struct cay_sqlite_store *)s)->writer, job, err);
}

/* What goes with one who is deleted. */
static int let_go(struct cay_sqlite_db *db, const char *id, struct cay_error *err)
{
    struct cay_quota used;
    int64_t kept = 0;
    sqlite3_stmt *s;
    int r = read_usage(db, id, &used, &kept, err);
    if (r == 0 && (used.at[CAY_QUOTA_SANDBOXES] > 0 || kept > 0))
        r = cay_fail_as(err, CAY_ERR_CONFLICT, "ACCOUNT_IN_USE",
                        "it has %lld sandboxes, and %lld snapshots and volumes",
                        (long long)used.at[CAY_QUOTA_SANDBOXES], (long long)kept);
    if (r == 0)
        r = cay_sqlite_prepare(
            db, MEMBER_CLEAR, "DELETE FROM members WHERE team_id = ?1 OR account_id = ?1", &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, id);
    return cay_sqlite_run(db, s, err);
}

static int run_holder(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    const struct cay_holder *h = job->row;
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(db, HOLDER_PUT,
                               "INSERT INTO holders (id, kind, name, quota, created_at, deleted_at)"
                               " VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO UPDATE"
                               " SET name = ?3, quota = ?4, deleted_at = ?6",
                               &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, h->id);
    bind_text(s, 2, h->is_team ? "team" : "account");
    bind_text(s, 3, h->name);
    if (job->meta.len > 0) /* else NULL */
        (void)sqlite3_bind_text(s, 4, job->meta.data, (int)job->meta.len, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 5, h->created_at_ms);
    bind_time(s, 6, h->deleted_at_ms);
    r = cay_sqlite_run(db, s, err);
    if (r < 0 && sqlite3_errcode(db->db) == SQLITE_CONSTRAINT)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "NAME_TAKEN",
                           "an account named %s exists already", h->name);
    return r == 0 && h->deleted_at_ms > 0 ? let_go(db, h->id, err) : r;
}

static int holder_put(struct cay_store *s, const struct cay_holder *holder, struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = run_holder, .durable = CAY_NOW, .row = holder};
    write_quota(&holder->quota, &job.meta);
    int r = write_row(s, &job, err);
    cay_buf_done(&job.meta);
    return r;
}

static int run_key(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    const struct cay_key *key = job->row;
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(db, KEY_ADD,
                               "INSERT INTO api_keys (id, account_id, name, hash, scopes,"
                               " created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                               &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, key->id);
    bind_text(s, 2, key->account_id);
    bind_text(s, 3, key->name);
    bind_text(s, 4, key->hash);
    (void)sqlite3_bind_int64(s, 5, key->scopes);
    (void)sqlite3_bind_int64(s, 6, key->created_at_ms);
    bind_time(s, 7, key->expires_at_ms);
    return cay_sqlite_run(db, s, err);
}

static int key_add(struct cay_store *s, const struct cay_key *key, struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = run_key, .durable = CAY_NOW, .row = key};
    return write_row(s, &job, err);
}

static int mark(struct cay_sqlite_db *db, struct cay_sqlite_job *job, int number, const char *sql,
                struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(db, number, sql, &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, job->id);
    bind_text(s, 2, job->row);
    (void)sqlite3_bind_int64(s, 3, job->before_ms);
    r = cay_sqlite_run(db, s, err);
    if (r == 0 && sqlite3_changes(db->db) == 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "KEY_NOT_FOUND", "key not found");
    return r;
}

static int run_use(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    return mark(db, job, KEY_USE,
                "UPDATE api_keys SET last_used_at = ?3 WHERE id = ?1 AND account_id = ?2", err);
}

static int run_revoke(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    return mark(db, job, KEY_REVOKE,
                "UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?3)"
                " WHERE id = ?1 AND account_id = ?2",
                err);
}

static int key_mark(struct cay_store *s, const char *account_id, const char *key_id,
                    enum cay_key_time what, int64_t at_ms, struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = what == CAY_KEY_USED ? run_use : run_revoke,
                                 .durable = what == CAY_KEY_USED ? CAY_SOON : CAY_NOW,
                                 .id = key_id,
                                 .row = account_id,
                                 .before_ms = at_ms};
    return write_row(s, &job, err);
}

static int run_member(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    const struct cay_member *m = job->row;
    bool stays = m->role != CAY_ROLE_NONE;
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(
        db, stays ? MEMBER_PUT : MEMBER_REMOVE,
        stays ? "INSERT INTO members (team_id, account_id, role, added_at) VALUES (?1, ?2, ?3, ?4)"
                " ON CONFLICT (team_id, account_id) DO UPDATE SET role = ?3"
              : "DELETE FROM members WHERE team_id = ?1 AND account_id = ?2",
        &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, m->team_id);
    bind_text(s, 2, m->account_id);
    if (stays) {
        bind_text(s, 3, cay_role_name(m->role));
        (void)sqlite3_bind_int64(s, 4, m->added_at_ms);
    }
    return cay_sqlite_run(db, s, err);
}

static int member_put(struct cay_store *s, const struct cay_member *member, struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = run_member, .durable = CAY_NOW, .row = member};
    return write_row(s, &job, err);
}

/* ---- reading ---- */

/* One question: its statement, up to two texts to bind, and what takes each row. */
struct question {
    int number;
    const char *sql, *first, *second;
    int limit;
    int (*take)(sqlite3_stmt *s, struct cay_arena *a, void *list, struct cay_error *err);
    void *list;
};

static int ask_reader(struct cay_sqlite_reader *r, const struct question *q, struct cay_arena *a,
                      struct cay_error *err)
{
    sqlite3_stmt *s;
    int step, e = cay_sqlite_prepare(&r->db, q->number, q->sql, &s, err);
    if (e < 0)
        return e;
    bind_text(s, 1, q->first);
    bind_text(s, 2, q->second);
    (void)sqlite3_bind_int(s, 3, q->limit);
    while ((step = sqlite3_step(s)) == SQLITE_ROW && e == 0)
        e = q->take(s, a, q->list, err);
    if (e == 0 && step != SQLITE_DONE)
        e = cay_sqlite_fail(&r->db, err, "the database cannot be read");
    cay_sqlite_reset(s);
    return e;
}

static int ask(struct cay_store *store, const struct question *q, struct cay_arena *a,
               struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = ask_reader(r, q, a, err);
    cay_sqlite_give_back(s, r);
    return e;
}

static int take_holder(sqlite3_stmt *s, struct cay_arena *a, void *to, struct cay_error *err)
{
    struct cay_holder_list *list = to;
    const char *kind = (const char *)sqlite3_column_text(s, 1);
    struct cay_holder h = {.is_team = kind && strcmp(kind, "team") == 0,
                           .name = text_at(s, 2, a),
                           .created_at_ms = sqlite3_column_int64(s, 4),
                           .deleted_at_ms = sqlite3_column_int64(s, 5)};
    cay_str_copy(h.id, sizeof h.id, text_at(s, 0, a));
    int r = read_quota((const char *)sqlite3_column_text(s, 3), &h.quota, err);
    if (r < 0)
        return r;
    list->at = cay_arena_room(a, list->at, list->count, sizeof *list->at);
    list->at[list->count++] = h;
    return 0;
}

static int holder_get(struct cay_store *s, const char *id_or_name, struct cay_arena *a,
                      struct cay_holder *out, struct cay_error *err)
{
    struct cay_holder_list found = {0};
    const struct question q = {
        HOLDER_GET,
        /* An account whose name is another's id does not hide that one. */
        HOLDER_COLUMNS "WHERE deleted_at IS NULL AND (id = ?1 OR (kind = 'account' AND name = ?1))"
                       " ORDER BY id = ?1 DESC LIMIT ?3",
        id_or_name, NULL, 1, take_holder, &found};
    int r = ask(s, &q, a, err);
    if (r == 0 && found.count == 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "ACCOUNT_NOT_FOUND", "account not found");
    if (r == 0)
        *out = found.at[0];
    return r;
}

static int holder_list(struct cay_store *s, bool teams, struct cay_arena *a,
                       struct cay_holder_list *out, struct cay_error *err)
{
    struct cay_holder_list found = {0};
    const struct question q = {HOLDER_LIST,
                               HOLDER_COLUMNS "WHERE deleted_at IS NULL AND kind = ?1"
                                              " ORDER BY created_at, id LIMIT ?3",
                               teams ? "team" : "account",
                               NULL,
                               CAY_MAX_HOLDERS,
                               take_holder,
                               &found};
    int r = ask(s, &q, a, err);
    if (r == 0)
        *out = found;
    return r;
}

static int take_key(sqlite3_stmt *s, struct cay_arena *a, void *to, struct cay_error *err)
{
    struct cay_key_list *list = to;
    (void)err;
    struct cay_key key = {.account_id = text_at(s, 1, a),
                          .name = text_at(s, 2, a),
                          .scopes = (unsigned)sqlite3_column_int64(s, 4),
                          .created_at_ms = sqlite3_column_int64(s, 5),
                          .expires_at_ms = sqlite3_column_int64(s, 6),
                          .last_used_at_ms = sqlite3_column_int64(s, 7),
                          .revoked_at_ms = sqlite3_column_int64(s, 8)};
    cay_str_copy(key.id, sizeof key.id, text_at(s, 0, a));
    cay_str_copy(key.hash, sizeof key.hash, text_at(s, 3, a));
    list->at = cay_arena_room(a, list->at, list->count, sizeof *list->at);
    list->at[list->count++] = key;
    return 0;
}

static int key_find(struct cay_store *s, const char *hash, struct cay_arena *a, struct cay_key *out,
                    struct cay_error *err)
{
    struct cay_key_list found = {0};
    const struct question q = {
        KEY_FIND, KEY_COLUMNS "WHERE k.hash = ?1 " OF_LIVING " LIMIT ?3", hash, NULL, 1, take_key,
        &found};
    int r = ask(s, &q, a, err);
    if (r == 0 && found.count == 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "KEY_NOT_FOUND", "key not found");
    if (r == 0)
        *out = found.at[0];
    return r;
}

static int key_list(struct cay_store *s, const char *account_id, struct cay_arena *a,
                    struct cay_key_list *out, struct cay_error *err)
{
    struct cay_key_list found = {0};
    const struct question q = {
        KEY_LIST,     KEY_COLUMNS "WHERE k.account_id = ?1 ORDER BY k.created_at, k.rowid LIMIT ?3",
        account_id,   NULL,
        CAY_MAX_KEYS, take_key,
        &found};
    int r = ask(s, &q, a, err);
    if (r == 0)
        *out = found;
    return r;
}

static int take_member(sqlite3_stmt *s, struct cay_arena *a, void *to, struct cay_error *err)
{
    struct cay_member_list *list = to;
    struct cay_member m = {.team_id = text_at(s, 0, a),
                           .account_id = text_at(s, 1, a),
                           .added_at_ms = sqlite3_column_int64(s, 3),
                           .team_name = text_at(s, 4, a),
                           .account_name = text_at(s, 5, a)};
    if (!cay_role_parse((const char *)sqlite3_column_text(s, 2), &m.role))
        return cay_fail(err, CAY_ERR_STORE, "the record of a member is damaged");
    list->at = cay_arena_room(a, list->at, list->count, sizeof *list->at);
    list->at[list->count++] = m;
    return 0;
}

static int member_list(struct cay_store *s, const char *team_id, const char *account_id,
                       struct cay_arena *a, struct cay_member_list *out, struct cay_error *err)
{
    struct cay_member_list found = {0};
    const struct question q = {
        MEMBER_LIST,
        "SELECT m.team_id, m.account_id, m.role, m.added_at, t.name, p.name FROM members m"
        " LEFT JOIN holders t ON t.id = m.team_id LEFT JOIN holders p ON p.id = m.account_id"
        " WHERE (?1 IS NULL OR m.team_id = ?1) AND (?2 IS NULL OR m.account_id = ?2)"
        " ORDER BY m.added_at, m.account_id LIMIT ?3",
        team_id,
        account_id,
        CAY_MAX_MEMBERS,
        take_member,
        &found};
    int r = ask(s, &q, a, err);
    if (r == 0)
        *out = found;
    return r;
}

static int take_text(sqlite3_stmt *s, struct cay_arena *a, void *to, struct cay_error *err)
{
    (void)err;
    *(const char **)to = text_at(s, 0, a);
    return 0;
}

static int whose(struct cay_store *s, const char *id, struct cay_arena *a, const char **out,
                 struct cay_error *err)
{
    const char *found = NULL;
    const struct question q = {WHOSE,
                               "SELECT account_id FROM sandboxes WHERE id = ?1 UNION ALL"
                               " SELECT account_id FROM kept WHERE id = ?1 LIMIT ?3",
                               id,
                               NULL,
                               1,
                               take_text,
                               &found};
    int r = ask(s, &q, a, err);
    if (r == 0 && !found)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "%s not found", id);
    if (r == 0)
        *out = found;
    return r;
}

const struct cay_access_ops cay_sqlite_access = {
    .holder_put = holder_put,
    .holder_get = holder_get,
    .holder_list = holder_list,
    .key_add = key_add,
    .key_mark = key_mark,
    .key_find = key_find,
    .key_list = key_list,
    .member_put = member_put,
    .member_list = member_list,
    .whose = whose,
    .usage = usage,
};
