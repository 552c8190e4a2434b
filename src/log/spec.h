/* SPDX-License-Identifier: Apache-2.0 */
/* The SPEC record: what was asked for, as JSON that fits one block. Of the environment only the
 * names: values may be secrets, and a log is read by more people than may write. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "model/execution.h"

/* A command too long for the block is cut, with "cut": true. */
void cay_log_spec_write(const struct cay_exec_spec *spec, struct cay_buf *out);
/* argv, text and tty, in the arena. CAY_ERR_INTERNAL "LOG_DAMAGED" when it is no spec. */
int cay_log_spec_read(struct cay_arena *a, const char *data, size_t len, struct cay_execution *out,
                      struct cay_error *err);
