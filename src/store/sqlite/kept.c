/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and volumes: columns for what is searched, meta_data (JSON) for the rest. */
#include "base/json.h"
#include "store/sqlite/sqlite.h"
#include <string.h>

enum {
    PUT = CAY_SQLITE_KEPT,
    REMOVE,
    GET,
    OWNER,
    COUNT,
    LIST,
    ALL,
    DUE,
    KEPT_END,
};

_Static_assert(KEPT_END <= (int)CAY_SQLITE_ACCESS, "room for all");

#define SELECT                                                                                     \
    "SELECT id, account_id, kind, status, sandbox_id, meta_data, created_at, updated_at,"          \
    " expires_at FROM kept "
#define OF_FILTER                                                                                  \
    "WHERE account_id = ?1 AND kind = ?2 AND status = 'ready'"                                     \
    " AND (?3 IS NULL OR sandbox_id = ?3)"

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
    (void)sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC); /* fails only when out of memory */
}

static void write_meta(const struct cay_kept *kept, struct cay_buf *out)
{
    struct cay_json_writer w = {.buf = out};
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "name", kept->name);
    cay_jw_str(&w, "image", kept->image);
    cay_jw_str(&w, "method", kept->method);
    cay_jw_int(&w, "size_bytes", (int64_t)kept->size_bytes);
    cay_jw_int(&w, "copied_in_ms", kept->copied_in_ms);
    cay_jw_str(&w, "fingerprint", kept->fingerprint);
    cay_jw_object_end(&w);
}

static int run_put(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    const struct cay_kept *kept = job->kept;
    sqlite3_stmt *s;
    bool begins = kept->kind == CAY_SNAPSHOT && !kept->ready;
    int r = begins ? cay_sqlite_check_room(db, kept->account_id, err) : 0;
    if (r == 0)
        r = cay_sqlite_prepare(db, PUT,
                               "INSERT INTO kept (id, account_id, kind, status, sandbox_id,"
                               " meta_data, created_at, updated_at, expires_at)"
                               " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
                               " ON CONFLICT (id) DO UPDATE SET status = ?4, sandbox_id = ?5,"
                               " meta_data = ?6, updated_at = ?8, expires_at = ?9"
                               " WHERE account_id = ?2",
                               &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, kept->id);
    bind_text(s, 2, kept->account_id);
    bind_text(s, 3, cay_kept_kind_name(kept->kind));
    bind_text(s, 4, kept->ready ? "ready" : "pending");
    bind_text(s, 5, kept->sandbox_id[0] ? kept->sandbox_id : NULL);
    (void)sqlite3_bind_text(s, 6, job->meta.data, (int)job->meta.len, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 7, kept->created_at_ms);
    (void)sqlite3_bind_int64(s, 8, kept->updated_at_ms);
    if (kept->expires_at_ms > 0) /* else NULL */
        (void)sqlite3_bind_int64(s, 9, kept->expires_at_ms);
    return cay_sqlite_run(db, s, err);
}

static int run_remove(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(db, REMOVE, "DELETE FROM kept WHERE id = ?1", &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, job->id);
    return cay_sqlite_run(db, s, err);
}

int cay_sqlite_kept_put(struct cay_store *s, const struct cay_kept *kept, enum cay_durable durable,
                        struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = run_put, .durable = durable, .kept = kept};
    write_meta(kept, &job.meta);
    int r = cay_sqlite_writer_do(&((struct cay_sqlite_store *)s)->writer, &job, err);
    cay_buf_done(&job.meta);
    return r;
}

int cay_sqlite_kept_remove(struct cay_store *s, const char *id, enum cay_durable durable,
                           struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = run_remove, .durable = durable, .id = id};
    return cay_sqlite_writer_do(&((struct cay_sqlite_store *)s)->writer, &job, err);
}

