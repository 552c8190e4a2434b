/* SPDX-License-Identifier: Apache-2.0 */
/* What a spec may say. Every refusal is CAY_ERR_INVALID with the field and its bound. */
#pragma once
#include "base/error.h"
#include "model/execution.h"
#include "model/spec.h"

/* The name may be absent. */
int cay_validate_spec(const struct cay_spec *spec, uint64_t host_memory_bytes,
                      struct cay_error *err);
int cay_validate_exec(const struct cay_exec_spec *spec, struct cay_error *err);
