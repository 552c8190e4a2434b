/* SPDX-License-Identifier: Apache-2.0 */
/* Which handler a path and method lead to. Compiled once; then any thread may ask. */
#pragma once
#include "http/request.h"

struct cay_router;

/* The tables must live as long as the router. A pattern that is given twice with one method, or
 * has more than CAY_HTTP_PARAMS parameters: CAY_ERR_INVALID. */
int cay_router_new(const struct cay_route *const *tables, struct cay_router **out,
                   struct cay_error *err);
void cay_router_free(struct cay_router *r);
/* Sets req->route and params, or req->allow when the path is known and the method is not. Fails
 * with CAY_ERR_INVALID "INVALID_PATH" (a broken escape, an encoded NUL or slash, no UTF-8),
 * CAY_ERR_NOT_FOUND "ROUTE_NOT_FOUND" or CAY_ERR_METHOD "METHOD_NOT_ALLOWED". */
int cay_router_match(const struct cay_router *r, struct cay_req *req, struct cay_error *err);
