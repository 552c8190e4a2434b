/* SPDX-License-Identifier: Apache-2.0 */
/* All that a dialect may ask for. Ownership is decided here and nowhere else: an id nobody knows is
 * CAY_ERR_NOT_FOUND ("sandbox not found"), another account's is CAY_ERR_FORBIDDEN. `id` is an id or
 * the name of a living sandbox of the caller's account. What comes back lives in the arena. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "core/access.h"
#include "core/images.h"
#include "core/ports.h"
#include "history/history.h"
#include "log/audit.h"
#include "log/record.h"
#include "model/account.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/execution.h"
#include "model/kept.h"
#include "model/sandbox.h"
#include "provider/provider.h"
#include "store/store.h"

struct cay_core;
struct cay_ticket;

/* Opens store, provider and logs as the configuration says, and begins to keep the house: events,
 * reconcile, expiry. */
int cay_core_open(const struct cay_config *cfg, struct cay_core **out, struct cay_error *err);
/* As above with parts already opened, for tests; takes them over, the queue as malloc'ed. logs_fd
 * is a directory. The house is not kept before cay_core_keep. */
int cay_core_new(const struct cay_config *cfg, struct cay_store *store,
                 struct cay_provider *provider, struct cay_queue *events, int logs_fd,
                 struct cay_core **out, struct cay_error *err);
/* Reconciles, then starts the threads that go on doing so. To be called before requests come. */
int cay_core_keep(struct cay_core *core, struct cay_error *err);
/* Where records of what happens are kept from now on; part of cay_core_open. */
int cay_core_open_records(struct cay_core *core, int data_fd, struct cay_error *err);
void cay_core_close(struct cay_core *core); /* sandboxes stay */

/* The record of who did what, see log/audit.h. A line that cannot be written is logged. */
void cay_core_record(struct cay_core *core, const struct cay_audit_entry *e);
int cay_core_records(struct cay_core *core, const struct cay_audit_filter *filter,
                     struct cay_arena *a, struct cay_audit_page *out, struct cay_error *err);
/* The account's events, see log/events.h. */
int cay_core_events(struct cay_core *core, const struct cay_account *owner, int *fd_out,
                    struct cay_error *err);

struct cay_core_health {
    bool healthy, degraded; /* neither: unhealthy */
    const char *version, *store_name, *store_version, *store_error;
    const char *provider_name, *provider_error;
    struct cay_health provider;
};
/* How disks are limited: "xfs", "btrfs", "loop-btrfs", "loop-xfs", "none". Cheap. */
const char *cay_core_disk(struct cay_core *core);
const char *cay_core_isolation(struct cay_core *core); /* "native", "docker" */
const char *cay_core_provider(struct cay_core *core);  /* its name, as --provider takes it */
void cay_core_health(struct cay_core *core, struct cay_arena *a, struct cay_core_health *out);

/* It runs on return; or a ticket comes out, when it must be ready first or its image has to be had
 * first, and is then as with begin_create. */
int cay_core_make(struct cay_core *core, const struct cay_account *owner,
                  const struct cay_spec *spec, struct cay_arena *a, struct cay_sandbox *out,
                  struct cay_ticket **ticket_out, struct cay_error *err);
/* For who does not wait: the row, PENDING. It becomes RUNNING, or ERROR with the reason. When too
 * many are being made CAY_ERR_UNAVAILABLE, "TOO_MANY_CREATES". With ticket_out for who waits, but
 * not here: a failure is the ticket's, and then nothing is left; no ticket: it is there already. */
int cay_core_begin_create(struct cay_core *core, const struct cay_account *owner,
                          const struct cay_spec *spec, struct cay_arena *a, struct cay_sandbox *out,
                          struct cay_ticket **ticket_out, struct cay_error *err);
/* What was told the caller of a create with spec.once; who asks again is told the same. A failure
 * is logged: then it is the sandbox as it is by then. */
void cay_core_answered(struct cay_core *core, const struct cay_sandbox *sb, const char *answer);
int cay_core_get(struct cay_core *core, const struct cay_account *owner, const char *id,
                 struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err);
/* row.account_id is filled in here. */
struct cay_core_filter {
    struct cay_list_filter row;
    const char *team_id;  /* or NULL */
    struct cay_strs tags; /* "name:value"; must have all */
};
int cay_core_list(struct cay_core *core, const struct cay_account *owner,
                  struct cay_core_filter *filter, struct cay_arena *a, struct cay_sandbox_list *out,
                  struct cay_error *err);
int cay_core_start(struct cay_core *core, const struct cay_account *owner, const char *id,
                   struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err);
