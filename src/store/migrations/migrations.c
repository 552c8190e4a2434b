/* SPDX-License-Identifier: Apache-2.0 */
/* PRAGMA user_version holds how many steps a database has seen. */
#include "store/migrations/migrations.h"
#include <stdio.h>

static const char *const steps[] = {
    /* 1: sandboxes. Every index for the living is partial, so that what it costs does not depend on
     * how many were terminated. `seq` and `status` are in the lists' indexes so that counting and
     * skipping need not touch the rows. `labels` repeats what meta_data says, to be searched. */
    "CREATE TABLE sandboxes ("
    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  id TEXT NOT NULL UNIQUE,"
    "  account_id TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  status TEXT NOT NULL,"
    "  meta_data TEXT NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  updated_at INTEGER NOT NULL,"
    "  expires_at INTEGER,"
    "  deleted_at INTEGER);"
    "CREATE UNIQUE INDEX sandboxes_name ON sandboxes (account_id, name) WHERE deleted_at IS NULL;"
    "CREATE INDEX sandboxes_living ON sandboxes (account_id, created_at, seq, status)"
    "  WHERE deleted_at IS NULL;"
    "CREATE INDEX sandboxes_every ON sandboxes (account_id, created_at, seq, deleted_at);"
    "CREATE INDEX sandboxes_due ON sandboxes (expires_at)"
    "  WHERE deleted_at IS NULL AND expires_at IS NOT NULL;"
    "CREATE INDEX sandboxes_gone ON sandboxes (deleted_at) WHERE deleted_at IS NOT NULL;"
    "CREATE TABLE labels ("
    "  account_id TEXT NOT NULL,"
    "  label TEXT NOT NULL,"
    "  gone INTEGER NOT NULL,"
    "  seq INTEGER NOT NULL REFERENCES sandboxes (seq) ON DELETE CASCADE,"
    "  PRIMARY KEY (account_id, label, gone, seq)) WITHOUT ROWID;"
    "CREATE INDEX labels_sandbox ON labels (seq);",
    /* 2: snapshots and volumes. */
    "CREATE TABLE kept ("
    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  id TEXT NOT NULL UNIQUE,"
    "  account_id TEXT NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  status TEXT NOT NULL,"
    "  sandbox_id TEXT,"
    "  meta_data TEXT NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  updated_at INTEGER NOT NULL,"
    "  expires_at INTEGER);"
    "CREATE INDEX kept_account ON kept (account_id, kind, created_at, seq);"
    "CREATE INDEX kept_due ON kept (expires_at) WHERE expires_at IS NOT NULL;",
    /* 3: accounts and teams (holders), who belongs to a team, and keys. */
    "CREATE TABLE holders ("
    "  id TEXT NOT NULL PRIMARY KEY,"
    "  kind TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  quota TEXT,"
    "  created_at INTEGER NOT NULL,"
    "  deleted_at INTEGER);"
    "CREATE UNIQUE INDEX holders_name ON holders (name)"
    "  WHERE kind = 'account' AND deleted_at IS NULL;"
    "CREATE INDEX holders_kind ON holders (kind, created_at, id) WHERE deleted_at IS NULL;"
    "CREATE TABLE members ("
    "  team_id TEXT NOT NULL,"
    "  account_id TEXT NOT NULL,"
    "  role TEXT NOT NULL,"
    "  added_at INTEGER NOT NULL,"
    "  PRIMARY KEY (team_id, account_id)) WITHOUT ROWID;"
    "CREATE INDEX members_account ON members (account_id);"
    "CREATE TABLE api_keys ("
    "  id TEXT NOT NULL PRIMARY KEY,"
    "  account_id TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  hash TEXT NOT NULL UNIQUE,"
    "  scopes INTEGER NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  expires_at INTEGER,"
    "  last_used_at INTEGER,"
    "  revoked_at INTEGER);"
    "CREATE INDEX api_keys_account ON api_keys (account_id, created_at);",
    /* 4: how many living ones an account has, so that a list need not count them. */
    "CREATE TABLE tallies ("
    "  account_id TEXT NOT NULL PRIMARY KEY,"
    "  living INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO tallies SELECT account_id, count(*) FROM sandboxes"
    "  WHERE deleted_at IS NULL GROUP BY account_id;"
    "CREATE TRIGGER sandboxes_come AFTER INSERT ON sandboxes WHEN new.deleted_at IS NULL BEGIN"
    "  INSERT INTO tallies VALUES (new.account_id, 1)"
    "    ON CONFLICT (account_id) DO UPDATE SET living = living + 1; END;"
    "CREATE TRIGGER sandboxes_turn AFTER UPDATE OF deleted_at ON sandboxes"
    "  WHEN (old.deleted_at IS NULL) <> (new.deleted_at IS NULL) BEGIN"
    "  UPDATE tallies SET living = living + (new.deleted_at IS NULL) - (old.deleted_at IS NULL)"
    "    WHERE account_id = new.account_id; END;"
    "CREATE TRIGGER sandboxes_go AFTER DELETE ON sandboxes WHEN old.deleted_at IS NULL BEGIN"
    "  UPDATE tallies SET living = living - 1 WHERE account_id = old.account_id; END;",
};

const int cay_migrations_count = CAY_COUNT(steps);

int cay_migrations_check(struct cay_sqlite_db *db, struct cay_error *err)
{
    int64_t version;
    int r = cay_sqlite_int(db, "PRAGMA user_version", &version, err);
    if (r < 0)
        return r;
    if (version > cay_migrations_count)
        return cay_fail(
            err, CAY_ERR_STORE,
            "the database has schema %lld, made by a newer cay; this one knows up to %d",
            (long long)version, cay_migrations_count);
    return 0;
}

static int run_step(struct cay_sqlite_db *db, int number, struct cay_error *err)
{
    char version[48];
    (void)snprintf(version, sizeof version, "PRAGMA user_version = %d", number + 1);
    int r = cay_sqlite_exec(db, "BEGIN IMMEDIATE", err);
    if (r == 0)
        r = cay_sqlite_exec(db, steps[number], err);
    if (r == 0)
        r = cay_sqlite_exec(db, version, err);
    if (r == 0)
        r = cay_sqlite_exec(db, "COMMIT", err);
    if (r < 0) {
        struct cay_error ignored; /* the step's own error is the one that matters */
        if (!sqlite3_get_autocommit(db->db))
            (void)cay_sqlite_exec(db, "ROLLBACK", &ignored);
        return cay_wrap(err, "cannot bring the database to schema %d", number + 1);
    }
    return 0;
}

int cay_migrations_run(struct cay_sqlite_db *db, struct cay_error *err)
{
    int64_t version;
    int r = cay_migrations_check(db, err);
    if (r == 0)
        r = cay_sqlite_int(db, "PRAGMA user_version", &version, err);
    for (int i = r < 0 ? cay_migrations_count : (int)version; i < cay_migrations_count; i++) {
        r = run_step(db, i, err);
        if (r < 0)
            return r;
    }
    return r;
}
