/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. Nobody outside includes it, but for tests. */
#pragma once
#include "core/batch.h"
#include "core/cache.h"
#include "core/fetch.h"
#include "core/history.h"
#include "core/hold.h"
#include "core/images.h"
#include "core/jobs.h"
#include "core/keyring.h"
#include "core/lease.h"
#include "core/maker.h"
#include "core/oom.h"
#include "core/ready.h"
#include "core/running.h"
#include "core/service.h"
#include "core/settle.h"
#include "core/shift.h"
#include <pthread.h>
#include <stdatomic.h>

#define CAY_SLOW_MAX 24 /* stops that may wait for their grace at once, each on a worker */

struct cay_core {
    struct cay_store *store;
    struct cay_provider *provider;
    struct cay_queue *events; /* deaths, pushed by the provider */
    int logs_fd;
    int data_fd;   /* see traffic.c; -1: there is none */
    int events_fd; /* -1: nobody keeps them */
    struct cay_audit *audit;
    uint8_t once_key[32];    /* see once.h */
    uint8_t secrets_key[32]; /* see seal.h */
    uint8_t token_key[32];   /* that sandboxes' tokens are signed with */
    struct cay_keyring keyring;
    char server[64];
    uint64_t host_memory_bytes;
    int64_t log_bytes;       /* that the logs of one sandbox may take */
    int64_t booted_at_ms;    /* the host */
    atomic_int slow;         /* operations that wait for a sandbox's grace, or copy for long */
    atomic_bool copies_long; /* the last copy of a sandbox's files was no matter of an instant */
    atomic_int awaiting;     /* commands that are waited for by whoever began them */
    atomic_int helpers;      /* threads that fork.c started */
    atomic_bool start_ends;  /* a sandbox may be running that ends with its start command */

    struct cay_holds holds;
    struct cay_cache cache;
    struct cay_oom oom;
    struct cay_settler settler;
    struct cay_maker maker;
    struct cay_fetcher fetcher;
    const struct cay_pairs *aliases; /* the operator's names for images; or NULL */
    struct cay_readier readier;
    struct cay_waiter waiter;
    struct cay_batcher batcher;
    struct cay_jobs jobs;
    struct cay_registry *registry; /* NULL: none is asked */
    enum cay_pull_policy pull_policy;
    int pulls_fd; /* where layers lie while they are fetched */
    struct cay_leases leases;
    struct cay_running running;
    struct cay_egress *egress; /* NULL: sandboxes have no network of ours */
    struct cay_historian historian;

    /* kept_reconcile.c, on the keeper's thread */
    struct cay_core_suspect *suspects; /* without a row at the last pass; malloc'ed */
    size_t suspect_count;
    struct cay_shifts shifts; /* shift.c, there too */

    /* keeper.c */
    bool kept;
    int64_t first_pause_ms; /* until the second reconcile; set before the threads begin */
    pthread_t events_thread, janitor_thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    bool closing;
    char trouble[160]; /* why the last reconcile did nothing; empty when it was well */
    bool trouble_in_store;
    int64_t look_at_ms; /* monotonic: a pass out of turn; 0 when none is wanted */
};

/* The row of the caller or of a team of his, where his role allows what the request does. This and
 * its like for snapshots (kept.c) are where ownership is decided. The sentence a stranger reads is
 * the same everywhere. */
int cay_core_find(struct cay_core *core, const struct cay_account *owner, const char *id,
                  struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err);
/* The same, held: the row as it is once nobody else is at it. */
int cay_core_find_held(struct cay_core *core, const struct cay_account *owner, const char *id,
                       struct cay_arena *a, struct cay_hold *hold, struct cay_sandbox *out,
                       struct cay_error *err);
/* Every row that fits the filter, over all pages, newest first; it is gone when `visit` returns, so
 * that no more of them than a page is in memory at once. */
typedef void (*cay_row_visit)(void *ctx, const struct cay_sandbox *sb);
int cay_core_walk(struct cay_core *core, const struct cay_account *owner,
                  struct cay_core_filter *filter, cay_row_visit visit, void *ctx,
                  struct cay_error *err);
/* cay_core_file for a row that was found before. */
int cay_core_file_in(struct cay_core *core, const struct cay_sandbox *sb,
                     struct cay_file_request *rq, struct cay_file_ends *out, struct cay_error *err);
/* A path in a sandbox, as callers may name one. */
int cay_core_check_path(const char *path, const char *field, struct cay_error *err);
/* What is asked for against what the host can give; what was left out is fitted to it. */
int cay_core_check_spec(struct cay_core *core, struct cay_spec *spec, struct cay_error *err);
/* A command, before anything is done about it. */
int cay_core_check_exec(const struct cay_exec_spec *spec, struct cay_error *err);
/* exec_files.c: what a command begins with, checked and written. */
int cay_core_check_files(const struct cay_exec_spec *spec, struct cay_error *err);
int cay_core_put_files(struct cay_core *core, const struct cay_sandbox *sb,
                       const struct cay_exec_spec *spec, struct cay_error *err);
/* What the store said belongs to somebody else, a sandbox or a snapshot: the team that has it, if
 * he may do what he came for. CAY_ERR_FORBIDDEN. */
