/* SPDX-License-Identifier: Apache-2.0 */
/* What changes rows: each a job for the writer. */
#include "store/migrations/migrations.h"
#include "store/sqlite/row.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>
#include <string.h>

enum { INSERT, UPDATE, REMOVE, FORGET, UNLABEL, LABEL, UPDATE_META, UPDATE_STATUS };

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
    (void)sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC); /* fails only when out of memory */
}

static void bind_time(sqlite3_stmt *s, int at, int64_t time_ms)
{
    if (time_ms > 0)
        (void)sqlite3_bind_int64(s, at, time_ms);
    else
        (void)sqlite3_bind_null(s, at);
}

/* ?1 to ?7, the same in INSERT and UPDATE. */
static void bind_row(sqlite3_stmt *s, const struct cay_sqlite_job *job)
{
    const struct cay_sandbox *sb = job->sandbox;
    bind_text(s, 1, sb->id);
    bind_text(s, 2, sb->account_id);
    bind_text(s, 3, sb->spec.name);
    bind_text(s, 4, cay_state_name(sb->state));
    (void)sqlite3_bind_text(s, 5, job->meta.data, (int)job->meta.len, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 6, sb->updated_at_ms);
    bind_time(s, 7, sb->expires_at_ms);
    bind_time(s, 8, sb->deleted_at_ms);
}

static int row_failed(struct cay_sqlite_db *db, const struct cay_sandbox *sb, struct cay_error *err)
{
    if (sqlite3_errcode(db->db) != SQLITE_CONSTRAINT)
        return cay_sqlite_fail(db, err, "the database cannot be written");
    if (strstr(sqlite3_errmsg(db->db), "sandboxes.name"))
        return cay_fail_as(err, CAY_ERR_CONFLICT, "NAME_TAKEN", "a sandbox named %s exists already",
                           sb->spec.name);
    return cay_fail(err, CAY_ERR_CONFLICT, "sandbox %s cannot be recorded: it is there already",
                    sb->id);
}

/* Runs INSERT or UPDATE; how many rows it was. (RETURNING would make a table for each.) */
static int put_row(struct cay_sqlite_db *db, sqlite3_stmt *s, const struct cay_sandbox *sb,
                   struct cay_error *err)
{
    int r = sqlite3_step(s) == SQLITE_DONE ? sqlite3_changes(db->db) : row_failed(db, sb, err);
    cay_sqlite_reset(s);
    return r;
}

static int put_labels(struct cay_sqlite_db *db, const struct cay_sandbox *sb, struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = 0;
    for (size_t i = 0; i < sb->spec.labels.count && r == 0; i++) {
        r = cay_sqlite_prepare(db, LABEL,
                               "INSERT OR IGNORE INTO labels (account_id, label, gone, seq)"
                               " SELECT account_id, ?2, ?3, seq FROM sandboxes WHERE id = ?1",
                               &s, err);
        if (r < 0)
            return r;
        bind_text(s, 1, sb->id);
        bind_text(s, 2, sb->spec.labels.at[i]);
        (void)sqlite3_bind_int(s, 3, sb->deleted_at_ms > 0);
        r = cay_sqlite_run(db, s, err);
    }
    return r;
}

static int drop_labels(struct cay_sqlite_db *db, const char *id, struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(db, UNLABEL,
                               "DELETE FROM labels"
                               " WHERE seq = (SELECT seq FROM sandboxes WHERE id = ?1)",
                               &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, id);
    return cay_sqlite_run(db, s, err);
}

