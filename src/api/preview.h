/* SPDX-License-Identifier: Apache-2.0 */
/* Previews: what listens on a sandbox's port, seen from outside.
 *
 * Each has a host of its own, PORT-ID.DOMAIN, so that a browser keeps it apart from the API and
 * from other sandboxes; programs may use /p/ID/PORT/… on the API's host instead. A request for such
 * a host never reaches the API, whatever its path. */
#pragma once
#include "api/auth.h"
#include "http/response.h"

#define CAY_PREVIEW_URL 320
#define CAY_PREVIEW_PARAM "cay_link" /* of a signed link, in the query */

/* The configuration and auth must live on. CAY_ERR_INVALID for a domain that is none. */
int cay_preview_open(const struct cay_config *cfg, const struct cay_auth *auth,
                     struct cay_error *err);
void cay_preview_url(const char *sandbox_id, unsigned port, char out[CAY_PREVIEW_URL]);
/* HOST:PORT of the same. */
void cay_preview_address(const char *sandbox_id, unsigned port, char out[CAY_PREVIEW_URL]);
/* The {port} of a route's path. CAY_ERR_INVALID. */
int cay_preview_port(const struct cay_req *req, uint64_t *out, struct cay_error *err);

/* What those have that take a preview, whatever its method is; no router knows them. */
extern const struct cay_route cay_preview_routes[];
/* For the server: see struct cay_http_app. */
const struct cay_route *cay_preview_divert(const struct cay_req *req);
bool cay_preview_recall(struct cay_req *req, struct cay_resp *resp);
bool cay_preview_is(const struct cay_req *req);
/* Ahead of the handler: is the Host of a path's form ours, and does no foreign page ask? */
int cay_preview_guard(const struct cay_req *req, unsigned port, struct cay_error *err);
/* A small page for people, JSON for programs. */
void cay_preview_error(const struct cay_req *req, const struct cay_error *err,
                       struct cay_resp *resp);

/* What a host or path names. For tests, too. */
struct cay_preview_target {
    char sandbox_id[24];
    unsigned port;
    size_t prefix; /* bytes of the path that say so; 0: the host did */
};
enum cay_preview_kind {
    CAY_PREVIEW_NONE,  /* it is not below the domain */
    CAY_PREVIEW_WRONG, /* it is, and names no port of a sandbox */
    CAY_PREVIEW_NAMED,
};
enum cay_preview_kind cay_preview_of_host(const char *host, const char *domain,
                                          struct cay_preview_target *out);
enum cay_preview_kind cay_preview_of_path(const char *path, struct cay_preview_target *out);
