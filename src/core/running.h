/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of what has no rows: commands at once, and what logs take. They are counted only of
 * accounts that have such a quota. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "model/access.h"
#include "model/limits.h"
#include "model/sandbox.h"
#include <pthread.h>

struct cay_core;

/* Most accounts have none of these quotas, and every command would ask. */
struct cay_unbounded {
    char id[CAY_ID_SIZE];
    int64_t look_again_ms; /* monotonic */
};

struct cay_running {
    pthread_mutex_t lock; /* of the list, where each account has its own, and of what is up to it */
    struct cay_running_account *first;
    struct cay_unbounded unbounded[CAY_UNBOUNDED]; /* by hash; who shares a slot asks again */
    uint64_t turn;                                 /* rises with every quota that is set */
    pthread_mutex_t weighing; /* who holds it weighs the logs, and writes what follows */
    pthread_mutex_t weights;
    struct cay_buf weighed; /* struct cay_log_holder */
    int64_t weighed_at_ms;  /* monotonic; 0: never */
};

void cay_running_init(struct cay_running *r);
void cay_running_done(struct cay_running *r);
/* One command more of the account that has this sandbox. CAY_ERR_LIMIT, "QUOTA_EXCEEDED".
 * The caller holds its id until it runs, or it is taken for ended. */
int cay_running_add(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                    struct cay_error *err);
/* It did not begin after all. */
void cay_running_drop(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id);
/* The account's quota is another from now on: what runs is counted anew. */
void cay_running_forget(struct cay_core *core, const char *account_id);
/* Fills in what only this file knows. */
int cay_running_usage(struct cay_core *core, const struct cay_holder *holder,
                      struct cay_quota *used, struct cay_error *err);
