/* SPDX-License-Identifier: Apache-2.0 */
/* Trees: a sandbox's files, snapshots of them, and volumes that no sandbox has. Spawners' work.
 *
 * Each is one directory below files_fd, named by its id (sb-, sn-, vo-), and what the disk makes of
 * it where there is one, a subvolume or a project:
 *   image      the image's settings, as they were at the first create; not in a volume
 *   upper      what the sandbox wrote; of a volume only upper/workspace
 *   work       overlayfs' own
 *   init.sock  pid 1's
 *   volume     the volume's id: such a tree is never removed, its workspace is kept
 *   inherited  in a copy: the bytes it began with, and how it was made
 *   old        rubbish, removed by and by; a file of the tree's name in the trash says so
 * Beside them lie empty ones for sandboxes to come (leftover.h), and on XFS `trash`.
 * A copy is made as new-<id> and renamed when it is whole. A tree becomes a volume, and a volume a
 * sandbox's tree, by steps that can be cut anywhere and begun again. */
#pragma once
#include "engine/engine.h"
#include "engine/message.h"

#define CAY_TREE_NEW "new-"
#define CAY_TREE_OLD "old"
/* A copy for a backup is new-<id>, with this in place of the id's first letter, and never renamed.
 */
#define CAY_TREE_BACKUP "b"

/* As `from` is now, which may be at work. `disk_bytes` is what it may have, or 0 for a snapshot,
 * which is on the disk when this returns. One that is there already is found.
 * CAY_ERR_NOT_FOUND, "SNAPSHOT_NOT_FOUND"; CAY_ERR_CONFLICT, "DISK_FULL". */
int cay_tree_copy(const struct cay_engine *e, const char *from, const char *id, uint64_t disk_bytes,
                  struct cay_engine_copied *out, struct cay_error *err);
/* The volume becomes the sandbox's tree. CAY_ERR_NOT_FOUND, "VOLUME_NOT_FOUND". */
int cay_tree_attach(const struct cay_engine *e, const char *volume, const char *id,
                    uint64_t disk_bytes, struct cay_error *err);
/* What it may have, with what it inherited. Without a disk there is no limit. */
int cay_tree_limit(const struct cay_engine *e, const char *id, uint64_t disk_bytes,
                   struct cay_error *err);
/* Out of sight; gone already is no error. Its workspace becomes `volume` when that is given, else
 * the volume that the tree names, unless drop_volume. */
int cay_tree_remove(const struct cay_engine *e, const char *id, const char *volume,
                    bool drop_volume, struct cay_error *err);
int cay_tree_undo(const struct cay_engine *e, const char *id, struct cay_error *err); /* new-<id> */
/* As `from` is now, for as long as a backup needs it. */
int cay_tree_backup(const struct cay_engine *e, const char *from, const char *id,
                    struct cay_engine_copied *out, struct cay_error *err);
/* What an earlier engine did not finish, CAY_TREE_NEW, or of it only what was for a backup; or what
 * it put by. */
void cay_trees_clear(const struct cay_engine *e, const char *prefix);
