/* SPDX-License-Identifier: Apache-2.0 */
/* The Docker provider: a client of a Docker Engine, for what a container is, and of the cay-init
 * that is pid 1 in each, for what happens inside. So an execution is the same here as anywhere: its
 * output is written by pid 1 into the log that it was handed, and needs neither server nor Docker
 * Engine to go on. The Engine must therefore be on this machine, however it is spoken to.
 *
 * Every object carries labels; only those of our own instance are ever looked at. */
#pragma once
#include "base/json.h"
#include "http/client.h"
#include "provider/local.h"
#include <stdatomic.h>

#define CAY_DOCKER_API "/v1.41"
#define CAY_DOCKER_CALL_MS 60000
#define CAY_DOCKER_LABEL "cay.instance"
#define CAY_DOCKER_FITS "cay-fit"  /* the repository of images that sandboxes are made from */
#define CAY_DOCKER_BASE "cay.base" /* a label of those: the id of the image that was fitted */
/* The names of containers that layers are made with: by label they could not be told from what is
 * made of those layers, which has their labels too. */
#define CAY_DOCKER_HELPER "cay-helper-"
#define CAY_DOCKER_SNAPS "cay-snap-"             /* and the instance: the repository of snapshots */
#define CAY_DOCKER_WORKSPACE CAY_DEFAULT_WORKDIR /* the volume's place */

struct cay_docker_place {
    char id[CAY_ID_SIZE], container[65];
    uint32_t pid;
    bool known; /* to pid1.c as well */
};

struct cay_docker {
    struct cay_local local;
    const char *host;            /* as it was configured */
    char *url;                   /* for the client */
    bool dials;                  /* a socket of this machine: the engine connects */
    const char *runtime;         /* of containers; NULL is the Engine's own choice */
    char isolation[64];          /* "docker", and the runtime if one was chosen */
    bool read_only;              /* their roots */
    atomic_int sized;            /* can disks be limited? 1 yes, -1 no, 0 nobody has tried */
    const char *ca, *cert, *key; /* for TLS; NULL: none */
    char instance[17];
    char tools[17]; /* tells versions of cay-init and cay-file apart */
    pthread_mutex_t lock;
    struct cay_client *idle[16];
    int idle_count;
    char killed[256][CAY_ID_SIZE]; /* the last whose end was ours: a ring */
    size_t killed_at;
    struct cay_docker_place places[CAY_LOCAL_BUCKETS];
    atomic_int podman;         /* 1 it is, -1 it is Docker, 0 nobody has asked */
    atomic_bool elsewhere;     /* containers that it started are not on this machine */
    int staged_fd;             /* directory of layers that wait for their image */
    pthread_mutex_t fitting;   /* one image is fitted at a time */
    pthread_mutex_t attaching; /* a volume is taken by one */
    pthread_mutex_t copying;   /* what stands still for one copy is not let go by another */
};

/* call.c: a question to the Engine, and its answer. A status of 400 or more is an error: 404
 * NOT_FOUND, 409 CONFLICT, others PROVIDER; LIMIT "DISK_FULL" where its disk is. */
struct cay_docker_question {
    const char *method, *path;
    const struct cay_buf *body; /* or NULL */
    int64_t wait_ms;            /* 0: CAY_DOCKER_CALL_MS */
};
struct cay_docker_answer {
    int status;
    const struct cay_json *json; /* NULL: none */
};
int cay_docker_ask(struct cay_docker *d, struct cay_arena *a, const struct cay_docker_question *q,
                   struct cay_docker_answer *out, struct cay_error *err);
/* The same; `out` may be NULL. */
int cay_docker_call(struct cay_docker *d, struct cay_arena *a, const char *method, const char *path,
                    const struct cay_buf *body, struct cay_docker_answer *out,
                    struct cay_error *err);
/* GET of a list, by a filter in JSON; its first, or an error where the answer is none: never half
 * of it. */
int cay_docker_list(struct cay_docker *d, struct cay_arena *a, const char *path,
                    const char *filters, const struct cay_json **out, struct cay_error *err);
/* With a body that comes in pieces, as struct cay_client_request has it. What the answer tells of
 * its progress is read for failures. */
struct cay_docker_bytes {
    int (*more)(void *arg, char *buf, size_t room, size_t *len_out, struct cay_error *err);
    int64_t length; /* -1: it is not known */
    void *arg;
};
int cay_docker_send(struct cay_docker *d, struct cay_arena *a, const char *method, const char *path,
                    const struct cay_docker_bytes *bytes, struct cay_error *err);
/* The same out of a file, from where it is, or a pipe. */
int cay_docker_upload(struct cay_docker *d, struct cay_arena *a, const char *method,
                      const char *path, int fd, struct cay_error *err);
/* The answer's bytes to `on_data`. */
int cay_docker_download(struct cay_docker *d, const char *path,
                        int (*on_data)(void *arg, const char *data, size_t len,
                                       struct cay_error *err),
                        void *arg, struct cay_error *err);