/* The same, but one that must be ready first gives a ticket, and the row as it was. */
int cay_core_begin_start(struct cay_core *core, const struct cay_account *owner, const char *id,
                         struct cay_arena *a, struct cay_sandbox *out,
                         struct cay_ticket **ticket_out, struct cay_error *err);
int cay_core_stop(struct cay_core *core, const struct cay_account *owner, const char *id,
                  int64_t grace_ms, struct cay_arena *a, struct cay_sandbox *out,
                  struct cay_error *err);
/* Every process stands still, or goes on. Expiry does not wait for a paused one. */
int cay_core_pause(struct cay_core *core, const struct cay_account *owner, const char *id,
                   struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err);
int cay_core_resume(struct cay_core *core, const struct cay_account *owner, const char *id,
                    struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err);
/* Starts a persistent one that is STOPPED, as above; any other is as `get` tells it. */
int cay_core_wake(struct cay_core *core, const struct cay_account *owner, const char *id,
                  struct cay_arena *a, struct cay_sandbox *out, struct cay_ticket **ticket_out,
                  struct cay_error *err);
/* What an update names; what is NULL stays as it is. Collections are replaced whole, but secrets
 * one by one: a value of NULL removes it. */
struct cay_change {
    const char *name;
    const struct cay_strs *labels;
    const struct cay_pairs *tags, *env, *secrets;
    const struct cay_port *ports; /* CAY_MAX_PORTS of them, port_count used */
    size_t port_count;
    const char *track;
    const int64_t *timeout_ms; /* from its start; CAY_ERR_CONFLICT, "TIMEOUT_PASSED" */
    const int64_t *idle_ms, *lease_ms;
    const unsigned *idle_when;
    const uint32_t *cpu_milli;
    const uint64_t *memory_bytes, *disk_bytes;
    bool memory_by_vcpus;              /* who asked for so many cores asked for so much */
    const struct cay_network *network; /* its generation is one more than it was */
    /* That must be the present one, or nothing is changed: CAY_ERR_CONFLICT, "GENERATION_PASSED".
     */
    const uint64_t *generation;
};
/* All of it or nothing. A running one has its new limits on return, unless it has more already:
 * CAY_ERR_CONFLICT, "MEMORY_IN_USE" or "DISK_IN_USE". One that rests has them at its next start. */
int cay_core_update(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const struct cay_change *change, struct cay_arena *a, struct cay_sandbox *out,
                    struct cay_error *err);
/* What a sandbox wanted of the network since its start, newest first, and the smallest policy that
 * allows it. It is forgotten when the server ends. */
struct cay_want {
    const char *name, *address; /* either may be NULL */
    uint16_t port;              /* 0: a name was asked for, and nothing else */
    const char *verdict;        /* as cay_verdict_text has it */
    bool failed;                /* allowed, but the last one did not come about */
    bool open_to_policy;        /* false: no policy of the caller's can allow it */
    uint64_t count, sent_bytes, received_bytes, injected;
    int64_t first_ms, last_ms;
};
struct cay_wants {
    struct cay_sandbox sandbox;
    struct cay_want *at;
    size_t count;
    struct cay_network proposal;
};
int cay_core_wants(struct cay_core *core, const struct cay_account *owner, const char *id,
                   struct cay_arena *a, struct cay_wants *out, struct cay_error *err);
/* The generation of the policy that holds now; 0: there is no way out yet. */
uint64_t cay_core_network_applied(struct cay_core *core, const struct cay_sandbox *sb);
/* It may live so long from now, if that is later than it was (0: for ever); or has another lease.
 * Either may be NULL. */
int cay_core_extend(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const int64_t *timeout_ms, const int64_t *lease_ms, struct cay_arena *a,
                    struct cay_sandbox *out, struct cay_error *err);
/* A call about a sandbox that lasts, beyond the one that found it: its lease does not lapse, and it
 * is not idle, before the same number of leaves. False: nothing is counted, no leave is due. */
bool cay_core_attend(struct cay_core *core, const char *sandbox_id);
void cay_core_leave(struct cay_core *core, const char *sandbox_id);
enum cay_workspace {
    CAY_WORKSPACE_AS_IT_IS, /* a volume that was given at create stays, its own files go */
    CAY_WORKSPACE_KEPT,     /* stays as a volume: out.keeps */
    CAY_WORKSPACE_GONE,     /* goes, also when it was a volume before */
};
int cay_core_delete(struct cay_core *core, const struct cay_account *owner, const char *id,
                    enum cay_workspace workspace, struct cay_arena *a, struct cay_sandbox *out,
                    struct cay_error *err);
/* So many new sandboxes with a copy of this one's files, all or none. spec is complete (see
 * cay_spec_fork) but for from. A name is numbered when there are several. With spec.once whoever
 * asks again finds those of the first time, and the first one has what was answered. */
