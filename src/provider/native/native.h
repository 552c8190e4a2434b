/* SPDX-License-Identifier: Apache-2.0 */
/* The native provider: a client of the engine. */
#pragma once
#include "provider/local.h"

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
