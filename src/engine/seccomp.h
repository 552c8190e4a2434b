/* SPDX-License-Identifier: Apache-2.0 */
/* What system calls a sandbox may make: a program, built once and loaded by each pid 1. */
#pragma once
#include "base/error.h"
#include <linux/filter.h>

int cay_seccomp_build(struct sock_fprog *out, struct cay_error *err);
