/* SPDX-License-Identifier: Apache-2.0 */
/* The audit's files; for audit.c and audit_read.c. */
#pragma once
#include "base/arena.h"
#include "base/str.h"

#define CAY_AUDIT_DAY 11 /* 2026-11-15 and its NUL */
#define CAY_AUDIT_NAME 24

struct cay_audit;

int cay_audit_dir(const struct cay_audit *audit);
const char *cay_audit_name(const char *day, char out[CAY_AUDIT_NAME]);
/* Days that have a file, newest first. */
void cay_audit_days(int dir_fd, struct cay_arena *a, struct cay_strs *out);
