/* SPDX-License-Identifier: Apache-2.0 */
/* The native provider: a client of the engine, and of each sandbox's pid 1. */
#pragma once
#include "base/packet.h"
#include "base/queue.h"
#include "engine/message.h"
#include "provider/native/turns.h"
#include "provider/provider.h"

#define CAY_NATIVE_BUCKETS 1024

/* What executions need to know of a sandbox, and its idle connections to pid 1. */
struct cay_pid1 {
    char id[CAY_ID_SIZE];
    char user[64], workdir[256];
    char *strings; /* argv of the image's own command, then env_count × "K=V\0" */
    uint32_t argc, argv_len, env_count, env_len;
    int idle[8];
    int idle_count;
    struct cay_pid1 *next;
};

struct cay_native {
    struct cay_provider base;
    int data_fd;
    uint64_t log_head_bytes, log_tail_bytes;
    _Atomic(const char *) disk;  /* as the engine said last; NULL: never heard */
    _Atomic uint64_t room_bytes; /* the same */
    _Atomic int64_t room_asked_ms;
    pthread_mutex_t lock; /* of all below */
    int engine[32];       /* idle connections */
    int engine_count;
    struct cay_pid1 *pid1s[CAY_NATIVE_BUCKETS];
    size_t idle_total;
    struct cay_turns turns; /* has its own lock */
    struct cay_queue *events;
    pthread_t listener;
    int events_fd, closing; /* closing: an eventfd */
};

/* engine.c: one request to the engine. data takes what follows the reply, fd_out a descriptor; both
 * may be NULL. The engine may die under it: everything we ask is safe to ask twice, and is. */
int cay_native_call(struct cay_native *n, const struct cay_engine_request *rq, int64_t wait_ms,
                    void *data, size_t size, size_t *len_out, int *fd_out, struct cay_error *err);
/* The same for an answer with several. */
struct cay_native_fds {
    int at[CAY_PACKET_FDS];
    int count;
};
void cay_native_close_fds(struct cay_native_fds *fds);
int cay_native_call_fds(struct cay_native *n, const struct cay_engine_request *rq, int64_t wait_ms,
                        void *data, size_t size, size_t *len_out, struct cay_native_fds *fds_out,
                        struct cay_error *err);
int cay_native_connect(struct cay_native *n); /* a fresh connection to the engine, or -1 */

/* The error that an answer brings; returns its code. */
int cay_native_told(const struct cay_engine_reply *reply, struct cay_error *err);

/* image.c */
int cay_native_image_has(struct cay_provider *p, const char *diff_id, bool *out,
                         struct cay_error *err);
int cay_native_image_layer(struct cay_provider *p, const struct cay_layer *layer, int fd,
                           const struct cay_progress *progress, struct cay_unpacked *out,
                           struct cay_error *err);
int cay_native_image_put(struct cay_provider *p, const char *name, const char *text,
                         struct cay_error *err);
int cay_native_image_list(struct cay_provider *p, const char *name, struct cay_arena *a,
                          struct cay_image_list *out, struct cay_error *err);
int cay_native_image_remove(struct cay_provider *p, const char *name, struct cay_error *err);
int cay_native_image_prune(struct cay_provider *p, struct cay_pruned *out, struct cay_error *err);
int cay_native_image_export(struct cay_provider *p, const char *name_or_snapshot, const char *tag,
                            int fd, const struct cay_progress *progress, struct cay_error *err);

/* pid1.c */
int cay_native_exec(struct cay_provider *p, const char *id, const char *exec_id,
                    const struct cay_exec_spec *spec, int log_fd, struct cay_error *err);
int cay_native_kill(struct cay_provider *p, const char *id, const char *exec_id, int signal,
                    struct cay_error *err);
int cay_native_input(struct cay_provider *provider, const char *id, const char *exec_id,
                     int input_fd, int end_fd, struct cay_error *err);
int cay_native_resize(struct cay_provider *provider, const char *id, const char *exec_id,
                      struct cay_window window, struct cay_error *err);
int cay_native_file(struct cay_provider *p, const char *id, const struct cay_file_request *rq,
                    const struct cay_file_pipes *pipes, int64_t timeout_ms, struct cay_error *err);
/* build.c */
int cay_native_build(struct cay_provider *p, const char *image, const struct cay_build_watch *watch,
                     struct cay_error *err);
int cay_native_recipes(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                       struct cay_error *err);
int cay_native_executions(struct cay_provider *p, const char *id, struct cay_arena *a,
                          struct cay_strs *out, struct cay_error *err);
/* Takes over what a CREATE, START or CONNECT answered. */
void cay_pid1_learn(struct cay_native *n, const char *id, const void *data, size_t len, int fd);
void cay_pid1_forget(struct cay_native *n, const char *id);
void cay_pid1_forget_all(struct cay_native *n);
