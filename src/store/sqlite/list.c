/* SPDX-License-Identifier: Apache-2.0 */
/* Lists: one statement per combination of filters, made when it is first asked for. */
#include "base/json.h"
#include "store/sqlite/row.h"
#include "store/sqlite/sqlite.h"

enum scope { LIVING, EVERY, GONE };

/* Bits of a statement's number behind CAY_SQLITE_LIST; the scope takes the two above. */
enum { COUNTS = 1, BY_STATE = 2, BY_NAME = 4, BY_LABELS = 8, SCOPE = 16 };

_Static_assert(CAY_SQLITE_LIST + (GONE + 1) * SCOPE <= CAY_SQLITE_KEPT, "room for all");

struct query {
    const struct cay_list_filter *filter;
    enum scope scope;
    int shape; /* without COUNTS */
    struct cay_buf labels;
};

static void add_index(struct cay_buf *sql, const struct query *q)
{
    if (q->shape & (BY_NAME | BY_LABELS))
        return; /* few rows are left by those */
    cay_buf_adds(sql, q->scope == LIVING ? " INDEXED BY sandboxes_living"
                                         : " INDEXED BY sandboxes_every");
}

static void add_conditions(struct cay_buf *sql, const struct query *q)
{
    static const char *const scopes[] = {
        [LIVING] = " AND s.deleted_at IS NULL",
        [EVERY] = "",
        [GONE] = " AND s.deleted_at IS NOT NULL",
    };
    static const char *const gone[] = {[LIVING] = "0", [EVERY] = "0, 1", [GONE] = "1"};
    cay_buf_adds(sql, " WHERE s.account_id = ?1");
    cay_buf_adds(sql, scopes[q->scope]);
    if (q->shape & BY_STATE)
        cay_buf_adds(sql, " AND s.status = ?2");
    if (q->shape & BY_NAME)
        cay_buf_adds(sql, " AND s.name = ?3");
    if (q->shape & BY_LABELS) /* the first label finds the rows, the others sort them out */
        cay_buf_addf(sql,
                     " AND s.seq IN (SELECT seq FROM labels WHERE account_id = ?1 AND label = ?4"
                     " AND gone IN (%s))"
                     " AND NOT EXISTS (SELECT 1 FROM json_each(?5) j WHERE NOT EXISTS ("
                     "SELECT 1 FROM labels l WHERE l.account_id = ?1 AND l.label = j.value"
                     " AND l.gone = (s.deleted_at IS NOT NULL) AND l.seq = s.seq))",
                     gone[q->scope]);
}

static void bind(sqlite3_stmt *s, const struct query *q)
{
    const struct cay_list_filter *f = q->filter;
    (void)sqlite3_bind_text(s, 1, f->account_id, -1, SQLITE_STATIC);
    if (q->shape & BY_STATE)
        (void)sqlite3_bind_text(s, 2, cay_state_name(f->state), -1, SQLITE_STATIC);
    if (q->shape & BY_NAME)
        (void)sqlite3_bind_text(s, 3, f->name, -1, SQLITE_STATIC);
    if (q->shape & BY_LABELS) {
        (void)sqlite3_bind_text(s, 4, f->labels.at[0], -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(s, 5, q->labels.data, (int)q->labels.len, SQLITE_STATIC);
    }
}

static int prepare(struct cay_sqlite_reader *r, const struct query *q, int counts,
                   sqlite3_stmt **out, struct cay_error *err)
{
    int number = CAY_SQLITE_LIST + (int)q->scope * SCOPE + q->shape + counts;
    CAY_AUTO_BUF struct cay_buf sql = {0};
    if (!r->db.statements[number]) {
        cay_buf_adds(&sql, counts ? "SELECT count(*) FROM sandboxes s"
                                  : "SELECT " CAY_SQLITE_COLUMNS " FROM sandboxes s");
        add_index(&sql, q);
        add_conditions(&sql, q);
        if (!counts)
            cay_buf_adds(&sql, " ORDER BY s.created_at DESC, s.seq DESC LIMIT ?6 OFFSET ?7");
        cay_buf_addc(&sql, 0);
    }
    int e = cay_sqlite_prepare(&r->db, number, sql.data, out, err);
    if (e == 0)
        bind(*out, q);
    return e;
}

/* Counted by the database as they come and go. Who never had one has no row. */
static const char tally[] = "SELECT living FROM tallies WHERE account_id = ?1";

static int count(struct cay_sqlite_reader *r, const struct query *q, int64_t *out,
                 struct cay_error *err)
{
    sqlite3_stmt *s;
    bool all = q->scope == LIVING && q->shape == 0;
    int e = all ? cay_sqlite_prepare(&r->db, CAY_SQLITE_TALLY, tally, &s, err)
                : prepare(r, q, COUNTS, &s, err);
    if (e < 0)
        return e;
    if (all)
        bind(s, q);
    int step = sqlite3_step(s);
    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(s, 0);
    else if (step == SQLITE_DONE)
        *out = 0;
    else
        e = cay_sqlite_fail(&r->db, err, "the database cannot be read");
    cay_sqlite_reset(s);
    return e;
}

static int page(struct cay_sqlite_reader *r, const struct query *q, struct cay_arena *a,
                struct cay_sandbox_list *out, struct cay_error *err)
{
    const struct cay_list_filter *f = q->filter;
    struct cay_sandbox_list list;
    int64_t total = 0, before;
    sqlite3_stmt *s;
    int e = count(r, q, &total, err);
    if (e == 0)
        e = prepare(r, q, 0, &s, err);
    if (e < 0)
        return e;
    if (f->page < 1 || __builtin_mul_overflow(f->page - 1, f->per_page, &before))
        before = INT64_MAX;
    (void)sqlite3_bind_int64(s, 6, f->per_page);
    (void)sqlite3_bind_int64(s, 7, before);
    e = cay_sqlite_rows(r, s, a, &list, err);
    if (e < 0)
        return e;
    list.total = total;
    *out = list;
    return 0;
}

static void plan(struct query *q, const struct cay_list_filter *f)
{
    bool terminated = f->has_state && f->state == CAY_TERMINATED;
    q->filter = f;
    q->scope = terminated ? GONE : f->include_terminated && !f->has_state ? EVERY : LIVING;
    if (f->has_state && !terminated)
        q->shape |= BY_STATE;
    if (f->name)
        q->shape |= BY_NAME;
    if (f->labels.count == 0)
        return;
    q->shape |= BY_LABELS;
    struct cay_json_writer w = {.buf = &q->labels};
    cay_jw_array(&w, NULL);
    for (size_t i = 0; i < f->labels.count; i++)
        cay_jw_str(&w, NULL, f->labels.at[i]);
    cay_jw_array_end(&w);
}

/* Number and rows are read in one transaction, so that they fit together. */
int cay_sqlite_list(struct cay_store *store, const struct cay_list_filter *filter,
                    struct cay_arena *a, struct cay_sandbox_list *out, struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    struct cay_error ignored; /* a read that is over leaves nothing to undo */
    struct query q = {0};
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    plan(&q, filter);
    e = cay_sqlite_exec(&r->db, "BEGIN", err);
    if (e == 0) {
        e = page(r, &q, a, out, err);
        (void)cay_sqlite_exec(&r->db, "COMMIT", &ignored);
    }
    cay_buf_done(&q.labels);
    cay_sqlite_give_back(s, r);
    return e;
}
