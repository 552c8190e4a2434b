/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data, read in whatever pieces it comes. */
#pragma once
#include <stddef.h>

#define CAY_MULTIPART_BOUNDARY 70 /* RFC 2046 */
#define CAY_MULTIPART_HEAD 4096   /* of one part */

enum cay_multipart_what {
    CAY_MULTIPART_NEED, /* all input is used */
    CAY_MULTIPART_PART, /* name and file are set */
    CAY_MULTIPART_DATA, /* data and len */
    CAY_MULTIPART_PART_END,
    CAY_MULTIPART_END, /* what follows is not ours */
    CAY_MULTIPART_BAD,
};

struct cay_multipart {
    int state;
    char delimiter[4 + CAY_MULTIPART_BOUNDARY + 1];
    size_t delimiter_len, matched;
    char head[CAY_MULTIPART_HEAD];
    size_t head_len;
    /* of the part under way */
    char name[256], file[256]; /* file: "" when none was given */
    const char *data;          /* in the input, or in here: until the next call */
    size_t len;
};

/* False when this is no boundary. */
int cay_multipart_init(struct cay_multipart *m, const char *boundary);
/* Takes from the input what one event needs. */
enum cay_multipart_what cay_multipart_next(struct cay_multipart *m, const char **in, size_t *len);
