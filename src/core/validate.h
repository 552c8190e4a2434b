/* SPDX-License-Identifier: Apache-2.0 */
/* What a spec may say. Every refusal is CAY_ERR_INVALID with the field and its bound. */
#pragma once
#include "base/error.h"
#include "model/execution.h"
#include "model/spec.h"

/* What the host can give. */
struct cay_host {
    uint64_t memory_bytes; /* to one sandbox */
    uint64_t disk_bytes;   /* free; 0: cannot be told */
};

/* What nobody asked for and the host cannot give becomes what it can: who asked for nothing in
 * particular is not refused. */
void cay_validate_fit(struct cay_spec *spec, const struct cay_host *host);
/* The name may be absent. */
int cay_validate_spec(const struct cay_spec *spec, const struct cay_host *host,
                      struct cay_error *err);
/* A value of NULL, where one is to be removed, is well. */
int cay_validate_secrets(const struct cay_pairs *secrets, struct cay_error *err);
int cay_validate_window(const struct cay_window *window, struct cay_error *err);
int cay_validate_exec(const struct cay_exec_spec *spec, struct cay_error *err);
/* What a snapshot may be called; NULL is well. */
int cay_validate_title(const char *name, struct cay_error *err);
int cay_validate_port(const struct cay_port *port, struct cay_error *err);
int cay_validate_user(const char *user, struct cay_error *err); /* NULL is the sandbox's */
