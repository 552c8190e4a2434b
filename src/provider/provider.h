/* SPDX-License-Identifier: Apache-2.0 */
/* What can make a sandbox. One folder per backend; callers never touch `ops`.
 *
 * Any thread may call any entry. Asking for what is already so succeeds: starting what runs,
 * stopping what is stopped, destroying what is gone. Otherwise an id nobody knows is
 * CAY_ERR_NOT_FOUND, and a sandbox that is not running where it must be CAY_ERR_CONFLICT,
 * "SANDBOX_NOT_RUNNING". What a backend cannot do at all is CAY_ERR_UNSUPPORTED. A backend that
 * does not answer is CAY_ERR_UNAVAILABLE or, when it is late, CAY_ERR_TIMEOUT; one that fails is
 * CAY_ERR_PROVIDER. */
#pragma once
#include "base/error.h"
#include "base/queue.h"
#include "file/proto.h"
#include "model/config.h"
#include "model/execution.h"
#include "model/image.h"
#include "model/network.h"
#include "model/sandbox.h"

struct cay_provider {
    const struct cay_provider_ops *ops; /* first member of every provider's own struct */
};

/* One sandbox as the backend knows it. */
struct cay_provider_entry {
    char id[CAY_ID_SIZE];
    bool running, paused; /* a paused one is running as well */
    bool unknown;         /* it is there, and can only be destroyed: nobody knows the rest */
    int64_t started_at_ms, ended_at_ms;
    struct cay_death death; /* when not running; reason and message are static or in `text` */
    char text[64];
};

struct cay_provider_list {
    struct cay_provider_entry *at;
    size_t count;
};

struct cay_problem {
    const char *what, *why, *fix;
    bool fatal; /* a create needs it: unhealthy; else degraded */
};

struct cay_health {
    const char *version;
    /* How disks are limited, static: "xfs", "btrfs", "loop-btrfs", "loop-xfs", "none". */
    const char *disk;
    struct cay_problem *problems; /* in the arena */
    size_t problem_count;
    uint32_t pool_ready, pool_size; /* what is made ahead of creates; size 0: nothing is */
};

/* Who waits for a build: hears each line, and may end it. */
struct cay_build_watch {
    void (*line)(void *arg, const char *line); /* may be NULL */
    bool (*stop)(void *arg);                   /* asked a few times a second; may be NULL */
    void *arg;
};

