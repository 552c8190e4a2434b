/* SPDX-License-Identifier: Apache-2.0 */
/* /api/sandbox: documents 000 and 004. The same sandboxes as in /api/v1, with other words: status
 * in lower case, sizes like "512m", times without fractions, `containerId` for the id. What both
 * have alike (logs, terminals, history) lies in src/api itself. */
#pragma once
#include "api/body.h"
#include "api/openapi.h"
#include "http/response.h"
#include "model/limits.h"

#define CAY_SANDBOX_PATH "/api/sandbox"

extern const struct cay_route cay_sandbox_routes[], cay_sandbox_exec_routes[],
    cay_sandbox_history_routes[];
extern const struct cay_dialect cay_sandbox_dialect; /* shape.c */

/* spec.c: the body of a create. */
extern const struct cay_field cay_sandbox_spec_fields[];
int cay_sandbox_decode_spec(struct cay_req *req, struct cay_spec *spec, struct cay_error *err);

/* shape.c */
/* 201: it was created just now. */
void cay_sandbox_shape_made(struct cay_req *req, struct cay_resp *resp,
                            const struct cay_sandbox *sb);
/* All there is to tell of one. */
void cay_sandbox_shape(struct cay_req *req, struct cay_resp *resp, const struct cay_sandbox *sb);
void cay_sandbox_shape_list(struct cay_req *req, struct cay_resp *resp,
                            const struct cay_sandbox_list *list);
/* What went wrong with a create, in document 004's words; returns r. */
int cay_sandbox_not_made(const char *image_name, int r, struct cay_error *err);
