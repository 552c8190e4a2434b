/* SPDX-License-Identifier: Apache-2.0 */
/* Batches under way. Their items are begun and finished by a few threads and waited for by the
 * waiter; what is told of them goes to a file, LOGS/batches/<id>, which answers follow: so nobody
 * waits for a client that does not read.
 *
 * The file begins with the fingerprint of the request and a newline, then come lines, and behind
 * the last one a NUL. A file without it, of a batch that does not run, is one that was cut by the
 * server's end: what it had made is removed at the next start, and the file too. */
#pragma once
#include "base/queue.h"
#include "core/service.h"
#include "core/share.h"
#include "core/waiter.h"
#include "model/limits.h"
#include <stdatomic.h>

#define CAY_BATCH_LABEL "cay-batch:" /* and the batch's id: a sandbox that goes with it */
#define CAY_BATCH_JOBS (CAY_BATCHES * CAY_BATCH_CONCURRENCY)

struct cay_batch;

/* One of the places that a batch's concurrency gives it. */
struct cay_batch_slot {
    struct cay_wait wait; /* first: what ended is this slot's */
    struct cay_batch *batch;
    size_t index;              /* of the item that runs, or the sandbox that is made */
    struct cay_ticket *ticket; /* of a sandbox that is made elsewhere; else NULL */
    bool running;
};

struct cay_batch_made {
    char id[CAY_ID_SIZE];  /* empty: it could not be made */
    struct cay_error *err; /* why; malloc'ed */
};

enum cay_batch_phase { CAY_BATCH_MAKES, CAY_BATCH_RUNS, CAY_BATCH_REMOVES, CAY_BATCH_DONE };

struct cay_batch {
    struct cay_batch *next;
    struct cay_core *core;
    char id[CAY_ID_SIZE];
    struct cay_account owner;
    struct cay_arena arena; /* of all that was asked */
    struct cay_batch_spec spec;
    cay_batch_shape shape;
    size_t bytes; /* of the request */
    size_t sandbox_count, items;
    struct cay_batch_made *made;
    int64_t began_ms;

    int phase;                /* moved by the last slot that finds nothing more to do */
    atomic_size_t next_index; /* in this phase */
    atomic_size_t active;     /* slots */
    struct cay_batch_slot *slots;
    size_t slot_count;
    atomic_size_t succeeded, failed;

    pthread_mutex_t lock; /* guards what follows */
    int fd;
    uint64_t len;
    size_t lost; /* lines the disk did not take */
};

struct cay_batcher {
    pthread_mutex_t lock; /* guards what follows */
    struct cay_batch *first;
    struct cay_shares places, bytes;
    int started;
    bool cleaning;

    struct cay_queue jobs; /* slots */
    pthread_t threads[CAY_BATCH_THREADS], cleaner;
    atomic_bool closing;
};

void cay_batcher_init(struct cay_batcher *b);
/* Looks for batches that were cut, and removes what they made, on a thread of its own. */
int cay_batcher_start(struct cay_core *core, struct cay_error *err);
/* Begins nothing more. What runs in sandboxes goes on; the batch is one that was cut. */
void cay_batcher_stop(struct cay_core *core);
void cay_batcher_done(struct cay_batcher *b);

/* Removes what a batch that was cut has made, and its file; any other stays as it is. */
int cay_batch_clear(struct cay_core *core, const char *id, struct cay_error *err);

/* Its place, under the lock. */
void cay_batch_give_back(struct cay_batcher *all, const char *account_id, size_t bytes);

/* batch_run.c */
void cay_batch_tell(struct cay_batch *b, struct cay_batch_event e);
/* Now or, where that fails, by the keeper; an error when not even that could be written down. */
int cay_batch_remove(struct cay_core *core, const struct cay_account *owner, const char *id,
                     struct cay_error *err);
/* Its slots go to work; the last phase frees it. */
void cay_batch_next_phase(struct cay_batch *b);
void cay_batch_slot_ended(struct cay_core *core, struct cay_wait *w);
void *cay_batch_main(void *core); /* of a thread that works on slots */
void cay_batch_free(struct cay_batch *b);

/* batch_file.c */
/* The file of a batch that ran or runs: CAY_ERR_NOT_FOUND; CAY_ERR_UNPROCESSABLE when it was begun
 * by another request. `whole` tells of its end. */
int cay_batch_file_find(struct cay_core *core, const char *id, const struct cay_once *once,
                        bool *whole, int *fd_out, struct cay_error *err);
int cay_batch_file_create(struct cay_core *core, const char *id, const struct cay_once *once,
                          int *write_fd_out, int *read_fd_out, struct cay_error *err);
/* A line, whole or not at all. */
void cay_batch_file_add(struct cay_batch *b, const struct cay_buf *line);
bool cay_batch_file_end(struct cay_batch *b);
void cay_batch_file_remove(struct cay_core *core, const char *id);
/* Ids of those without an end. */
int cay_batch_file_cut(struct cay_core *core, struct cay_arena *a, struct cay_strs *out,
                       struct cay_error *err);
/* Whether it is there without an end, as one that runs is too. */
bool cay_batch_file_is_cut(struct cay_core *core, const char *id);
/* Removes those with an end that old. */
void cay_batch_file_sweep(struct cay_core *core, int64_t older_than_ms);
