/* SPDX-License-Identifier: Apache-2.0 */
/* An execution over WebSocket, terminals above all. */
#pragma once
#include "base/fields.h"
#include "http/response.h"

extern const struct cay_field cay_api_attach_fields[], cay_api_terminal_fields[];
int cay_api_attach(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
int cay_api_terminal(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