static int run_insert(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = cay_sqlite_check_quota(db, job->sandbox, err);
    if (r < 0)
        return r;
    r = cay_sqlite_prepare(db, INSERT,
                           "INSERT INTO sandboxes (id, account_id, name, status, meta_data,"
                           " updated_at, expires_at, deleted_at, created_at)"
                           " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                           &s, err);
    if (r < 0)
        return r;
    bind_row(s, job);
    (void)sqlite3_bind_int64(s, 9, job->sandbox->created_at_ms);
    r = put_row(db, s, job->sandbox, err);
    return r < 0 ? r : put_labels(db, job->sandbox, err);
}

static int run_update(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    /* A column that is set is taken for changed, and every index that has it is written: so first
     * those that change most often alone, where the others are as they were. */
    static const struct {
        int number;
        const char *sql;
    } ways[] = {
        {UPDATE_META, "UPDATE sandboxes SET meta_data = ?5, updated_at = ?6 WHERE id = ?1"
                      " AND account_id = ?2 AND name = ?3 AND status = ?4 AND expires_at IS ?7"
                      " AND deleted_at IS ?8"},
        {UPDATE_STATUS, "UPDATE sandboxes SET status = ?4, meta_data = ?5, updated_at = ?6"
                        " WHERE id = ?1 AND account_id = ?2 AND name = ?3 AND expires_at IS ?7"
                        " AND deleted_at IS ?8"},
        {UPDATE, "UPDATE sandboxes SET name = ?3, status = ?4, meta_data = ?5, updated_at = ?6,"
                 " expires_at = ?7, deleted_at = ?8 WHERE id = ?1 AND account_id = ?2"},
    };
    const bool goes = job->sandbox->deleted_at_ms > 0; /* which is in most of the indexes */
    int r = goes ? 0 : cay_sqlite_check_quota(db, job->sandbox, err);
    for (size_t i = goes ? CAY_COUNT(ways) - 1 : 0; i < CAY_COUNT(ways) && r == 0; i++) {
        sqlite3_stmt *s;
        r = cay_sqlite_prepare(db, ways[i].number, ways[i].sql, &s, err);
        if (r < 0)
            return r;
        bind_row(s, job);
        r = put_row(db, s, job->sandbox, err);
    }
    if (r < 0)
        return r;
    if (r == 0)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    r = drop_labels(db, job->sandbox->id, err);
    return r < 0 ? r : put_labels(db, job->sandbox, err);
}

static int run_remove(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(db, REMOVE, "DELETE FROM sandboxes WHERE id = ?1", &s, err);
    if (r < 0)
        return r;
    bind_text(s, 1, job->id);
    return cay_sqlite_run(db, s, err);
}

static int run_forget(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(db, FORGET,
                               "DELETE FROM sandboxes WHERE seq IN (SELECT seq FROM sandboxes"
                               " WHERE deleted_at IS NOT NULL AND deleted_at < ?1 LIMIT ?2)",
                               &s, err);
    if (r < 0)
        return r;
    (void)sqlite3_bind_int64(s, 1, job->before_ms);
    (void)sqlite3_bind_int(s, 2, CAY_STORE_FORGET);
    r = cay_sqlite_run(db, s, err);
    job->changed = r < 0 ? 0 : sqlite3_changes64(db->db);
    return r;
}

/* Writes the first page without changing what it says. */
static int run_probe(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err)
{
    char sql[48];
    (void)job;
    (void)snprintf(sql, sizeof sql, "PRAGMA user_version = %d", cay_migrations_count);
    return cay_sqlite_exec(db, sql, err);
}

static int do_row(struct cay_store *s, struct cay_sqlite_job *job, struct cay_error *err)
{
    int r = cay_sqlite_row_meta(job->sandbox, &job->meta, err);
    if (r == 0)
        r = cay_sqlite_writer_do(&((struct cay_sqlite_store *)s)->writer, job, err);
    cay_buf_done(&job->meta);
    return r;
}

int cay_sqlite_insert(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                      struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = run_insert, .durable = durable, .sandbox = sb};
    return do_row(s, &job, err);
}

int cay_sqlite_update(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                      struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = run_update, .durable = durable, .sandbox = sb};
    return do_row(s, &job, err);
}

int cay_sqlite_remove(struct cay_store *s, const char *id, enum cay_durable durable,
                      struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = run_remove, .durable = durable, .id = id};
    return cay_sqlite_writer_do(&((struct cay_sqlite_store *)s)->writer, &job, err);
}

int cay_sqlite_forget(struct cay_store *s, int64_t before_ms, struct cay_error *err)
{
    int64_t changed;
    do { /* in steps, so that other writes come between */
        struct cay_sqlite_job job = {
            .run = run_forget, .durable = CAY_SOON, .before_ms = before_ms};
        int r = cay_sqlite_writer_do(&((struct cay_sqlite_store *)s)->writer, &job, err);
        if (r < 0)
            return r;
        changed = job.changed;
    } while (changed == CAY_STORE_FORGET);
    return 0;
}

int cay_sqlite_probe(struct cay_sqlite_store *s, struct cay_error *err)
{
    struct cay_sqlite_job job = {.run = run_probe, .durable = CAY_NOW};
    return cay_sqlite_writer_do(&s->writer, &job, err);
}
