/* SPDX-License-Identifier: Apache-2.0 */
/* Where logs lie: LOGS/<shelf>/<sandbox>/<execution>.log, and the host's own facts beside them in
 * <execution>.fact, which win over what the log says. The directory is the server's own. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "model/execution.h"

/* Once, before anything else: sandboxes' directories that an older program left beside the shelves
 * are put onto them. */
void cay_log_shelve(int logs_fd);
/* Makes the log with its SPEC record; the descriptor is O_RDWR and may go to a pid 1. When the disk
 * is full the reserve is given up for it. */
int cay_log_create(int logs_fd, const char *sandbox_id, const char *exec_id,
                   const struct cay_exec_spec *spec, int *fd_out, struct cay_error *err);
/* For reading. CAY_ERR_NOT_FOUND, "EXECUTION_NOT_FOUND". Ids are checked for their form. */
int cay_log_open(int logs_fd, const char *sandbox_id, const char *exec_id, int *fd_out,
                 struct cay_error *err);
/* What the host saw: reason is a word of [a-z_] such as "oom" or "lost". */
struct cay_log_fact {
    char reason[16];
    int64_t time_ms;
    char process[16]; /* who was killed for want of memory; plain text, or empty: not known */
};
int cay_log_fact_write(int logs_fd, const char *sandbox_id, const char *exec_id,
                       const struct cay_log_fact *fact, struct cay_error *err);
bool cay_log_fact_read(int logs_fd, const char *sandbox_id, const char *exec_id,
                       struct cay_log_fact *out);
/* Wakes whoever follows a file without a byte being added to what it says. */
void cay_log_touch(int fd);
/* Ids of a sandbox's executions, newest first. A sandbox without any is an empty list. */
int cay_log_list(int logs_fd, const char *sandbox_id, struct cay_arena *a, struct cay_strs *out,
                 struct cay_error *err);
/* Keeps room for logs to come, LOGS/reserve, or takes it again once there is enough; never fails.
 */
void cay_log_hold_reserve(int logs_fd);
/* All that a sandbox's logs hold; it grows with whatever its commands write. */
uint64_t cay_log_written(int logs_fd, const char *sandbox_id);
/* Removes a log (a command that never began) or all of a sandbox. Gone already is no error. */
void cay_log_remove(int logs_fd, const char *sandbox_id, const char *exec_id);
void cay_log_remove_all(int logs_fd, const char *sandbox_id);
/* What all logs take on the disk. Looks at every file. */
int64_t cay_log_bytes(int logs_fd);
/* Removes the logs of ended sandboxes whose newest write is that long ago (an age). */
void cay_log_sweep(int logs_fd, int64_t older_than_ms, bool (*is_alive)(void *arg, const char *id),
                   void *arg);
/* One log, and what it takes on the disk. */
struct cay_log_weight {
    char sandbox_id[CAY_ID_SIZE], exec_id[CAY_ID_SIZE];
    int64_t written_ms, bytes;
    size_t holder; /* the caller's own */
};
/* Adds one of these for each log there is, those of a sandbox side by side. */
void cay_log_weigh(int logs_fd, struct cay_buf *out);
