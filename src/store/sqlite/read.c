/* SPDX-License-Identifier: Apache-2.0 */
/* What reads rows, but for lists. */
#include "store/sqlite/row.h"
#include "store/sqlite/sqlite.h"
#include <string.h>

#define SELECT "SELECT " CAY_SQLITE_COLUMNS " FROM sandboxes s "

int cay_sqlite_rows(struct cay_sqlite_reader *r, sqlite3_stmt *s, struct cay_arena *a,
                    struct cay_sandbox_list *out, struct cay_error *err)
{
    struct cay_sandbox_list list = {0};
    int step, e = 0;
    while ((step = sqlite3_step(s)) == SQLITE_ROW && e == 0) {
        list.at = cay_arena_room(a, list.at, list.count, sizeof *list.at);
        e = cay_sqlite_row_read(s, &r->scratch, a, &list.at[list.count++], err);
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

/* One row by ?1 and ?2, of an account. CAY_ERR_NOT_FOUND. */
static int get_one(struct cay_sqlite_reader *r, sqlite3_stmt *s, const char *account_id,
                   const char *key, struct cay_arena *a, struct cay_sandbox *out,
                   struct cay_error *err)
{
    (void)sqlite3_bind_text(s, 1, account_id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(s, 2, key, -1, SQLITE_STATIC);
    int step = sqlite3_step(s), e;
    if (step == SQLITE_ROW)
        e = cay_sqlite_row_read(s, &r->scratch, a, out, err);
    else if (step == SQLITE_DONE)
        e = cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    else
        e = cay_sqlite_fail(&r->db, err, "the database cannot be read");
    cay_sqlite_reset(s);
    return e;
}

static int get_by_name(struct cay_sqlite_reader *r, const char *account_id, const char *name,
                       struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    sqlite3_stmt *s;
    int e = cay_sqlite_prepare(&r->db, CAY_SQLITE_BY_NAME,
                               SELECT "WHERE s.account_id = ?1 AND s.name = ?2"
                                      " AND s.deleted_at IS NULL",
                               &s, err);
    return e < 0 ? e : get_one(r, s, account_id, name, a, out, err);
}

/* The one look across accounts on a caller's behalf: it tells 403 from 404. */
static int check_owner(struct cay_sqlite_reader *r, const char *id, struct cay_error *err)
{
    sqlite3_stmt *s;
    int e = cay_sqlite_prepare(&r->db, CAY_SQLITE_OWNER, "SELECT 1 FROM sandboxes WHERE id = ?1",
                               &s, err);
    if (e < 0)
        return e;
    (void)sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
    int step = sqlite3_step(s);
    if (step == SQLITE_ROW)
        e = cay_fail(err, CAY_ERR_FORBIDDEN, "sandbox %s belongs to another account", id);
    else if (step == SQLITE_DONE)
        e = cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    else
        e = cay_sqlite_fail(&r->db, err, "the database cannot be read");
    cay_sqlite_reset(s);
    return e;
}

static int get_by_id(struct cay_sqlite_reader *r, const char *account_id, const char *id,
                     struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    sqlite3_stmt *s;
    int e = cay_sqlite_prepare(&r->db, CAY_SQLITE_BY_ID,
                               SELECT "WHERE s.id = ?2 AND s.account_id = ?1", &s, err);
    if (e == 0)
        e = get_one(r, s, account_id, id, a, out, err);
    return e == CAY_ERR_NOT_FOUND ? check_owner(r, id, err) : e;
}

/* No name has the form of an id, so the form says where to look first. */
int cay_sqlite_get(struct cay_store *store, const char *account_id, const char *id_or_name,
                   struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = cay_id_is_sandbox(id_or_name) ? CAY_ERR_NOT_FOUND
                                      : get_by_name(r, account_id, id_or_name, a, out, err);
    if (e == CAY_ERR_NOT_FOUND)
        e = get_by_id(r, account_id, id_or_name, a, out, err);
    cay_sqlite_give_back(s, r);
    return e;
}

int cay_sqlite_all(struct cay_store *store, struct cay_arena *a, struct cay_sandbox_list *out,
                   struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    sqlite3_stmt *st;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = cay_sqlite_prepare(&r->db, CAY_SQLITE_ALL,
                           SELECT "INDEXED BY sandboxes_living WHERE s.deleted_at IS NULL", &st,
                           err);
    if (e == 0)
        e = cay_sqlite_rows(r, st, a, out, err);
    cay_sqlite_give_back(s, r);
    return e;
}

int cay_sqlite_due(struct cay_store *store, int64_t now_ms, struct cay_arena *a,
                   struct cay_sandbox_list *out, struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    sqlite3_stmt *st;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = cay_sqlite_prepare(&r->db, CAY_SQLITE_DUE,
                           SELECT "INDEXED BY sandboxes_due WHERE s.deleted_at IS NULL"
                                  " AND s.expires_at IS NOT NULL AND s.expires_at <= ?1"
                                  " ORDER BY s.expires_at LIMIT ?2",
                           &st, err);
    if (e == 0) {
        (void)sqlite3_bind_int64(st, 1, now_ms);
        (void)sqlite3_bind_int(st, 2, CAY_STORE_DUE);
        e = cay_sqlite_rows(r, st, a, out, err);
    }
    cay_sqlite_give_back(s, r);
    return e;
}

/* The list's own index has all that is asked for. */
int cay_sqlite_count(struct cay_store *store, int64_t by_state[CAY_STATES], struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    sqlite3_stmt *st;
    int step = SQLITE_ERROR;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = cay_sqlite_prepare(&r->db, CAY_SQLITE_COUNT,
                           "SELECT status, count(*) FROM sandboxes INDEXED BY sandboxes_living"
                           " WHERE deleted_at IS NULL GROUP BY status",
                           &st, err);
    if (e == 0) {
        enum cay_state state;
        for (int i = 0; i < CAY_STATES; i++)
            by_state[i] = 0;
        while ((step = sqlite3_step(st)) == SQLITE_ROW)
            if (cay_state_parse((const char *)sqlite3_column_text(st, 0), &state))
                by_state[state] = sqlite3_column_int64(st, 1);
        if (step != SQLITE_DONE)
            e = cay_sqlite_fail(&r->db, err, "the database cannot be read");
        cay_sqlite_reset(st);
    }
    cay_sqlite_give_back(s, r);
    return e;
}

/* Numbers are not given twice, so the last one stays known. */
int cay_sqlite_was_used(struct cay_store *store, bool *out, struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    int64_t last = 0;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = cay_sqlite_int(&r->db, "SELECT count(*) FROM sqlite_sequence WHERE name = 'sandboxes'",
                       &last, err);
    if (e == 0)
        *out = last > 0;
    cay_sqlite_give_back(s, r);
    return e;
}