struct cay_provider_ops {
    const char *name;
    /* Optional: what holds its sandboxes, as answers say it; else "native". */
    const char *(*isolation)(const struct cay_provider *p);
    /* Entries of sandboxes that ended are pushed to `events` (malloc'ed; the taker frees). */
    int (*open)(const struct cay_config *cfg, struct cay_queue *events, struct cay_provider **out,
                struct cay_error *err);
    void (*close)(struct cay_provider *p);
    int (*health)(struct cay_provider *p, struct cay_arena *a, struct cay_health *out,
                  struct cay_error *err);
    /* Optional: health's disk, cheaply; "unknown" as long as it cannot be told. */
    const char *(*disk)(struct cay_provider *p);
    /* Optional: bytes of disk that sandboxes may still take, some seconds ago; 0 cannot be told. */
    uint64_t (*room)(struct cay_provider *p);
    /* Leaves the sandbox running, without its start command. The id is ours, so a repeated create
     * finds the first one. CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND". With spec.from its files begin as
     * that sandbox's or snapshot's are now, and `copied` says how; with spec.volume that volume is
     * its /workspace from now on, and nobody else's. */
    int (*create)(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                  struct cay_copied *copied, struct cay_error *err);
    int (*start)(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                 struct cay_error *err);
    /* SIGTERM, at most grace_ms of patience, SIGKILL; down on return. */
    int (*stop)(struct cay_provider *p, const char *id, int64_t grace_ms, struct cay_error *err);
    /* `volume` NULL: a volume that was given at create is kept, any other /workspace goes. "": it
     * goes in any case. An id: /workspace is kept as that volume. `used` is what its last run had
     * used (peak, cpu, kills), 0 where nobody knows; with an error it is as it was. */
    int (*destroy)(struct cay_provider *p, const char *id, const char *volume,
                   struct cay_usage *used, struct cay_error *err);
    /* From here to `kept`: optional. Every process stands still, or goes on. */
    int (*pause)(struct cay_provider *p, const char *id, struct cay_error *err);
    int (*resume)(struct cay_provider *p, const char *id, struct cay_error *err);
    /* The files as they are now, of a sandbox in whatever state, under an id of their own. Its
     * processes notice nothing. */
    int (*snapshot)(struct cay_provider *p, const char *id, const char *snapshot_id,
                    struct cay_copied *out, struct cay_error *err);
    /* A snapshot, or a volume that no sandbox has. Gone already is no error; never harms a sandbox
     * that was made from it. */
    int (*drop)(struct cay_provider *p, const char *kept_id, struct cay_error *err);
    /* Ids of all snapshots, and of all volumes that no sandbox has. */
    int (*kept)(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                struct cay_error *err);
    /* Optional: memory, cpu, pids and disk of one that runs become spec's. CAY_ERR_CONFLICT,
     * "MEMORY_IN_USE" or "DISK_IN_USE", when it has more already; then nothing is changed. */
    int (*limit)(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                 struct cay_error *err);
    /* Optional: a non-blocking socket that speaks from inside, whatever its network may reach; it
     * is the caller's. Returns at once: connecting is the caller's business. */
    int (*socket)(struct cay_provider *p, const char *id, enum cay_socket_kind kind, int *fd_out,
                  struct cay_error *err);
    /* Optional: from now on what it wants of the network comes to these, which are the caller's.
     * Without them, and once they are closed, it has no way out. */
    int (*way_out)(struct cay_provider *p, const char *id, struct cay_way_out *out,
                   struct cay_error *err);
    int (*usage)(struct cay_provider *p, const char *id, struct cay_usage *out,
                 struct cay_error *err);
    /* All that this instance owns, or an error: never half of it. */
    int (*list)(struct cay_provider *p, struct cay_arena *a, struct cay_provider_list *out,
                struct cay_error *err);
    /* Starts a command whose output and exit go to the log behind log_fd (borrowed). spec's
     * cwd, user and env are complete but for what the image adds; without argv it is the image's
     * own command. Returns when it runs.
     * CAY_ERR_INVALID with the field for a bad cwd or user. */
    int (*exec)(struct cay_provider *p, const char *id, const char *exec_id,
                const struct cay_exec_spec *spec, int log_fd, struct cay_error *err);
    /* CAY_ERR_NOT_FOUND, "EXECUTION_NOT_RUNNING", when it ended. */
    int (*kill)(struct cay_provider *p, const char *id, const char *exec_id, int signal,
                struct cay_error *err);
    /* More for the stdin of an execution that was begun with open_stdin or a window: what comes out
     * of the pipe behind input_fd, to its end. With end_fd (or -1) stdin is closed then, if there
     * is a byte in the pipe behind that. Both are borrowed, to read from. CAY_ERR_CONFLICT
     * "STDIN_CLOSED", CAY_ERR_LIMIT "TOO_MANY_INPUTS". */
    int (*input)(struct cay_provider *p, const char *id, const char *exec_id, int input_fd,
                 int end_fd, struct cay_error *err);
    /* CAY_ERR_CONFLICT, "NO_TERMINAL". */
    int (*resize)(struct cay_provider *p, const char *id, const char *exec_id,
                  struct cay_window window, struct cay_error *err);
    /* Optional. Begins one operation on files, inside, by cay-file: file/proto.h is the contract of
     * what then comes out of the pipes. They are borrowed. A user or cwd of NULL is the sandbox's;
     * after timeout_ms it is over. CAY_ERR_LIMIT, "TOO_MANY_FILE_OPERATIONS". */
    int (*file)(struct cay_provider *p, const char *id, const struct cay_file_request *rq,
                const struct cay_file_pipes *pipes, int64_t timeout_ms, struct cay_error *err);
    /* Which executions run now; for telling `running` from `lost`. */
    int (*executions)(struct cay_provider *p, const char *id, struct cay_arena *a,
                      struct cay_strs *out, struct cay_error *err);
    /* From here on optional: images. Diff ids and digests are 64 hex digits. */
    int (*image_has)(struct cay_provider *p, const char *diff_id, bool *out, struct cay_error *err);
    /* Unpacks one layer out of the file behind `fd` (borrowed; a regular file), and makes it
     * visible when digest, diff id and size are what `layer` says: CAY_ERR_UNPROCESSABLE
     * "DIGEST_MISMATCH"; "BAD_LAYER" for what cannot be taken, with the reason; CAY_ERR_TOO_LARGE
     * "LAYER_TOO_LARGE"; CAY_ERR_LIMIT "IMAGE_STORE_FULL". Who asks for the same layer meanwhile
     * waits, and finds it. */
    int (*image_layer)(struct cay_provider *p, const struct cay_layer *layer, int fd,
                       const struct cay_progress *progress, struct cay_unpacked *out,
                       struct cay_error *err);
    /* The name stands for that text (image/text.h) from now on. CAY_ERR_CONFLICT "LAYER_MISSING":
     * one of its layers is not there (any more). */
    int (*image_put)(struct cay_provider *p, const char *name, const char *text,
                     struct cay_error *err);
    /* Optional. Whoever brought these layers in is done, and has put its images or given up: what
     * waited for an image outside of the store waits no more. Others who counted on it hear of it
     * at their put. */
    void (*image_let_go)(struct cay_provider *p, const struct cay_strs *diff_ids);
    /* All names, or one: CAY_ERR_NOT_FOUND "IMAGE_NOT_FOUND". */
    int (*image_list)(struct cay_provider *p, const char *name, struct cay_arena *a,
                      struct cay_image_list *out, struct cay_error *err);
    /* The name alone: layers stay for whoever needs them, and until the next prune. */
    int (*image_remove)(struct cay_provider *p, const char *name, struct cay_error *err);
    int (*image_prune)(struct cay_provider *p, struct cay_pruned *out, struct cay_error *err);
    /* Writes an archive (OCI layout and Docker's manifest.json in one tar) to `fd`, borrowed: of a
     * name, or of a snapshot's files on top of the image it was made from, to be loaded as
     * `tag`. */
    int (*image_export)(struct cay_provider *p, const char *name_or_snapshot, const char *tag,
                        int fd, const struct cay_progress *progress, struct cay_error *err);
    /* Both optional. Builds the image by that recipe, and returns when it is there; a matter of
     * minutes. CAY_ERR_NOT_FOUND "NO_RECIPE", CAY_ERR_UNAVAILABLE "TOO_MANY_BUILDS",
     * CAY_ERR_PROVIDER "BUILD_FAILED" with its last words, CAY_ERR_TIMEOUT. */
    int (*build)(struct cay_provider *p, const struct cay_recipe *what,
                 const struct cay_build_watch *watch, struct cay_error *err);
    /* The names of what can be built. */
    int (*recipes)(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                   struct cay_error *err);
};

