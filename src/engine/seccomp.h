/* SPDX-License-Identifier: Apache-2.0 */
/* What system calls a sandbox may make. Two programs, built once and loaded by each pid 1: the list
 * of what is allowed, and one that looks at arguments the first cannot judge. */
#pragma once
#include "base/error.h"
#include <linux/filter.h>

struct cay_seccomp {
    struct sock_fprog allow, refine;
};

int cay_seccomp_build(struct cay_seccomp *out, struct cay_error *err);
/* Irrevocably, for the calling process and all its children; no_new_privs must be set. */
int cay_seccomp_load(const struct cay_seccomp *s, struct cay_error *err);
