/* SPDX-License-Identifier: Apache-2.0 */
/* Where sandboxes' files lie, and how much of it each may take.
 *
 * Each sandbox's files are a tree with a quota: what that is, the filesystem's ops say. Where the
 * data directory's own filesystem can do it they lie in DATA/engine/disk; else that is the mount
 * point of DATA/engine/disk.img, an image that we make, never sparse, and grow. Where neither is
 * possible files lie in the sandbox's own directory, without a limit, and health says so. */
#pragma once
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct cay_disk {
    const struct cay_disk_ops *ops; /* of the filesystem; NULL where there is no disk */
    const char *kind;               /* "xfs", "btrfs", "loop-btrfs", "loop-xfs", "none" */
    struct cay_error none;          /* why there is none */
    int fd;                         /* one tree per sandbox, by its id; -1 none */
    int image_fd, loop_fd;          /* of a loop image, else -1 */
    int groups_fd;                  /* btrfs: what the kernel tells of quota groups; -1 nothing */
    int trash_fd;                   /* where removed trees wait to be emptied; -1 they need not */
    int lock_fd;                    /* XFS: held by who looks for a free project */
};

#define CAY_DISK_NONE                                                                              \
    {                                                                                              \
        .kind = "none", .fd = -1, .image_fd = -1, .loop_fd = -1, .groups_fd = -1, .trash_fd = -1,  \
        .lock_fd = -1                                                                              \
    }

/* How a copy's quota is counted where the kernel counts what a copy shares to whoever wrote it:
 * what it began with stands in a file of its tree, and is counted to it as well. */
#define CAY_DISK_INHERITED "inherited"

/* At a start of a full sandbox its limit is higher by so much, for overlayfs to make what it needs
 * to come up writable. */
#define CAY_DISK_RESERVE_BYTES (16 << 20)

/* What a limit leaves in any case, for the same. */
#define CAY_DISK_LEAST_BYTES (1 << 20)

#define CAY_DISK_NO_LIMIT UINT64_MAX

/* A filesystem that limits trees. All but the first four are called with its disk open; the
 * contracts are those of the functions below that have their names. */
struct cay_disk_ops {
    const char *kind, *image_kind; /* where the data directory is on it, and in an image */
    const char *filesystem;        /* as the kernel calls it */
    unsigned long magic;           /* of statfs */
    const char *feature;           /* a file that the kernel shows where it has such quotas */
    const char *lack;              /* what is told where it has not */
    struct {
        int at;
        char text[9];
    } mark; /* what an image with it has in it */
    /* How an image is mounted; a NULL key ends them. */
    const struct {
        const char *key, *value; /* NULL: a flag */
    } options[4];
    /* Makes the filesystem in the file `image`. */
    int (*format)(int engine_fd, const char *image, struct cay_error *err);
    /* Quotas are on afterwards, and what belongs to them is open. CAY_ERR_UNSUPPORTED. */
    int (*open)(struct cay_disk *d, struct cay_error *err);
    /* It takes all of a device that has grown. */
    int (*adapt)(const struct cay_disk *d, struct cay_error *err);
    int (*make)(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err);
    int (*limit)(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err);
    /* Optional: else trees are copied file by file. */
    int (*snapshot)(const struct cay_disk *d, int from_fd, const char *name, struct cay_error *err);
    int (*remove)(const struct cay_disk *d, const char *id, struct cay_error *err);
    bool (*usage)(const struct cay_disk *d, const char *id, uint64_t *used_out,
                  uint64_t *limit_out);
    void (*sweep)(const struct cay_disk *d); /* optional */
    off_t inline_bytes; /* smaller files lie in its own trees: to write one out takes no block */
};

extern const struct cay_disk_ops cay_disk_btrfs, cay_disk_xfs;

/* Once, in the engine's own mount namespace. Fails only when there is an image that cannot be
 * mounted, or trees whose quotas are gone: what is there must not be taken for lost. `files_fd` is
 * where files lie without a disk, and is replaced by the disk where there is one. */
int cay_disk_open(struct cay_disk *d, int engine_fd, int *files_fd, struct cay_error *err);
/* What is mounted stays. */
void cay_disk_close(struct cay_disk *d);

/* With a limit from the first byte, or CAY_DISK_NO_LIMIT. One that is there already gets the limit.
 */
int cay_disk_make(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err);
/* What it may have, with what it inherited; never less than CAY_DISK_LEAST_BYTES. */
int cay_disk_limit(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err);
/* Are trees copied as they are at one moment, whoever is writing to them? */
bool cay_disk_can_snapshot(const struct cay_disk *d);
/* So: on the disk on return. No limit. */
int cay_disk_snapshot(const struct cay_disk *d, int from_fd, const char *name,
                      struct cay_error *err);
/* Out of sight at once; the space comes back by and by. Gone already is no error. */
int cay_disk_remove(const struct cay_disk *d, const char *id, struct cay_error *err);
/* What is counted to it now, and may be at most; false where nobody counts. Does not wait. */
bool cay_disk_usage(const struct cay_disk *d, const char *id, uint64_t *used_out,
                    uint64_t *limit_out);
/* A file that will hardly be read again: where it is small enough to lie in the disk's own trees,
 * no page of memory is kept for it, and its tree is not written a second time when that page is. */
void cay_disk_forget(const struct cay_disk *d, int dir_fd, const char *path);
/* What the kernel keeps of trees that are gone. */
void cay_disk_sweep(const struct cay_disk *d);

/* Is there room for one more? What little is left belongs to those who are there.
 * CAY_ERR_HOST_FULL.
 */
int cay_disk_check(int files_fd, int records_fd, struct cay_error *err);
/* What all together may still take, growth included. `files_fd` as cay_disk_open left it. */
uint64_t cay_disk_room(const struct cay_disk *d, int files_fd);
/* What the image should grow by now; 0 nothing, or nothing more is possible. Does not wait. */
uint64_t cay_disk_wants(const struct cay_disk *d);
int cay_disk_grow(const struct cay_disk *d, uint64_t step_bytes, struct cay_error *err);

/* The rules of growth, for the above and its test. 0: no. */
uint64_t cay_disk_first_bytes(uint64_t host_free_bytes);
uint64_t cay_disk_step_bytes(uint64_t size_bytes, uint64_t inside_free_bytes,
                             uint64_t host_free_bytes);
/* All steps that are possible, one after the other. */
uint64_t cay_disk_reach_bytes(uint64_t size_bytes, uint64_t host_free_bytes);

/* For format: runs a program in that directory, by its name, without input and output. `package` is
 * where it comes from. */
int cay_disk_run(int engine_fd, const char *const argv[], const char *package,
                 struct cay_error *err);
