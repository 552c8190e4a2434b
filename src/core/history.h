/* SPDX-License-Identifier: Apache-2.0 */
/* Code history: versions are made when executions end, by a few threads of its own. */
#pragma once
#include "core/hold.h"
#include "core/waiter.h"
#include "history/history.h"
#include "model/execution.h"
#include "model/limits.h"
#include "model/sandbox.h"
#include <pthread.h>
#include <stdatomic.h>

struct cay_core;
struct cay_tracked; /* an execution whose version is due */

struct cay_historian {
    int dir_fd; /* -1: nobody keeps any */
    int due_fd; /* where it is told which versions are due */
    uint64_t due_bytes;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct cay_tracked *first; /* in the order they began */
    struct {
        char id[CAY_ID_SIZE];
        struct cay_history *h;
    } open[CAY_HISTORY_OPEN]; /* at which nobody is; the last one was used last */
    size_t open_count;
    pthread_t threads[CAY_HISTORY_THREADS];
    int started;
    atomic_int awaiting;
    int bundles[CAY_HISTORY_BUNDLES]; /* pipes: broken ones are of bundles that were fetched */
    bool closing;
};

void cay_historian_init(struct cay_historian *all);
int cay_historian_open(struct cay_historian *all, int data_fd, struct cay_error *err);
void cay_historian_done(struct cay_core *core);

bool cay_history_is_kept(const struct cay_core *core, const struct cay_sandbox *sb);
/* Of the files that executions bring alone, not of all that is in the workspace? */
bool cay_history_is_of_files(const struct cay_sandbox *sb);

/* One at a time is at a sandbox's history: it is held, and open. Some of those that were used last
 * stay so. `make` as in cay_history_open. */
struct cay_history_turn {
    struct cay_core *core;
    struct cay_hold hold;
    char id[CAY_ID_SIZE];
    struct cay_history *h;
    bool half_done; /* what is in memory is not what is on the disk: the next one opens it anew */
};
int cay_history_turn_begin(struct cay_core *core, const char *sandbox_id, bool make,
                           struct cay_history_turn *t, struct cay_error *err);
/* The same in two steps. */
int cay_history_hold(struct cay_core *core, const char *sandbox_id, struct cay_hold *out,
                     struct cay_error *err);
int cay_history_turn_open(struct cay_core *core, const char *sandbox_id, bool make,
                          struct cay_history_turn *t, struct cay_error *err);
void cay_history_turn_end(struct cay_history_turn *t);
#define CAY_AUTO_HISTORY_TURN CAY_CLEANUP(cay_history_turn_end)

/* Then there are no new versions: CAY_ERR_TOO_LARGE, "HISTORY_FULL". */
bool cay_history_has_room(struct cay_history *h, const struct cay_sandbox *sb);

/* All that is in the workspace now, as a version of its own if anything is new. */
int cay_history_commit_now(struct cay_history_turn *t, const struct cay_sandbox *sb,
                           struct cay_history_note *note, bool *made,
                           char commit_id[CAY_COMMIT_SIZE], struct cay_error *err);
/* A sandbox that keeps a history and runs for the first time: its first version. What fails is
 * logged: the sandbox is well without. */
void cay_history_begin(struct cay_core *core, const struct cay_sandbox *sb);
/* As above, with all that the source's has. One whose spec says at which version goes back to it,
 * and fails if it cannot. */
int cay_history_fork(struct cay_core *core, const char *from_id, const struct cay_sandbox *sb,
                     struct cay_error *err);
/* CAY_ERR_NOT_FOUND when there is no such version. */
int cay_history_check(struct cay_core *core, const char *sandbox_id, const char *version,
                      struct cay_error *err);
int cay_history_go_back(struct cay_core *core, const struct cay_sandbox *sb, const char *version,
                        struct cay_error *err);
/* One more: it is under way until end_fd is closed. CAY_ERR_UNAVAILABLE when there are too many. */
int cay_history_bundle_begin(struct cay_historian *all, int *end_fd_out, struct cay_error *err);
/* Its sandbox is gone. */
void cay_history_forget(struct cay_core *core, const char *sandbox_id);

/* An execution is about to begin; its version will be due when it ends. NULL: there will be none.
 * Then it did begin, or did not. */
struct cay_tracked *cay_history_expect(struct cay_core *core, const struct cay_sandbox *sb,
                                       const char *exec_id, const struct cay_exec_spec *spec);
void cay_history_began(struct cay_core *core, struct cay_tracked *t, bool began);
/* Versions that were due when an earlier server ended. */
int cay_history_resume(struct cay_core *core, struct cay_error *err);
/* Returns when all executions that have ended have their versions; or after a while, and at once
 * where many wait. */
void cay_history_await(struct cay_core *core, const char *sandbox_id);