int cay_provider_open(const char *name, const struct cay_config *cfg, struct cay_queue *events,
                      struct cay_provider **out, struct cay_error *err);
void cay_provider_close(struct cay_provider *p);
const char *cay_provider_name(const struct cay_provider *p);
const char *cay_provider_isolation(const struct cay_provider *p);
int cay_provider_health(struct cay_provider *p, struct cay_arena *a, struct cay_health *out,
                        struct cay_error *err);
const char *cay_provider_disk(struct cay_provider *p); /* never NULL */
uint64_t cay_provider_room(struct cay_provider *p);
int cay_provider_create(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                        struct cay_copied *copied, struct cay_error *err);
int cay_provider_start(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                       struct cay_error *err);
int cay_provider_stop(struct cay_provider *p, const char *id, int64_t grace_ms,
                      struct cay_error *err);
/* `used` may be NULL. */
int cay_provider_destroy(struct cay_provider *p, const char *id, const char *volume,
                         struct cay_usage *used, struct cay_error *err);
int cay_provider_pause(struct cay_provider *p, const char *id, struct cay_error *err);
int cay_provider_resume(struct cay_provider *p, const char *id, struct cay_error *err);
int cay_provider_snapshot(struct cay_provider *p, const char *id, const char *snapshot_id,
                          struct cay_copied *out, struct cay_error *err);