static int read_row(sqlite3_stmt *s, struct cay_arena *scratch, struct cay_arena *a,
                    struct cay_kept *out, struct cay_error *err)
{
    const char *id = (const char *)sqlite3_column_text(s, 0);
    const char *account = (const char *)sqlite3_column_text(s, 1);
    const char *kind = (const char *)sqlite3_column_text(s, 2);
    const char *status = (const char *)sqlite3_column_text(s, 3);
    const char *sandbox = (const char *)sqlite3_column_text(s, 4);
    const char *text = (const char *)sqlite3_column_text(s, 5);
    const struct cay_json *meta = NULL;
    cay_arena_reset(scratch);
    if (!id || !account || !kind || !status || !text ||
        cay_json_parse(scratch, text, (size_t)sqlite3_column_bytes(s, 5), &meta, err) < 0 ||
        meta->kind != CAY_JSON_OBJECT)
        return cay_fail(err, CAY_ERR_STORE, "the record of %s is damaged", id ? id : "?");
    struct cay_kept kept = {
        .kind = strcmp(kind, "snapshot") == 0 ? CAY_SNAPSHOT : CAY_VOLUME,
        .ready = strcmp(status, "ready") == 0,
        .account_id = cay_arena_strdup(a, account),
        .name = cay_arena_strdup(a, cay_json_get_str(meta, "name", NULL)),
        .image = cay_arena_strdup(a, cay_json_get_str(meta, "image", NULL)),
        .method = cay_arena_strdup(a, cay_json_get_str(meta, "method", NULL)),
        .size_bytes = (uint64_t)cay_json_get_int(meta, "size_bytes", 0),
        .copied_in_ms = cay_json_get_int(meta, "copied_in_ms", 0),
        .fingerprint = cay_arena_strdup(a, cay_json_get_str(meta, "fingerprint", NULL)),
        .created_at_ms = sqlite3_column_int64(s, 6),
        .updated_at_ms = sqlite3_column_int64(s, 7),
        .expires_at_ms = sqlite3_column_int64(s, 8),
    };
    cay_str_copy(kept.id, sizeof kept.id, id);
    cay_str_copy(kept.sandbox_id, sizeof kept.sandbox_id, sandbox ? sandbox : "");
    *out = kept;
    return 0;
}

/* All rows that the statement gives; resets it. */
static int read_rows(struct cay_sqlite_reader *r, sqlite3_stmt *s, struct cay_arena *a,
                     struct cay_kept_list *out, struct cay_error *err)
{
    struct cay_kept_list list = {0};
    int step, e = 0;
    while ((step = sqlite3_step(s)) == SQLITE_ROW && e == 0) {
        list.at = cay_arena_room(a, list.at, list.count, sizeof *list.at);
        e = read_row(s, &r->scratch, a, &list.at[list.count++], err);
    }
    if (e == 0 && step != SQLITE_DONE)
        e = cay_sqlite_fail(&r->db, err, "the database cannot be read");
    cay_sqlite_reset(s);
    if (e < 0)
        return e;
    list.total = (int64_t)list.count;
    *out = list;
    return 0;
}

/* The one look across accounts on a caller's behalf: it tells 403 from 404. */
static int not_mine(struct cay_sqlite_reader *r, const char *id, struct cay_error *err)
{
    sqlite3_stmt *s;
    int e = cay_sqlite_prepare(&r->db, OWNER, "SELECT 1 FROM kept WHERE id = ?1", &s, err);
    if (e < 0)
        return e;
    bind_text(s, 1, id);
    int step = sqlite3_step(s);
    if (step == SQLITE_ROW)
        e = cay_fail(err, CAY_ERR_FORBIDDEN, "%s belongs to another account", id);
    else if (step == SQLITE_DONE)
        e = cay_fail(err, CAY_ERR_NOT_FOUND, "%s not found", id);
    else
        e = cay_sqlite_fail(&r->db, err, "the database cannot be read");
    cay_sqlite_reset(s);
    return e;
}

static int get(struct cay_sqlite_reader *r, const char *account_id, const char *id,
               struct cay_arena *a, struct cay_kept *out, struct cay_error *err)
{
    struct cay_kept_list found;
    sqlite3_stmt *s;
    int e = cay_sqlite_prepare(&r->db, GET, SELECT "WHERE id = ?1 AND account_id = ?2", &s, err);
    if (e < 0)
        return e;
    bind_text(s, 1, id);
    bind_text(s, 2, account_id);
    e = read_rows(r, s, a, &found, err);
    if (e < 0)
        return e;
    if (found.count == 0)
        return not_mine(r, id, err);
    *out = found.at[0];
    return 0;
}