struct cay_client *cay_docker_take(struct cay_docker *d, struct cay_error *err);
void cay_docker_close_idle(struct cay_docker *d);
const char *cay_docker_encode(struct cay_arena *a, const char *text);

/* image.c: the image that a sandbox of that name is made from: the Engine's own, and one layer of
 * ours. The former is supplied when it is missing; whether the latter is there, nobody looked. */
int cay_docker_fit_name(struct cay_docker *d, struct cay_arena *a, const char *name,
                        const char **out, struct cay_error *err);
/* That layer is there. */
int cay_docker_fit(struct cay_docker *d, struct cay_arena *a, const char *name,
                   struct cay_error *err);
/* By a caller's name, as the Engine tells of it, unless it is an id or one of what we make of
 * images. CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND". */
int cay_docker_find_image(struct cay_docker *d, struct cay_arena *a, const char *name,
                          const struct cay_json **out, struct cay_error *err);
/* The same by an id, or by a name that is ours: never by a caller's. */
int cay_docker_inspect_image(struct cay_docker *d, struct cay_arena *a, const char *name,
                             const struct cay_json **out, struct cay_error *err);
int cay_docker_build(struct cay_provider *p, const struct cay_recipe *what,
                     const struct cay_build_watch *watch, struct cay_error *err);
/* From the programs that containers get; once, at open. */
int cay_docker_mark_tools(struct cay_docker *d, struct cay_error *err);

/* names.c: what images are called. A tag without what Podman says in front of it: */
const char *cay_docker_short(const char *tag);
/* A name as the Engine takes it: digests are no tags there. And back. */
const char *cay_docker_image_name(struct cay_arena *a, const char *name);
const char *cay_docker_our_name(struct cay_arena *a, const char *tag);
/* "repo:tag" */
void cay_docker_split_name(struct cay_arena *a, const char *name, const char **repo,
                           const char **tag);
/* What we make of images is none of them, however its name is written; nor is what has none. */
bool cay_docker_is_inner(struct cay_arena *a, const char *name);
/* CAY_ERR_INVALID, "INVALID_IMAGE_NAME": nobody else calls an image so. */
int cay_docker_refuse_inner(struct cay_arena *a, const char *name, struct cay_error *err);
/* The one of an image's names that a caller's stands for, as the Engine tells it; NULL: it is not
 * called that. */
const char *cay_docker_called(struct cay_arena *a, const struct cay_json *image, const char *name);
int cay_docker_no_image(const char *name, struct cay_error *err); /* IMAGE_NOT_FOUND */

/* images.c: what the API has of images. layers.c: how they come in. */
int cay_docker_image_list(struct cay_provider *p, const char *name, struct cay_arena *a,
                          struct cay_image_list *out, struct cay_error *err);
int cay_docker_image_remove(struct cay_provider *p, const char *name, struct cay_error *err);
int cay_docker_image_prune(struct cay_provider *p, struct cay_pruned *out, struct cay_error *err);
int cay_docker_image_export(struct cay_provider *p, const char *name_or_snapshot, const char *tag,
                            int fd, const struct cay_progress *progress, struct cay_error *err);
/* Of fitted images that no sandbox is made from; all of them, or (`but`) not those of this version
 * of the programs. */
int cay_docker_drop_fits(struct cay_docker *d, struct cay_arena *a, const char *but,
                         struct cay_pruned *out, struct cay_error *err);
/* As our store would have it; "" where it cannot be said so. */
const char *cay_docker_image_text(struct cay_arena *a, const struct cay_json *image);
int cay_docker_stage_open(struct cay_docker *d, struct cay_error *err);
int cay_docker_image_has(struct cay_provider *p, const char *diff_id, bool *out,
                         struct cay_error *err);
int cay_docker_image_layer(struct cay_provider *p, const struct cay_layer *layer, int fd,
                           const struct cay_progress *progress, struct cay_unpacked *out,
                           struct cay_error *err);
int cay_docker_image_put(struct cay_provider *p, const char *name, const char *text,
                         struct cay_error *err);
void cay_docker_image_let_go(struct cay_provider *p, const struct cay_strs *diff_ids);

/* spec.c: bodies of requests. */
void cay_docker_write_create(const struct cay_docker *d, const char *id, const char *image,
                             const char *volume, const struct cay_spec *spec, struct cay_buf *out);
/* 0 bytes: without a limit. */
void cay_docker_write_volume(const struct cay_docker *d, const char *volume, uint64_t disk_bytes,
                             struct cay_buf *out);
void cay_docker_write_limits(const struct cay_spec *spec, struct cay_buf *out);

/* box.c: what the Engine says of one. */
struct cay_docker_box {
    struct cay_provider_entry entry;
    uint32_t pid;
    const char *container; /* the Engine's own id */
    uint64_t own_bytes; /* of its files beside the image's and /workspace, if they were asked for */
    const char *volume; /* that is its /workspace */
    bool given;         /* at create, so that it outlives the sandbox */
    const char *disk;   /* its bytes, in digits */
    const char *image;  /* its id */
    bool copied;        /* of a snapshot, or of a fork */
    const struct cay_json *config, *host;
};
/* spec.c: of memory, CPU and processes. */
bool cay_docker_has_limits(const struct cay_docker_box *box, const struct cay_spec *spec);
int cay_docker_inspect(struct cay_docker *d, struct cay_arena *a, const char *id,
                       struct cay_docker_box *out, struct cay_error *err);
