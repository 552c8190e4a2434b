/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator reads: one JSON line per event on stderr, one write each. */
#pragma once
#include "base/attr.h"
#include "base/error.h"

/* who: "supervisor", "engine", "server"; set once per process. Level from CAY_LOG_LEVEL
 * (debug, info, warn, error; info when unset). */
void cay_log_init(const char *who);
void cay_log_debug(const char *fmt, ...) CAY_PRINTF(1, 2);
void cay_log_info(const char *fmt, ...) CAY_PRINTF(1, 2);
void cay_log_warn(const char *fmt, ...) CAY_PRINTF(1, 2);
/* err may be NULL; its code, message and cause become fields. */
void cay_log_error(const struct cay_error *err, const char *fmt, ...) CAY_PRINTF(2, 3);