int cay_core_fork(struct cay_core *core, const struct cay_account *owner, const char *id,
                  const struct cay_spec *spec, size_t count, struct cay_arena *a,
                  struct cay_sandbox_list *out, struct cay_error *err);

/* Snapshots and volumes. CAY_ERR_NOT_FOUND is "SNAPSHOT_NOT_FOUND" or "VOLUME_NOT_FOUND"; a volume
 * that a sandbox has is CAY_ERR_CONFLICT, "VOLUME_IN_USE". With wish.once whoever asks again finds
 * the first one, replayed, while that is kept. */
int cay_core_snapshot(struct cay_core *core, const struct cay_account *owner, const char *id,
                      const struct cay_snapshot_wish *wish, struct cay_arena *a,
                      struct cay_kept *out, struct cay_error *err);
int cay_core_kept(struct cay_core *core, const struct cay_account *owner, enum cay_kept_kind kind,
                  const char *id, struct cay_arena *a, struct cay_kept *out, struct cay_error *err);
/* filter.account_id is filled in here. */
int cay_core_kept_list(struct cay_core *core, const struct cay_account *owner,
                       struct cay_kept_filter *filter, struct cay_arena *a,
                       struct cay_kept_list *out, struct cay_error *err);
int cay_core_kept_delete(struct cay_core *core, const struct cay_account *owner,
                         enum cay_kept_kind kind, const char *id, struct cay_arena *a,
                         struct cay_kept *out, struct cay_error *err);
/* What a running one uses; false when it does not run or cannot tell. */
bool cay_core_usage(struct cay_core *core, const struct cay_sandbox *sb, struct cay_stats *out);
/* The same for who must have it: at most CAY_STATS_MIN_MS old; percent is since the last reading by
 * anybody. CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING". */
int cay_core_stats(struct cay_core *core, const struct cay_sandbox *sb, struct cay_stats *out,
                   struct cay_error *err);
/* The next reading of whoever follows: percent is since the one that is in `stats`. Those who
 * follow the same sandbox share readings. A sandbox that does not run any more is CAY_ERR_CONFLICT
 * or CAY_ERR_NOT_FOUND. */
int cay_core_stats_next(struct cay_core *core, const char *sandbox_id, struct cay_stats *stats,
                        struct cay_error *err);
/* How the start command ended; false while it runs or when there is none. Both are at most a second
 * old, and cheap. */
bool cay_core_start_exit(struct cay_core *core, const struct cay_sandbox *sb,
                         struct cay_record_exit *out);

/* Begins a command; fd_out, unless NULL, takes its log, to read and to follow. */
int cay_core_exec(struct cay_core *core, const struct cay_account *owner, const char *id,
                  const struct cay_exec_spec *spec, struct cay_arena *a, struct cay_execution *out,
                  int *fd_out, struct cay_error *err);
/* Newest first, one page of all. */
struct cay_execution_list {
    struct cay_execution *at;
    size_t count;
    int64_t total;
};
int cay_core_executions(struct cay_core *core, const struct cay_account *owner, const char *id,
                        int64_t page, int64_t per_page, struct cay_arena *a,
                        struct cay_execution_list *out, struct cay_error *err);
/* What log and host say of it; fd_out, unless NULL, takes the log, to read and to follow. */
int cay_core_execution(struct cay_core *core, const struct cay_account *owner, const char *id,
                       const char *exec_id, struct cay_arena *a, struct cay_execution *out,
                       int *fd_out, struct cay_error *err);
/* The same of one that this caller began. */
int cay_core_outcome(struct cay_core *core, const struct cay_account *owner,
                     const struct cay_execution *begun, struct cay_arena *a,
                     struct cay_execution *out, int *fd_out, struct cay_error *err);
int cay_core_kill(struct cay_core *core, const struct cay_account *owner, const char *id,
                  const char *exec_id, int signal, struct cay_arena *a, struct cay_execution *out,
                  struct cay_error *err);
/* Removes what is known of an execution that ended: CAY_ERR_CONFLICT "EXECUTION_RUNNING", and for
 * the start command of a sandbox that lives "START_COMMAND". */
int cay_core_forget(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const char *exec_id, struct cay_error *err);
/* A new way into the stdin of an execution that was begun with one; both ends are non-blocking, and
 * yours. Closing the sink ends this input; stdin is closed with it only if `closes` was said, and a
 * byte was written to the other end before. CAY_ERR_CONFLICT "EXECUTION_NOT_RUNNING",
 * "STDIN_CLOSED"; CAY_ERR_LIMIT "TOO_MANY_INPUTS". */
