/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for the ends of executions without a thread for each: one thread watches all their logs.
 */
#pragma once
#include "base/error.h"
#include "base/id.h"
#include "log/reader.h"
#include <pthread.h>
#include <stdbool.h>

struct cay_core;

struct cay_wait {
    struct cay_wait *next;
    struct cay_reader reader; /* holds the log */
    int wd;
    char sandbox_id[CAY_ID_SIZE], exec_id[CAY_ID_SIZE];
    /* Called once, on the waiter's thread or within cay_wait_for. The wait is not in use any more.
     */
    void (*ended)(struct cay_core *core, struct cay_wait *w);
};

struct cay_waiter {
    pthread_mutex_t lock;
    struct cay_wait *first;
    int inotify_fd, wake_fd;
    pthread_t thread;
    bool running, closing;
};

void cay_waiter_init(struct cay_waiter *w);
int cay_waiter_start(struct cay_core *core, struct cay_error *err); /* again is no error */
void cay_waiter_done(struct cay_waiter *w);                         /* nobody is told any more */
/* Until the log of w's execution has its exit record, or none will come. Takes the descriptor; w is
 * the caller's, with ids and `ended` set, and stays where it is. */
void cay_wait_for(struct cay_core *core, struct cay_wait *w, int log_fd);
/* Whoever has ended in a sandbox by now is known to have on return. */
void cay_wait_look(struct cay_core *core, const char *sandbox_id);
