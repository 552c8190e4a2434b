/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with one owner and one end. What a request needs lives in its arena and goes with it.
 * All memory is zeroed. Running out aborts: sizes from outside are held against a limit first. */
#pragma once
#include "base/attr.h"

struct cay_arena {
    struct cay_arena_block *head; /* a zeroed arena is an empty one */
};

void *cay_arena_alloc(struct cay_arena *a, size_t size);
char *cay_arena_strdup(struct cay_arena *a, const char *s); /* NULL stays NULL */
char *cay_arena_strndup(struct cay_arena *a, const char *s, size_t len);
char *cay_arena_printf(struct cay_arena *a, const char *fmt, ...) CAY_PRINTF(2, 3);
/* Room for one more behind `count`, in a list that begins with `at` and was made by this alone. */
void *cay_arena_room(struct cay_arena *a, void *at, size_t count, size_t size);
/* Empties it but keeps a block, for one that is filled again and again. */
void cay_arena_reset(struct cay_arena *a);
void cay_arena_done(struct cay_arena *a);

#define CAY_AUTO_ARENA CAY_CLEANUP(cay_arena_done)
