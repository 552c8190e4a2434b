/* SPDX-License-Identifier: Apache-2.0 */
/* What system calls a sandbox may make: a program, built once and loaded by each pid 1. */
#pragma once
#include "base/error.h"
#include <linux/filter.h>

int cay_seccomp_build(struct sock_fprog *out, struct cay_error *err);
/* Irrevocably, for the calling process and all its children; no_new_privs must be set. */
int cay_seccomp_load(const struct sock_fprog *program, struct cay_error *err);
