/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow. A zeroed buffer is an empty one; data is NULL until something was added. */
#pragma once
#include "base/attr.h"
#include <stdbool.h>
#include <stdint.h>

struct cay_buf {
    char *data;
    size_t len, cap;
};

void cay_buf_add(struct cay_buf *b, const void *data, size_t len);
void cay_buf_adds(struct cay_buf *b, const char *s);
void cay_buf_addf(struct cay_buf *b, const char *fmt, ...) CAY_PRINTF(2, 3);
void cay_buf_addc(struct cay_buf *b, char c);
/* Room for at least len more bytes behind data[len]; the caller adds to len what it used. */
char *cay_buf_room(struct cay_buf *b, size_t len);
void cay_buf_drop(struct cay_buf *b, size_t len); /* removes bytes from the front */
void cay_buf_done(struct cay_buf *b);             /* frees; the buffer is empty again */

#define CAY_AUTO_BUF CAY_CLEANUP(cay_buf_done)

/* To a descriptor that waits until it takes them. False with errno. */
bool cay_write_all(int fd, const void *data, size_t len);