int cay_sqlite_kept_get(struct cay_store *store, const char *account_id, const char *id,
                        struct cay_arena *a, struct cay_kept *out, struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = get(r, account_id, id, a, out, err);
    cay_sqlite_give_back(s, r);
    return e;
}

static void bind_filter(sqlite3_stmt *s, const struct cay_kept_filter *f)
{
    bind_text(s, 1, f->account_id);
    bind_text(s, 2, cay_kept_kind_name(f->kind));
    bind_text(s, 3, f->sandbox_id);
}

static int count(struct cay_sqlite_reader *r, const struct cay_kept_filter *f, int64_t *out,
                 struct cay_error *err)
{
    sqlite3_stmt *s;
    int e = cay_sqlite_prepare(&r->db, COUNT, "SELECT count(*) FROM kept " OF_FILTER, &s, err);
    if (e < 0)
        return e;
    bind_filter(s, f);
    if (sqlite3_step(s) == SQLITE_ROW)
        *out = sqlite3_column_int64(s, 0);
    else
        e = cay_sqlite_fail(&r->db, err, "the database cannot be read");
    cay_sqlite_reset(s);
    return e;
}

static int page(struct cay_sqlite_reader *r, const struct cay_kept_filter *f, struct cay_arena *a,
                struct cay_kept_list *out, struct cay_error *err)
{
    struct cay_kept_list list;
    int64_t total = 0, before;
    sqlite3_stmt *s;
    int e = count(r, f, &total, err);
    if (e == 0)
        e = cay_sqlite_prepare(
            &r->db, LIST, SELECT OF_FILTER " ORDER BY created_at DESC, seq DESC LIMIT ?4 OFFSET ?5",
            &s, err);
    if (e < 0)
        return e;
    bind_filter(s, f);
    if (f->page < 1 || __builtin_mul_overflow(f->page - 1, f->per_page, &before))
        before = INT64_MAX;
    (void)sqlite3_bind_int64(s, 4, f->per_page);
    (void)sqlite3_bind_int64(s, 5, before);
    e = read_rows(r, s, a, &list, err);
    if (e < 0)
        return e;
    list.total = total;
    *out = list;
    return 0;
}

/* Number and rows are read in one transaction, so that they fit together. */
int cay_sqlite_kept_list(struct cay_store *store, const struct cay_kept_filter *filter,
                         struct cay_arena *a, struct cay_kept_list *out, struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    struct cay_error ignored; /* a read that is over leaves nothing to undo */
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = cay_sqlite_exec(&r->db, "BEGIN", err);
    if (e == 0) {
        e = page(r, filter, a, out, err);
        (void)cay_sqlite_exec(&r->db, "COMMIT", &ignored);
    }
    cay_sqlite_give_back(s, r);
    return e;
}

int cay_sqlite_kept_all(struct cay_store *store, struct cay_arena *a, struct cay_kept_list *out,
                        struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    sqlite3_stmt *st;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = cay_sqlite_prepare(&r->db, ALL, SELECT, &st, err);
    if (e == 0)
        e = read_rows(r, st, a, out, err);
    cay_sqlite_give_back(s, r);
    return e;
}

int cay_sqlite_kept_due(struct cay_store *store, int64_t now_ms, struct cay_arena *a,
                        struct cay_kept_list *out, struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    sqlite3_stmt *st;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = cay_sqlite_prepare(&r->db, DUE,
                           SELECT "WHERE expires_at IS NOT NULL AND expires_at <= ?1"
                                  " ORDER BY expires_at LIMIT ?2",
                           &st, err);
    if (e == 0) {
        (void)sqlite3_bind_int64(st, 1, now_ms);
        (void)sqlite3_bind_int(st, 2, CAY_STORE_DUE);
        e = read_rows(r, st, a, out, err);
    }
    cay_sqlite_give_back(s, r);
    return e;
}
