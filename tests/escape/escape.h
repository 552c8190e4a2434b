/* SPDX-License-Identifier: Apache-2.0 */
/* What code inside a sandbox tries. Arguments are chosen so that an open door does no harm. Names
 * that begin with "ok_" are the opposite: what must work. Both tables end with an empty entry. */
#pragma once

struct call {
    const char *name;
    long number;
    long args[5];
};

struct trick {
    const char *name;
    long (*run)(long arg); /* a negative errno when refused */
    long arg;
};

extern const struct call calls[];
extern const struct trick tricks[];
extern char inherited[256]; /* descriptors above 2 that came along */
