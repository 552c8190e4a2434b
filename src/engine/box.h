/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine knows of a sandbox, on disk: DATA/engine/records/<id>.
 *
 * It is there before the sandbox's first process may go on, and says what we are about to do before
 * we do it: an engine that comes after a crash finds every sandbox, and knows which ends were ours.
 */
#pragma once
#include "base/error.h"
#include "base/id.h"
#include "engine/message.h"
#include <sys/types.h>

enum cay_intent {
    CAY_INTENT_NONE,
    CAY_INTENT_STOP,
    CAY_INTENT_DESTROY,
};

struct cay_box_record {
    bool running;
    bool paused; /* as we left it; what the cgroup says counts */
    enum cay_intent intent;
    char volume[CAY_ID_SIZE]; /* with the intent to destroy: to keep /workspace as, or empty */
    bool drop_volume;         /* with it: not even one that was given at create is kept */
    pid_t pid;                /* of pid 1, on the host */
    uint64_t start_ticks;     /* its start time: with boot_id, who it really is */
    char boot_id[37];
    struct cay_engine_entry entry; /* id, times, and how it ended */
};

/* Ahead of the first save, where there is something to win by it; never fails. */
void cay_box_begin(int records_fd, const char *id);
int cay_box_save(int records_fd, const struct cay_box_record *r, struct cay_error *err);
/* Over one that is damaged as well. */
int cay_box_renew(int records_fd, const struct cay_box_record *r, struct cay_error *err);
/* CAY_ERR_NOT_FOUND when there is none: the sandbox was never finished. */
int cay_box_load(int records_fd, const char *id, struct cay_box_record *out, struct cay_error *err);
int cay_box_remove(int records_fd, const char *id, struct cay_error *err); /* gone is fine */
