/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fake share. */
#pragma once
#include "provider/fake/fake.h"
#include "provider/fake/runs.h"
#include <pthread.h>

struct cay_fake {
    struct cay_provider base;
    struct cay_queue *events;
    pthread_mutex_t lock;
    struct cay_fake_box *boxes;
    struct cay_fake_tree *kept;
    int fail_at; /* counts down; at 1 the call fails */
    bool failed, spare_destroy;
    uint64_t room_bytes;
    bool built, builds_held;
    int builds;
    const void *file_says; /* borrowed */
    size_t file_says_len;
};

static inline struct cay_fake *cay_fake_of(struct cay_provider *p)
{
    return (struct cay_fake *)p;
}

static inline void cay_fake_unlock(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}

#define CAY_FAKE_LOCKED(f)                                                                         \
    CAY_CLEANUP(cay_fake_unlock) pthread_mutex_t *locked = &(f)->lock;                             \
    pthread_mutex_lock(locked)

/* All under the lock. */
int cay_fake_fails(struct cay_fake *f, struct cay_error *err); /* when it was ordered to */
struct cay_fake_box *cay_fake_box(struct cay_fake *f, const char *id);
/* One whose pid 1 can be spoken to; a real one that is paused does not answer in time. */
int cay_fake_awake(struct cay_fake *f, const char *id, struct cay_fake_box **out,
                   struct cay_error *err);

/* exec.c */
int cay_fake_exec(struct cay_provider *p, const char *id, const char *exec_id,
                  const struct cay_exec_spec *spec, int log_fd, struct cay_error *err);
int cay_fake_kill(struct cay_provider *p, const char *id, const char *exec_id, int sig,
                  struct cay_error *err);
int cay_fake_input(struct cay_provider *p, const char *id, const char *exec_id, int input_fd,
                   int end_fd, struct cay_error *err);
int cay_fake_resize(struct cay_provider *p, const char *id, const char *exec_id,
                    struct cay_window window, struct cay_error *err);
int cay_fake_file(struct cay_provider *p, const char *id, const struct cay_file_request *rq,
                  const struct cay_file_pipes *pipes, int64_t timeout_ms, struct cay_error *err);
/* build.c; the first under the lock */
bool cay_fake_has_image(const struct cay_fake *f, const char *image);
int cay_fake_build(struct cay_provider *p, const struct cay_recipe *what,
                   const struct cay_build_watch *watch, struct cay_error *err);
int cay_fake_recipes(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                     struct cay_error *err);
int cay_fake_executions(struct cay_provider *p, const char *id, struct cay_arena *a,
                        struct cay_strs *out, struct cay_error *err);
