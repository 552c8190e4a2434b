/* SPDX-License-Identifier: Apache-2.0 */
/* The image store as a directory, which several servers may share:
 *
 *   refs/NAME            what an image is made of: text, see image/text.h
 *   layers/DIFFID/       trees, 0-based; closed to everybody but root, for the sake of what is
 *                        setuid in there
 *   meta/DIFFID          what is known of a layer: bytes, entries
 *   meta/DIFFID.dirs     see engine/implied.h
 *   fits/                see engine/image.h
 *   uses/INSTANCE/KEY    text of an image of which that server has sandboxes or snapshots; `data`
 *                        beside them is where the server's own directory is
 *   tmp/layer-*          being unpacked, and locked (flock) by whoever does it
 *   tmp/lock-DIFFID      held while a layer is unpacked: it is done once
 *   lock                 held shared while an image is looked up and its use written down, and
 *                        alone while what nobody needs is moved away
 *
 * What has its final name is whole and on the disk. */
#pragma once
#include "engine/engine.h"
#include "engine/image.h"
#include "engine/message.h"

/* Makes the directories. */
int cay_shelf_prepare(int images_fd, struct cay_error *err);
bool cay_shelf_is_digest(const char *hex); /* 64 of [0-9a-f] */
/* A name that may be a ref's: letters, digits and ._:/@-, and no more than the limit. */
bool cay_shelf_is_name(const char *name);
bool cay_shelf_has_layer(int images_fd, const char *diff_id);
/* While this is open nothing is pruned, or with `alone` nobody looks anything up. */
int cay_shelf_lock(int images_fd, bool alone, int *fd_out, struct cay_error *err);
/* This server has something that was made from the image. */
int cay_shelf_use(const struct cay_engine *e, const struct cay_image *image, const char *text,
                  struct cay_error *err);
/* What is known of a layer; found out where nobody did before. */
struct cay_shelf_meta {
    uint64_t bytes, entries;
    char tar_digest[65]; /* of its tar as export writes it, or empty */
    uint64_t tar_bytes;
};
void cay_shelf_read_meta(int images_fd, const char *diff_id, struct cay_shelf_meta *out);
int cay_shelf_write_meta(int images_fd, const char *diff_id, const struct cay_shelf_meta *meta,
                         struct cay_error *err);

/* Each of these is one request, answered in a child. */
int cay_shelf_put(int images_fd, const char *name, int text_fd, struct cay_error *err);
int cay_shelf_remove(int images_fd, const char *name, struct cay_error *err);
int cay_shelf_list(const struct cay_engine *e, const char *name, int to, struct cay_error *err);
/* build.c: removes what builds left that nobody is at any more. */
void cay_build_sweep(int images_fd);
/* prune.c */
int cay_shelf_prune(const struct cay_engine *e, struct cay_engine_pruned *out,
                    struct cay_error *err);
/* After a start: what was being unpacked when an engine died is removed, and the uses of this
 * server are written down again. */
void cay_shelf_sweep(const struct cay_engine *e);
/* The name of an image's use. */
#define CAY_SHELF_KEY_SIZE 64
void cay_shelf_key(const struct cay_image *image, char out[CAY_SHELF_KEY_SIZE]);
/* Calls for the text of each image that a sandbox or snapshot of this server was made from. Fails
 * when one cannot be read. */
int cay_shelf_each_use(const struct cay_engine *e,
                       void (*each)(void *arg, const struct cay_image *image, const char *text),
                       void *arg, struct cay_error *err);