int cay_core_find_team(struct cay_core *core, const struct cay_account *owner, const char *id,
                       struct cay_arena *a, const char **team_out, struct cay_error *err);
/* Execution as told by a log that is already open, facts of the host included. */
int cay_core_summary(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                     int log_fd, struct cay_arena *a, struct cay_execution *out,
                     struct cay_error *err);
/* Whether the log alone tells that it has exited; then *out is the same. */
bool cay_core_exited(struct cay_core *core, const struct cay_execution *begun, int log_fd,
                     struct cay_arena *a, struct cay_execution *out);
/* What a create knows beside its row. */
struct cay_awaited {
    char *login;                        /* for its source (core/source.h); or NULL */
    char image[CAY_MAX_IMAGE_NAME + 1]; /* that it waits for; empty: it has not waited for any */
    enum cay_pull_policy policy;        /* by which it looks for one */
    bool recheck;                       /* before all else the image's registry is asked */
    struct cay_error failed;            /* why it could not be had */
};
/* With an image in `awaited` that was not there before nothing is decided: the caller comes again
 * when the image is there, or with why it is not. */
/* The second half of a create whose row is there; the caller holds the id. One that must be ready
 * first, or has a source, takes hold and ticket. */
int cay_core_finish_create(struct cay_core *core, const char *account_id, const char *id,
                           int64_t began_ms, struct cay_hold *hold, struct cay_ticket **ticket,
                           struct cay_awaited *awaited, struct cay_error *err);
/* Its row says RUNNING, and all hear of it. */
int cay_core_say_made(struct cay_core *core, struct cay_sandbox *sb, int64_t began_ms,
                      struct cay_error *err);
/* As undo_create, for who has no other error to tell. */
void cay_core_take_back(struct cay_core *core, struct cay_sandbox *sb, const struct cay_error *why);
/* Takes back what a create made. The row of one that was answered stays, in error, with the reason;
 * any other is removed. */
int cay_core_undo_create(struct cay_core *core, struct cay_sandbox *sb, const char *why,
                         struct cay_error *err);
/* Runs the start command, if there is one; its execution id goes to sb->start_exec. */
int cay_core_run_start(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err);
/* inside.c: what is done in a sandbox that has just begun: the start command, or without one a look
 * whether there is such a user and such a directory. CAY_ERR_INVALID with the field. */
int cay_core_begin_inside(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err);
/* The row of a sandbox that was started again. */
void cay_core_mark_started(struct cay_sandbox *sb, int64_t started_at_ms);
/* Once its row says RUNNING: the keeper looks after it when it ends with its start command, or has
 * a lease. */
static inline void cay_core_mind_start(struct cay_core *core, const struct cay_sandbox *sb)
{
    cay_lease_renew(core, sb);
    if (sb->spec.stop_when_start_ends)
        atomic_store(&core->start_ends, true);
}
/* Ports that have no time yet were exposed now. */
void cay_core_date_ports(struct cay_spec *spec);
/* A row whose caller goes on without it: a failure is logged, reconcile mends it. */
void cay_core_note(struct cay_core *core, struct cay_sandbox *sb, enum cay_durable durable);
/* Appends to the account's events what the sandbox's row says now; type NULL: the word for its
 * state. A failure is logged: what happened has happened. */
void cay_core_tell(struct cay_core *core, const struct cay_sandbox *sb, const char *type);
/* What the server did by itself: the row says why. */
void cay_core_record_own(struct cay_core *core, const struct cay_sandbox *sb, const char *action);
void cay_core_tell_snapshot(struct cay_core *core, const struct cay_sandbox *sb, const char *id);
#define CAY_HOST_RESTARTED "the host was restarted"
/* The three ways down, for a row that the caller holds. */
/* `why` without figures: what was used is added. Kept is how it ended if it had ended before. */
int cay_core_stop_held(struct cay_core *core, struct cay_sandbox *sb, const struct cay_death *why,
                       int64_t grace_ms, struct cay_error *err);
/* How it had ended before is kept here, too, and the row's strings are `a`'s then. */
int cay_core_delete_held(struct cay_core *core, struct cay_sandbox *sb, const char *reason,
                         const char *message, struct cay_arena *a, struct cay_error *err);
int cay_core_died_held(struct cay_core *core, struct cay_sandbox *sb, const struct cay_death *death,
                       int64_t ended_at_ms, struct cay_arena *a, struct cay_error *err);
/* A sandbox whose files are to be copied: beside others who do the same, while nobody moves it. */
int cay_core_share(struct cay_core *core, const struct cay_account *owner, const char *id,
                   struct cay_arena *a, struct cay_hold *hold, struct cay_sandbox *out,
                   struct cay_error *err);
/* The row is there and the sandbox is not (CAY_ERR_NOT_FOUND from the provider): reconcile will say
 * so, the caller hears it now. */
int cay_core_gone(const char *verb, const char *id, int r, struct cay_error *err);
/* Where copies take long they are counted with the slow stops, so that some workers are always
 * left for others. */
int cay_core_copy_begin(struct cay_core *core, struct cay_core **out, struct cay_error *err);
void cay_core_copy_took(struct cay_core *core, const struct cay_copied *copied);
void cay_core_copy_end(struct cay_core **core);
#define CAY_AUTO_COPY CAY_CLEANUP(cay_core_copy_end)
