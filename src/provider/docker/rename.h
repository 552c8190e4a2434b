/* SPDX-License-Identifier: Apache-2.0 */
/* An image's archive under another name. In the Engine a name stands for one image to everybody, so
 * what an archive is to be called is never told there: the image is fetched by its id, and the name
 * is put in on the way. Everything but names passes as it came. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "file/tar.h"

enum cay_docker_part {
    CAY_DOCKER_HEAD,     /* it is held until all of it is there */
    CAY_DOCKER_BODY,     /* it passes */
    CAY_DOCKER_DOCUMENT, /* it is held, and another one goes on */
    CAY_DOCKER_END,
};

struct cay_docker_rename {
    const char *name; /* "repo:tag" */
    int (*out)(void *arg, const char *data, size_t len, struct cay_error *err);
    void *arg;
    /* The rest is zero at first. */
    enum cay_docker_part part;
    bool named;
    struct cay_buf held;
    uint64_t left;              /* of the part, with what fills up its last block */
    struct cay_tar_entry entry; /* whose part it is */
};

int cay_docker_rename_add(struct cay_docker_rename *x, const char *data, size_t len,
                          struct cay_error *err);
/* That was all of it: CAY_ERR_PROVIDER when it was no whole archive. */
int cay_docker_rename_end(const struct cay_docker_rename *x, struct cay_error *err);
void cay_docker_rename_free(struct cay_docker_rename **x); /* one of calloc's */
