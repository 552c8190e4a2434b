/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator reads: one JSON line per event on stderr, one write each. */
#pragma once
#include "base/attr.h"
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

/* who: "supervisor", "engine", "server"; set once per process. Level from CAY_LOG_LEVEL
 * (debug, info, warn, error; info when unset). */
void cay_log_init(const char *who);
void cay_log_info(const char *fmt, ...) CAY_PRINTF(1, 2);
void cay_log_warn(const char *fmt, ...) CAY_PRINTF(1, 2);
/* An event that programs read: with fields of its own. Text beyond 2 KiB is cut. */
struct cay_log_field {
    const char *name;
    const char *text; /* NULL: it is a number */
    double number;
};
void cay_log_fields(bool only_debug, const char *msg, const struct cay_log_field *fields,
                    size_t count);
/* err may be NULL; its code, message and cause become fields. */
void cay_log_error(const struct cay_error *err, const char *fmt, ...) CAY_PRINTF(2, 3);
