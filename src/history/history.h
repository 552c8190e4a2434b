/* SPDX-License-Identifier: Apache-2.0 */
/* The code history of a sandbox: a git repository of ours, outside of it.
 *
 * DIR/<sandbox>/objects, index, journal, and HEAD and refs/heads/main for whoever looks at it with
 * git. The journal is what counts: one line of JSON for each version, appended when its objects are
 * there; a line without its end never was. So versions are found by the ids in it and by nothing
 * else that a caller says. Nothing here reads a tree of a sandbox: what it holds comes as bytes.
 *
 * One at a time has a history open: whoever calls sees to that. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include "base/str.h"

#define CAY_HISTORY_NO_ID "unknown" /* of a version that no execution made */
#define CAY_COMMIT_SIZE 41

struct cay_history;

/* With `make` it is begun if there is none; else CAY_ERR_NOT_FOUND, "NO_HISTORY". */
int cay_history_open(int dir_fd, const char *sandbox_id, bool make, struct cay_history **out,
                     struct cay_error *err);
/* One at which something failed half way must not be taken for whole. */
void cay_history_close(struct cay_history *h, bool whole);
/* Gone already is no error. */
void cay_history_remove(int dir_fd, const char *sandbox_id);
/* Those of sandboxes that are gone, once nothing was written to them for so long. */
void cay_history_sweep(int dir_fd, int64_t older_than_ms,
                       bool (*is_alive)(void *arg, const char *id), void *arg);
/* This history from here on is another sandbox's, too. */
int cay_history_copy(int dir_fd, const struct cay_history *from, const char *to_id,
                     struct cay_error *err);
/* How many files it has in memory as long as it is open. */
size_t cay_history_files(const struct cay_history *h);

/* Is it past so many bytes on the disk, or its journal past CAY_HISTORY_JOURNAL_BYTES? What did not
 * become a version counts as well. */
bool cay_history_is_full(struct cay_history *h, uint64_t bytes);

/* For a backup, while it may be written to: the same history in another directory of the same file
 * system. There is none: that is no error. */
int cay_history_save(int from_fd, const char *sandbox_id, int to_fd, struct cay_error *err);

/* One version, as the journal has it. Paths are quoted as git does where they are not plain. */
struct cay_version {
    const char *id; /* of the execution, or CAY_HISTORY_NO_ID */
    const char *commit;
    const char *message;
    int64_t time_ms;
    struct cay_strs files;    /* that it changed or brought, the first CAY_HISTORY_TOLD */
    struct cay_strs left_out; /* too large, ignored, or not to be read; likewise */
    int64_t file_count, left_out_count;
};
struct cay_versions {
    struct cay_version *at; /* newest first */
    size_t count;
    bool full; /* there will be no other; core sets it */
};
int cay_history_list(struct cay_history *h, struct cay_arena *a, struct cay_versions *out,
                     struct cay_error *err);

/* A new version is made in three steps: what is there now (cay_history_look says of which files the
 * content is wanted), those contents, and the end of it. Without the last nothing has happened. */
struct cay_history_file {
    const char *path;
    size_t path_len;
    uint32_t mode;
    uint64_t size, inode;
    int64_t mtime_ns, ctime_ns;
    bool stale;    /* its content is wanted */
    bool left_out; /* its content is not kept */
};
/* Of a whole workspace, at looked_at_ms; sorts them. What .gitignore files say is known of those
 * whose content was taken: look at these alone first, and take the stale ones. */
int cay_history_look_at_rules(struct cay_history *h, struct cay_history_file *files, size_t count,
                              int64_t looked_at_ms, struct cay_error *err);
int cay_history_look(struct cay_history *h, struct cay_history_file *files, size_t count,
                     int64_t looked_at_ms, struct cay_error *err);
bool cay_history_is_rules(const char *path); /* a .gitignore */
/* One whose name git refuses is left out. */
int cay_history_take(struct cay_history *h, struct cay_history_file *file, const void *data,
                     size_t len, struct cay_error *err);
struct cay_history_note {
    const char *id, *message;
    int64_t time_ms;
    const struct cay_strs *brought;       /* paths that count as changed whether they are or not */
    const struct cay_history_file *files; /* for what is left out */
    size_t count;
    bool always; /* also when nothing changed */
};
/* False in made: nothing had changed, and nothing was brought. */
int cay_history_commit(struct cay_history *h, const struct cay_history_note *note, bool *made,
                       char commit_out[CAY_COMMIT_SIZE], struct cay_error *err);
/* Is there a version with this id, of an execution or a commit? As cay_history_diff else. */
int cay_history_has(struct cay_history *h, const char *id, const char *field,
                    struct cay_error *err);

/* Between two versions, by execution or commit ids: for each file that differs its name and a
 * unified diff. CAY_ERR_NOT_FOUND, "EXECUTION_NOT_FOUND", with the field's name. */
struct cay_history_ask {
    const char *from, *to;             /* NULL: the first, the last */
    const char *from_field, *to_field; /* as the caller spells them */
};
typedef void (*cay_history_tell)(void *arg, const char *path, const char *diff, size_t len);
int cay_history_diff(struct cay_history *h, const struct cay_history_ask *ask,
                     cay_history_tell tell, void *arg, struct cay_error *err);

/* What must be done to the workspace, as it was looked at last, so that it is as a version has it;
 * of one path alone unless that is NULL. mode is as struct cay_file_put has it. */
typedef int (*cay_history_do)(void *arg, const char *path, uint32_t mode, const void *data,
                              size_t len, struct cay_error *err);
int cay_history_back(struct cay_history *h, const char *id, const char *id_field, const char *path,
                     cay_history_do step, void *arg, struct cay_error *err);
/* That was done, and the workspace is not looked at: the next version has it. */
int cay_history_went_back(struct cay_history *h, const char *id, const char *id_field,
                          const char *path, struct cay_error *err);

/* All of it as a git bundle. */
int cay_history_bundle(struct cay_history *h, int fd, struct cay_error *err);
