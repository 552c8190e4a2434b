/* SPDX-License-Identifier: Apache-2.0 */
/* Scoped variables: the compiler runs the clean-up on every way out of the block. */
#pragma once
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define CAY_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define CAY_CLEANUP(fn) __attribute__((cleanup(fn)))
#define CAY_NORETURN __attribute__((noreturn))
#define CAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline void cay_close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* nothing a caller could do about it */
    *fd = -1;
}

static inline void cay_free_ptr(void *ptr)
{
    free(*(void **)ptr);
}

/* Moves the descriptor out of its scoped variable. */
static inline int cay_take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

static inline void *cay_take_ptr(void *ptr)
{
    void *taken = *(void **)ptr;
    *(void **)ptr = NULL;
    return taken;
}

#define CAY_AUTO_FD CAY_CLEANUP(cay_close_fd)
#define CAY_AUTO_FREE CAY_CLEANUP(cay_free_ptr)