int cay_provider_drop(struct cay_provider *p, const char *kept_id, struct cay_error *err);
int cay_provider_kept(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                      struct cay_error *err);
int cay_provider_limit(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                       struct cay_error *err);
int cay_provider_socket(struct cay_provider *p, const char *id, enum cay_socket_kind kind,
                        int *fd_out, struct cay_error *err);
int cay_provider_way_out(struct cay_provider *p, const char *id, struct cay_way_out *out,
                         struct cay_error *err);
int cay_provider_usage(struct cay_provider *p, const char *id, struct cay_usage *out,
                       struct cay_error *err);
int cay_provider_list(struct cay_provider *p, struct cay_arena *a, struct cay_provider_list *out,
                      struct cay_error *err);
/* More than 0: it was awaited, and ended after so many microseconds. */
int cay_provider_exec(struct cay_provider *p, const char *id, const char *exec_id,
                      const struct cay_exec_spec *spec, int log_fd, struct cay_error *err);
int cay_provider_kill(struct cay_provider *p, const char *id, const char *exec_id, int signal,
                      struct cay_error *err);
int cay_provider_input(struct cay_provider *p, const char *id, const char *exec_id, int input_fd,
                       int end_fd, struct cay_error *err);
int cay_provider_resize(struct cay_provider *p, const char *id, const char *exec_id,
                        struct cay_window window, struct cay_error *err);
int cay_provider_file(struct cay_provider *p, const char *id, const struct cay_file_request *rq,
                      const struct cay_file_pipes *pipes, int64_t timeout_ms,
                      struct cay_error *err);
int cay_provider_executions(struct cay_provider *p, const char *id, struct cay_arena *a,
                            struct cay_strs *out, struct cay_error *err);
int cay_provider_image_has(struct cay_provider *p, const char *diff_id, bool *out,
                           struct cay_error *err);
/* `progress` may be NULL. */
int cay_provider_image_layer(struct cay_provider *p, const struct cay_layer *layer, int fd,
                             const struct cay_progress *progress, struct cay_unpacked *out,
                             struct cay_error *err);
int cay_provider_image_put(struct cay_provider *p, const char *name, const char *text,
                           struct cay_error *err);
void cay_provider_image_let_go(struct cay_provider *p, const struct cay_strs *diff_ids);
/* Of all names with NULL. */
int cay_provider_image_list(struct cay_provider *p, const char *name, struct cay_arena *a,
                            struct cay_image_list *out, struct cay_error *err);
int cay_provider_image_remove(struct cay_provider *p, const char *name, struct cay_error *err);
int cay_provider_image_prune(struct cay_provider *p, struct cay_pruned *out, struct cay_error *err);
int cay_provider_image_export(struct cay_provider *p, const char *name_or_snapshot, const char *tag,
                              int fd, const struct cay_progress *progress, struct cay_error *err);
/* `watch` may be NULL. */
int cay_provider_build(struct cay_provider *p, const struct cay_recipe *what,
                       const struct cay_build_watch *watch, struct cay_error *err);
/* None where the backend builds none. */
int cay_provider_recipes(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                         struct cay_error *err);

extern const struct cay_provider_ops cay_provider_native, cay_provider_docker, cay_provider_fake;
