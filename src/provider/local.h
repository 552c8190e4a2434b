/* SPDX-License-Identifier: Apache-2.0 */
/* What providers on this machine share: they are clients of the engine, which has the rights, and
 * of each sandbox's pid 1, which is cay-init whoever made the sandbox. */
#pragma once
#include "base/packet.h"
#include "base/queue.h"
#include "engine/message.h"
#include "provider/provider.h"
#include "provider/turns.h"

#define CAY_LOCAL_BUCKETS 1024

/* What executions need to know of a sandbox, and its idle connections to pid 1. */
struct cay_pid1 {
    char id[CAY_ID_SIZE];
    char user[64], workdir[256];
    char *strings; /* argv of the image's own command, then env_count × "K=V\0" */
    uint32_t argc, argv_len, env_count, env_len;
    int idle[8];
    int idle_count;
    struct cay_way_out way; /* that came with its creation, until somebody asks for it */
    bool has_way;
    struct cay_pid1 *next;
};

/* First member of such a provider's own struct: the entries below are in its table as they are. */
struct cay_local {
    struct cay_provider base;
    int data_fd;
    uint64_t log_head_bytes, log_tail_bytes;
    /* A connection to pid 1 of a sandbox, and struct cay_engine_image with its strings. */
    int (*reach)(struct cay_local *l, const char *id, char *data, size_t size, size_t *len_out,
                 int *fd_out, struct cay_error *err);
    struct cay_queue *events;
    pthread_t listener;
    bool listens;
    int closing;          /* an eventfd */
    pthread_mutex_t lock; /* of all below */
    int engine[32];       /* idle connections */
    int engine_count;
    struct cay_pid1 *pid1s[CAY_LOCAL_BUCKETS];
    size_t idle_total;
    struct cay_turns turns; /* has its own lock */
};

void cay_local_init(struct cay_local *l, const struct cay_config *cfg, struct cay_queue *events);
void cay_local_done(struct cay_local *l); /* waits for the listener to end */
/* Starts the thread that hears of deaths; it is given `l`, and ends when it is closing: waited for
 * together with fd, which may be -1. */
int cay_local_listen(struct cay_local *l, void *(*listener)(void *), struct cay_error *err);
bool cay_local_closing(struct cay_local *l, int fd, int64_t wait_ms);
/* Without an entry: something may have happened unheard. */
void cay_local_tell(struct cay_local *l, const struct cay_provider_entry *e);

/* engine.c: one request to the engine. data takes what follows the reply, fd_out a descriptor; both
 * may be NULL. The engine may die under it: everything we ask is safe to ask twice, and is. */
int cay_local_call(struct cay_local *l, const struct cay_engine_request *rq, int64_t wait_ms,
                   void *data, size_t size, size_t *len_out, int *fd_out, struct cay_error *err);
/* The same for an answer with several. */
struct cay_local_fds {
    int at[CAY_PACKET_FDS];
    int count;
};
void cay_local_close_fds(struct cay_local_fds *fds);
int cay_local_call_fds(struct cay_local *l, const struct cay_engine_request *rq, int64_t wait_ms,
                       void *data, size_t size, size_t *len_out, struct cay_local_fds *fds_out,
                       struct cay_error *err);
/* The error that an answer brings; returns its code. */
int cay_local_told(const struct cay_engine_reply *reply, struct cay_error *err);
int cay_local_connect(struct cay_local *l); /* a fresh connection to the engine, or -1 */

/* pid1.c */
int cay_local_exec(struct cay_provider *p, const char *id, const char *exec_id,
                   const struct cay_exec_spec *spec, int log_fd, struct cay_error *err);
int cay_local_kill(struct cay_provider *p, const char *id, const char *exec_id, int signal,
                   struct cay_error *err);
int cay_local_input(struct cay_provider *p, const char *id, const char *exec_id, int input_fd,
                    int end_fd, struct cay_error *err);
int cay_local_resize(struct cay_provider *p, const char *id, const char *exec_id,
                     struct cay_window window, struct cay_error *err);
int cay_local_file(struct cay_provider *p, const char *id, const struct cay_file_request *rq,
                   const struct cay_file_pipes *pipes, int64_t timeout_ms, struct cay_error *err);
int cay_local_executions(struct cay_provider *p, const char *id, struct cay_arena *a,
                         struct cay_strs *out, struct cay_error *err);
/* Every process gets SIGTERM, after grace_ms SIGKILL, then pid 1 ends; returns at once. */
int cay_local_stop(struct cay_local *l, const char *id, int64_t grace_ms, struct cay_error *err);
/* Takes over what `reach` gives, the descriptor too. */
void cay_pid1_learn(struct cay_local *l, const char *id, const void *data, size_t len, int fd);
void cay_pid1_forget(struct cay_local *l, const char *id);
/* Takes over the descriptors. take: false when none are kept. */
void cay_pid1_keep_way(struct cay_local *l, const char *id, struct cay_way_out way);
bool cay_pid1_take_way(struct cay_local *l, const char *id, struct cay_way_out *out);

/* build.c: by the engine, into the image store. */
int cay_local_build(struct cay_provider *p, const struct cay_recipe *what,
                    const struct cay_build_watch *watch, struct cay_error *err);
int cay_local_recipes(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                      struct cay_error *err);
