/* SPDX-License-Identifier: Apache-2.0 */
/* Who did what: AUDIT/YYYY-MM-DD.jsonl (days of UTC), one JSON object a line. The files are the
 * record; there is no table beside them.
 *
 * A line is one write, so that the server's death takes none that was added; a thread of its own
 * brings them to the disk, many at a time and within CAY_AUDIT_SYNC_MS, so that nobody's answer
 * waits for that. Days older than CAY_AUDIT_DAYS are removed, one for each new day. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

struct cay_audit;

struct cay_audit_entry {
    const char *account_id;
    const char *key_id;  /* of the key or token that was shown; or NULL */
    const char *peer;    /* its address; NULL: the server itself */
    const char *action;  /* "sandbox.create" */
    const char *sandbox; /* or NULL */
    const char *object;  /* which file, execution or the like; or NULL */
    const char *request; /* its id; or NULL */
    int status;          /* of the answer; 0 when there was none to give */
};

/* Takes over the directory. */
int cay_audit_open(int dir_fd, struct cay_audit **out, struct cay_error *err);
void cay_audit_close(struct cay_audit *audit); /* all is on the disk then */
int cay_audit_add(struct cay_audit *audit, const struct cay_audit_entry *e, struct cay_error *err);

#define CAY_AUDIT_CURSOR 40

/* Values are of [A-Za-z0-9._:-]; anything else finds nothing. */
struct cay_audit_filter {
    const char *account_id; /* never NULL */
    const char *sandbox;    /* or NULL, as all below */
    const char *key, *peer; /* as entries have them */
    const char *result;     /* "ok", "refused", "failed" */
    const char *action;     /* "sandbox.files" finds "sandbox.files.read" too */
    int64_t from_ms, to_ms; /* from included, to not; 0: no bound */
    const char *cursor;     /* where the page before ended; or NULL */
    size_t limit;
};

/* Newest first. Looks at no more than CAY_AUDIT_SCAN bytes: a page may be short, and even empty,
 * while `next` is there. CAY_ERR_INVALID, field "cursor". */
struct cay_audit_page {
    struct cay_strs lines;       /* JSON objects, in the arena */
    char next[CAY_AUDIT_CURSOR]; /* empty: there is no more */
};
int cay_audit_read(struct cay_audit *audit, const struct cay_audit_filter *filter,
                   struct cay_arena *a, struct cay_audit_page *out, struct cay_error *err);
