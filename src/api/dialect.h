/* SPDX-License-Identifier: Apache-2.0 */
/* What the dialects share: the HTTP status of an error code, and the form of an error. */
#pragma once
#include "base/error.h"
#include "http/response.h"

/* Where the gateway is, see api/gateway: POST …/auth tells it. */
#define CAY_GATEWAY_PATH "/gateway"

int cay_api_status(const struct cay_error *err);
/* "error":{"code","message","details"}, into the object that is open. */
void cay_api_shape_error(struct cay_json_writer *w, const struct cay_error *err);
/* {"error":{"code","message","details"}} and, for clients of /api/v1, "detail". */
void cay_api_error(const struct cay_req *req, const struct cay_error *err, struct cay_resp *resp);
/* The same with another status. */
void cay_api_error_as(const struct cay_req *req, const struct cay_error *err, int status,
                      struct cay_resp *resp);
/* Without "detail". */
void cay_api_error_bare(const struct cay_req *req, const struct cay_error *err,
                        struct cay_resp *resp);
