/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway of document 003's client: commands and files of one sandbox, opened by the token that
 * POST …/auth hands out. The path's {ns} is the account's id from there; it adds nothing to {id}.
 */
#pragma once
#include "api/dialect.h"
#include "api/file.h"
#include "api/openapi.h"

#define GATEWAY CAY_GATEWAY_PATH "/{ns}/{id}"

extern const struct cay_route cay_gateway_routes[];
/* Its errors have statuses as that client reads them: 408 for a command whose time is over, 409 for
 * a sandbox that does not run, 502 with "sandbox_not_found" for one that nobody knows. */
extern const struct cay_dialect cay_gateway_dialect;

/* files.c */
extern const struct cay_field cay_gateway_path_fields[], cay_gateway_window_fields[];
int cay_gateway_upload(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
int cay_gateway_download(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
int cay_gateway_read(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);

/* text.c: answers {"size","offset","total_size","truncated","content"}, content from a pipe, which
 * is the answer's from here on, or -1 when there is none to be read. */
struct cay_gateway_window {
    uint64_t offset, length, total;
};
int cay_gateway_text(struct cay_resp *resp, const struct cay_gateway_window *window, int fd);
