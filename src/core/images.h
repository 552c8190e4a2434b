/* SPDX-License-Identifier: Apache-2.0 */
/* Images, as dialects ask for them. They belong to the server, not to an account: who may write may
 * bring one in by its own name, which its registry answers for; what changes others' images is the
 * operator's. A name is taken in every spelling and told in its short one. */
#pragma once
#include "base/error.h"
#include "base/str.h"
#include "core/jobs.h"
#include "model/config.h"
#include "model/image.h"

struct cay_core;

/* "always", "missing", "never". */
bool cay_pull_policy_parse(const char *word, enum cay_pull_policy *out);

struct cay_image {
    const char *name;
    uint64_t bytes; /* unpacked, shared layers too */
    uint32_t uses;  /* sandboxes and snapshots */
    const char *digest, *source, *architecture, *user, *workdir, *stop_signal; /* "": none */
    int64_t created_at_ms;
    struct cay_strs env, entrypoint, cmd, layers;
};

struct cay_images {
    struct cay_image *at;
    size_t count;
};

/* CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND"; CAY_ERR_UNSUPPORTED where the provider keeps none. */
int cay_core_images(struct cay_core *core, struct cay_arena *a, struct cay_images *out,
                    struct cay_error *err);
int cay_core_image(struct cay_core *core, const char *name, struct cay_arena *a,
                   struct cay_image *out, struct cay_error *err);
int cay_core_image_remove(struct cay_core *core, const char *name, struct cay_arena *a,
                          const char **name_out, struct cay_error *err);
int cay_core_image_prune(struct cay_core *core, struct cay_pruned *out, struct cay_error *err);

/* Begins a job that brings it in from its registry, or joins the one that does. */
int cay_core_image_pull(struct cay_core *core, const struct cay_account *owner, const char *name,
                        enum cay_pull_policy policy, char job_out[CAY_ID_SIZE],
                        struct cay_error *err);
/* Its archive, a tar, as it is made: out_fd is to be read, non-blocking, and yours; end_fd gets a
 * byte when all of it was written. name: an image, or a snapshot of the caller's; tag: as what it
 * is loaded again, NULL: as itself.
 */
struct cay_export_ends {
    int out_fd, end_fd;
};
int cay_core_image_export(struct cay_core *core, const struct cay_account *owner, const char *name,
                          const char *tag, struct cay_export_ends *out, struct cay_error *err);

/* A job that takes an archive out of a pipe and loads what is in it: both ends are to be written,
 * non-blocking, and yours; end_fd wants a byte when all of it was written, and not else. as: see
 * cay_load_images. */
struct cay_load_ends {
    int data_fd, end_fd;
};
int cay_core_image_load(struct cay_core *core, const struct cay_account *owner, const char *as,
                        struct cay_load_ends *out, char job_out[CAY_ID_SIZE],
                        struct cay_error *err);

/* A job that builds it by recipe. CAY_ERR_NOT_FOUND, "NO_RECIPE"; CAY_ERR_INVALID with the field
 * "recipe". */
int cay_core_image_build(struct cay_core *core, const struct cay_account *owner,
                         const struct cay_recipe *what, char job_out[CAY_ID_SIZE],
                         struct cay_error *err);

/* For creates: is the name one that a registry is asked for? */
bool cay_images_are_asked_for(struct cay_core *core, const char *name, enum cay_pull_policy policy);
/* Is it here, from a registry that may have another under that name by now? */
bool cay_images_may_be_old(struct cay_core *core, const char *name);
struct cay_image_wish {
    const char *name;
    enum cay_pull_policy policy;
    bool brief; /* there is another way: a registry that does not answer is not waited for */
};
/* As above; `then` as struct cay_task_spec has it. */
int cay_images_pull(struct cay_core *core, const struct cay_account *owner,
                    const struct cay_image_wish *wish,
                    void (*then)(struct cay_core *core, void *arg, const struct cay_error *err),
                    void *then_arg, char job_out[CAY_ID_SIZE], struct cay_error *err);
/* What was pulled by its short name is here by this spelling too. */
int cay_images_spell(struct cay_core *core, const char *name, struct cay_error *err);
/* For core.c */
int cay_images_open(struct cay_core *core, const struct cay_config *cfg, struct cay_error *err);
void cay_images_close(struct cay_core *core);
