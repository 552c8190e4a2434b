/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: one operation of cay-file in a child, with pipes as the server would have them. */
#pragma once
#include "file/proto.h"

struct tried {
    bool answered; /* the reply is one */
    struct cay_file_reply reply;
    struct cay_buf data; /* what followed */
};

struct try_input {
    const void *data;
    size_t len;
    bool uncommitted; /* its sender vanished */
};

/* cwd is the test's directory unless the request has another. Input may be NULL. */
struct tried try_file(struct cay_file_request rq, const struct try_input *in);
void try_done(struct tried *t);
#define AUTO_TRIED CAY_CLEANUP(try_done)

/* In the test's directory. */
const char *try_path(const char *name); /* until the next call but three */
void try_put(const char *name, const char *content);
const char *try_get(const char *name); /* NULL: cannot be read; until the next call */
size_t try_count(const char *dir);     /* of entries */
