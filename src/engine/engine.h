/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: root's part. A dispatcher that never blocks, spawners that do the work, and what they
 * share: descriptors of our own directories, the programs that go into sandboxes, the cgroup tree.
 * All of it is opened once, in the engine's own mount namespace, before the first fork. */
#pragma once
#include "base/error.h"
#include "engine/disk.h"
#include "engine/kit.h"
#include "engine/stage.h"
#include "image/trust.h"
#include "model/config.h"

struct cay_engine {
    const struct cay_config *cfg;
    int engine_fd;     /* DATA/engine */
    int records_fd;    /* DATA/engine/records: one file per sandbox, see box.h */
    int files_fd;      /* one directory per sandbox: image, init.sock, upper, work */
    int trash_fd;      /* DATA/engine/trash: trees that wait to be removed */
    int images_fd;     /* the image store */
    int host_fd;       /* the mount namespace that the builder of images runs in */
    int berth_fd;      /* cay-berth, a sealed memfd */
    char instance[17]; /* of the data directory: names our cgroups */
    char boot_id[37];
    struct cay_disk disk;
    struct cay_kit kit;
    struct cay_trust trust;
};

/* Made and removed at every start, to prove that this host can. */
#define CAY_TRIAL_ID "sb-00000000000000trial0"

/* A point where the fault tests may pull the plug; not during the trial. */
void cay_engine_crash(const char *point, const char *id);

/* What tells this data directory's cgroups and containers from those of other servers. */
int cay_engine_instance(int data_fd, char out[17], struct cay_error *err);
/* A program of ours, beside this one or where `make install` puts it. */
int cay_engine_open_program(const char *program, struct cay_error *err);
/* Opens everything above, makes directories, the stage and the parent cgroup. */
int cay_engine_prepare(struct cay_engine *e, const struct cay_config *cfg, struct cay_error *err);
/* Runs the dispatcher until listen_fd's owner goes; returns an exit status. */
int cay_engine_run(const struct cay_config *cfg, int listen_fd);

/* build.c: begins to build as the request says, or to tell what can be; what it tells comes out of
 * *fd_out, see engine/build.h. The child's pid, or an error. */
struct cay_engine_request;
pid_t cay_builder_begin(const struct cay_engine *e, const struct cay_engine_request *rq,
                        int recipe_fd, int *fd_out, struct cay_error *err);
int cay_builder_too_many(struct cay_error *err);
