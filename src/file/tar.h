/* SPDX-License-Identifier: Apache-2.0 */
/* The form of tar files: ustar, with pax records and GNU's long names. Bytes only, no files. */
#pragma once
#include "base/buf.h"
#include "model/limits.h"
#include <stdbool.h>

#define CAY_TAR_BLOCK 512

enum cay_tar_type {
    CAY_TAR_FILE = '0',
    CAY_TAR_HARD_LINK = '1',
    CAY_TAR_LINK = '2',
    CAY_TAR_DIR = '5',
    CAY_TAR_OTHER = '?', /* devices, pipes, and what nobody has heard of */
};

struct cay_tar_entry {
    enum cay_tar_type type;
    char path[CAY_MAX_PATH + 1], link[CAY_MAX_PATH + 1];
    uint64_t size; /* of the data that follows */
    uint32_t mode; /* permissions only */
    uint64_t uid, gid;
    int64_t mtime;
};

/* The blocks that go before an entry's data. */
void cay_tar_write(const struct cay_tar_entry *e, struct cay_buf *out);

struct cay_tar {
    bool (*get)(void *arg, void *data, size_t len); /* all of it, or false */
    void *arg;
    /* Optional: extended attributes of the entry that comes next, as GNU tar and star have them. */
    void (*xattr)(void *arg, const char *name, const char *value, size_t len);
    const char *why; /* static: what is wrong */
    uint64_t left, pad;
};

/* 1: an entry; 0: the end; -1: no tar, see why. What was not read of the last entry is passed
 * over. */
int cay_tar_next(struct cay_tar *t, struct cay_tar_entry *out);
/* The next bytes of the entry's data, exactly len of them; no more than it has. */
bool cay_tar_read(struct cay_tar *t, void *data, size_t len);
