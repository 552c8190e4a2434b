/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of history share.
 *
 *   repo.c     opening, the journal
 *   commit.c   a new version
 *   pack.c     a large one's objects
 *   ignore.c   what a .gitignore leaves out
 *   compare.c  diffs, the way back
 *   bundle.c   all of it as one file */
#pragma once
#include "history/git.h"
#include "history/history.h"
#include "model/limits.h"
#include <limits.h>

struct cay_history {
    int fd;        /* its directory */
    char path[48]; /* the same, for libgit2 */
    int journal_fd;
    git_repository *repo;
    git_odb *odb;
    git_index *index;
    struct cay_pack *pack; /* the objects' own */
    size_t unwritten;      /* entries of the index that are not on the disk as they are now */
    uint64_t taken_bytes;  /* since the last version */
    uint64_t bytes;        /* on the disk, or more: what is written counts before it is packed */
    uint64_t full_at;      /* a bound that it was found to be past; 0: none */
    int64_t looked_at_ns;
    bool has_head;
    git_oid head; /* of the newest version */
};

/* libgit2's own message becomes the cause. */
int cay_history_fail(struct cay_error *err, const char *what);
/* repo.c */
void cay_history_write_bytes(const struct cay_history *h);
int cay_index_write(struct cay_history *h, struct cay_error *err);
int cay_journal_add(struct cay_history *h, const struct cay_version *v, struct cay_error *err);
/* bundle.c: what its files take on the disk. */
uint64_t cay_history_measure(const struct cay_history *h);
/* The commit that an id of the journal stands for. */
int cay_history_find(struct cay_history *h, const char *id, const char *field, git_oid *out,
                     struct cay_error *err);
/* The tree of a commit; NULL stands for none. */
int cay_history_tree(struct cay_history *h, const git_oid *commit, git_tree **out,
                     struct cay_error *err);
/* A path as it can be told: as it is, or in quotes as git would. */
const char *cay_history_quote(struct cay_arena *a, const char *path, size_t len);

#define CAY_PACK_DRAFT "draft" /* its name until it is whole */
/* pack.c: one is begun for a version that is large, and takes all its objects until it ends. */
int cay_pack_new(struct cay_history *h); /* one more of its odb's; negative as libgit2 is */
bool cay_pack_is_open(const struct cay_pack *p);
int cay_pack_begin(struct cay_pack *p, struct cay_error *err); /* again: goes on */
/* Its id is that of its bytes; negative as libgit2 is. */
int cay_pack_add_blob(struct cay_pack *p, const git_oid *id, const void *data, size_t len);
/* On the disk, and found there; nothing if none was begun. */
int cay_pack_end(struct cay_pack *p, struct cay_error *err);

/* ignore.c */
struct cay_ignore_rule {
    const char *base; /* directory of its file, "" or with a slash at the end */
    size_t base_len;
    const char *pattern;
    bool negated, only_dirs, anchored;
};
struct cay_ignore {
    struct cay_ignore_rule *at; /* the later wins */
    size_t count, cap;
    uint64_t steps;      /* that were taken; past CAY_HISTORY_RULE_STEPS nothing fits any more */
    char kept[PATH_MAX]; /* a path none of whose directories is ignored: the last one */
};
/* base is the .gitignore's path without its name. */
void cay_ignore_add(struct cay_arena *a, struct cay_ignore *rules, const char *base,
                    const char *text, size_t len);
bool cay_ignore_has(struct cay_ignore *rules, const char *path);
bool cay_ignore_is_spent(const struct cay_ignore *rules); /* then it does not know */
