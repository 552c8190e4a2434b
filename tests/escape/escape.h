/* SPDX-License-Identifier: Apache-2.0 */
/* What code inside a sandbox tries. Arguments are chosen so that an open door does no harm. Names
 * that begin with "ok_" are the opposite: what must work. Every table ends with an empty entry. */
#pragma once

/* Of an open door. HIGH: rights over the host, pid 1 or another sandbox are a step away. MEDIUM:
 * more of the kernel to attack than a program needs, or something of the host to change. LOW: it
 * only tells something, or weakens one of several guards. */
enum severity { NONE = '-', HIGH = 'H', MEDIUM = 'M', LOW = 'L' };

struct call {
    const char *name;
    enum severity severity;
    long number;
    long args[5];
};

struct trick {
    const char *name;
    enum severity severity;
    long (*run)(long arg); /* a negative errno when refused */
    long arg;
};

/* Whatever the error: a path that does not open is shut. */
struct path {
    const char *how; /* write: opens for it; read: gives a byte; list: has an entry */
    enum severity severity;
    const char *path;
};

extern const struct call calls[];
extern const struct trick tricks[], facts[];
extern const struct path paths[];
long try_path(const struct path *p); /* a negative errno when refused */
extern char inherited[256];          /* descriptors above 2 that came along */