struct cay_input_ends {
    int sink_fd, end_fd; /* end_fd is -1 unless `closes` */
};
int cay_core_input(struct cay_core *core, const struct cay_account *owner, const char *id,
                   const char *exec_id, bool closes, struct cay_input_ends *out,
                   struct cay_error *err);
/* CAY_ERR_CONFLICT, "NO_TERMINAL". */
int cay_core_resize(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const char *exec_id, struct cay_window window, struct cay_error *err);

/* Begins one operation on files, inside the sandbox. The request's user, cwd and bounds are filled
 * in here. The ends are non-blocking and yours: out_fd brings a struct cay_file_reply and what that
 * promises (file/proto.h); in_fd takes data, or is -1; end_fd is the other end of
 * CAY_FILE_COMMIT_FD, or -1. CAY_ERR_CONFLICT when the sandbox does not run. */
struct cay_file_ends {
    int out_fd, in_fd, end_fd;
};
int cay_core_file(struct cay_core *core, const struct cay_account *owner, const char *id,
                  struct cay_file_request *rq, struct cay_arena *a, struct cay_file_ends *out,
                  struct cay_error *err);
/* What a reply means to the caller: 0 when it is good. NULL: there was none. */
int cay_core_file_verdict(const struct cay_file_request *rq, const struct cay_file_reply *reply,
                          struct cay_error *err);

/* Code history, see history/history.h; of a sandbox without one CAY_ERR_NOT_FOUND, "NO_HISTORY".
 * Ids are of executions or commits; unknown ones are CAY_ERR_NOT_FOUND, "EXECUTION_NOT_FOUND". */
int cay_core_history(struct cay_core *core, const struct cay_account *owner, const char *id,
                     struct cay_arena *a, struct cay_versions *out, struct cay_error *err);
int cay_core_diff(struct cay_core *core, const struct cay_account *owner, const char *id,
                  const struct cay_history_ask *ask, cay_history_tell tell, void *arg,
                  struct cay_arena *a, struct cay_error *err);
/* Files as they were, as a version of its own; of one path alone unless that is NULL. */
struct cay_back {
    const char *id, *id_field, *path;
};
int cay_core_rollback(struct cay_core *core, const struct cay_account *owner, const char *id,
                      const struct cay_back *back, struct cay_arena *a, struct cay_version *out,
                      struct cay_error *err);
/* A file with all of it as a git bundle; and what is closed when the caller has fetched it. Too
 * many at once: CAY_ERR_UNAVAILABLE. */
int cay_core_bundle(struct cay_core *core, const struct cay_account *owner, const char *id,
                    struct cay_arena *a, int *fd_out, int *end_fd_out, struct cay_error *err);
/* Is the version that an execution is due still to be made? Whoever follows its log is woken when
 * it is. Does not block. */
bool cay_core_version_due(struct cay_core *core, const char *exec_id);
/* Returns when it is not; or after a while. */
void cay_core_await_version(struct cay_core *core, const char *exec_id);

/* Many commands over many sandboxes. They run to their end whether somebody follows or not; what is
 * told of them is written to a file, line by line in order of completion. Nothing of one item stops
 * another. With a key that came before: the batch that it began. */
typedef void (*cay_batch_shape)(const struct cay_batch_event *e, struct cay_buf *out);
struct cay_batch_asked {
    struct cay_arena arena; /* holds the spec; taken when the batch begins */
    struct cay_batch_spec spec;
    cay_batch_shape shape; /* an event as a line; any thread */
    size_t bytes;          /* about what the arena holds, for the bound over all */
};
struct cay_batch_ref {
    char id[CAY_ID_SIZE];
    int fd; /* of the lines, from CAY_BATCH_HEAD on; behind the last one there is a NUL; yours */
    bool replayed;
};
int cay_core_batch(struct cay_core *core, const struct cay_account *owner,
                   struct cay_batch_asked *asked, struct cay_batch_ref *out, struct cay_error *err);
/* While it does, or once the NUL is there, all is well with its lines. Does not block. */
bool cay_core_batch_runs(struct cay_core *core, const char *id);

/* For streams, which must not block. Whoever follows the log is woken when either changes. */
/* No exit record will come. */
bool cay_core_lost(struct cay_core *core, const char *sandbox_id, const char *exec_id);
/* What the word and the number of one that ended do not say; false: they say it all. */
bool cay_core_cause(const struct cay_execution *ex, char text[CAY_CAUSE_SIZE]);
/* The word for an exit record, or NULL while it is being found out; `asked` says that NULL was the
 * answer before. With the word its `process` is what is known by now. */
const char *cay_core_reason(struct cay_core *core, const char *sandbox_id, const char *exec_id,
                            struct cay_record_exit *end, int64_t ended_at_ms, bool asked);