/* The same with own_bytes. */
int cay_docker_measure(struct cay_docker *d, struct cay_arena *a, const char *id,
                       struct cay_docker_box *out, struct cay_error *err);
/* A request to our engine about it. */
struct cay_engine_request cay_docker_request(enum cay_engine_op op,
                                             const struct cay_docker_box *box);
/* The same; SANDBOX_NOT_RUNNING when it is down. */
int cay_docker_running(struct cay_docker *d, struct cay_arena *a, const char *id,
                       struct cay_docker_box *out, struct cay_error *err);
const char *cay_docker_name(struct cay_arena *a, const char *id); /* "/containers/cay-ID" */
/* POST to it: start, kill, pause… */
int cay_docker_act(struct cay_docker *d, struct cay_arena *a, const char *id, const char *verb,
                   const struct cay_buf *body, struct cay_error *err);
/* Its end will be ours. */
void cay_docker_note_killed(struct cay_docker *d, const char *id);
void cay_docker_forget_killed(struct cay_docker *d, const char *id); /* it begins anew */
bool cay_docker_was_killed(struct cay_docker *d, const char *id);
int cay_docker_usage_of(struct cay_docker *d, const struct cay_docker_box *box,
                        struct cay_usage *out, struct cay_error *err);
const struct cay_json *cay_docker_below(const struct cay_json *at, const char *key); /* or NULL */
int cay_docker_usage(struct cay_provider *p, const char *id, struct cay_usage *out,
                     struct cay_error *err);
int cay_docker_limit(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                     struct cay_error *err);
int cay_docker_socket(struct cay_provider *p, const char *id, enum cay_socket_kind kind,
                      int *fd_out, struct cay_error *err);
int cay_docker_way_out(struct cay_provider *p, const char *id, struct cay_way_out *out,
                       struct cay_error *err);

/* place.c: pid and container of one that ran; forgotten together with its connections. `known`: so
 * is what its image says, to who runs commands in it. */
void cay_docker_note_place(struct cay_docker *d, const struct cay_docker_box *box, bool known);
bool cay_docker_find_place(struct cay_docker *d, struct cay_arena *a, const char *id, bool known,
                           struct cay_docker_box *out);
void cay_docker_forget(struct cay_docker *d, const char *id);

/* kept.c */
int cay_docker_snapshot(struct cay_provider *p, const char *id, const char *snapshot_id,
                        struct cay_copied *out, struct cay_error *err);
int cay_docker_drop(struct cay_provider *p, const char *kept_id, struct cay_error *err);
int cay_docker_kept(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                    struct cay_error *err);
/* What a new sandbox begins with, made of spec->from: an image, and its own volume.
 * `temporary_out`: the image is to be dropped when the sandbox is there. */
int cay_docker_copy(struct cay_docker *d, struct cay_arena *a, const struct cay_spec *spec,
                    const char *id, const char **image_out, bool *temporary_out,
                    struct cay_copied *copied, struct cay_error *err);
/* What was being copied when a server was killed. */
void cay_docker_drop_halves(struct cay_docker *d, struct cay_arena *a);
void cay_docker_drop_image(struct cay_docker *d, struct cay_arena *a, const char *image);
/* One that has no name any more goes with the last sandbox that was made from it. */
void cay_docker_drop_untagged(struct cay_docker *d, struct cay_arena *a, const char *image_id);
/* Finds out whether disks can be limited, unless that is known. */
void cay_docker_try_size(struct cay_docker *d);
/* For that sandbox. CAY_ERR_NOT_FOUND "VOLUME_NOT_FOUND", CAY_ERR_CONFLICT "VOLUME_IN_USE". */
int cay_docker_find_volume(struct cay_docker *d, struct cay_arena *a, const char *volume,
                           const char *id, struct cay_error *err);
/* Labelled as ours. */
int cay_docker_make_volume(struct cay_docker *d, struct cay_arena *a, const char *volume,
                           uint64_t disk_bytes, struct cay_error *err);
/* Is it Podman's service? 1 or 0, or an error where nobody knows yet and nobody answers. */
int cay_docker_is_podman(struct cay_docker *d, struct cay_arena *a, struct cay_error *err);
/* One that a sandbox of ours had. */
int cay_docker_drop_volume(struct cay_docker *d, struct cay_arena *a, const char *volume,
                           struct cay_error *err);

/* health.c */
#define CAY_DOCKER_NOT_HERE                                                                        \
    "the Docker Engine runs containers on another machine, where we cannot reach into them"
int cay_docker_health(struct cay_provider *p, struct cay_arena *a, struct cay_health *out,
                      struct cay_error *err);

/* events.c: a thread's function. */
void *cay_docker_listen(void *docker);
