/* SPDX-License-Identifier: Apache-2.0 */
/* Code history: versions are made when executions end, by a few threads of its own. */
#pragma once
#include "core/hold.h"
#include "core/waiter.h"
#include "history/history.h"
#include "model/execution.h"
#include "model/sandbox.h"
#include <pthread.h>

struct cay_core;
struct cay_tracked; /* an execution whose version is due */

struct cay_historian {
    int dir_fd; /* -1: nobody keeps any */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct cay_tracked *first; /* in the order they began */
    pthread_t threads[CAY_HISTORY_THREADS];
    int started;
    bool closing;
};

void cay_historian_init(struct cay_historian *all);
void cay_historian_done(struct cay_core *core);
/* One at a time is at a sandbox's history. */
int cay_history_hold(struct cay_core *core, const char *sandbox_id, struct cay_hold *hold,
                     struct cay_error *err);
/* All that is in the workspace now, as a version of its own if anything is new. */
int cay_history_commit_now(struct cay_core *core, const struct cay_sandbox *sb,
                           struct cay_history *h, struct cay_history_note *note, bool *made,
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
/* Its sandbox is gone. */
void cay_history_forget(struct cay_core *core, const char *sandbox_id);
/* An execution of one that keeps a history began; its version is made when it ends. */
void cay_history_expect(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                        const struct cay_exec_spec *spec);
