/* SPDX-License-Identifier: Apache-2.0 */
/* The server process: core, HTTP and every dialect, put together. */
#pragma once
#include "api/openapi.h"
#include "core/service.h"
#include "http/server.h"
#include "model/config.h"

/* Serves until SIGTERM or SIGINT (drains; the second one ends at once). Returns an exit status.
 * Prints `ready URL` on stdout when requests are accepted. */
int cay_server_run(const struct cay_config *cfg);
/* The same with a core that is there already, for tests: a server that is not running yet. There is
 * one application in a process. */
int cay_app_open(const struct cay_config *cfg, struct cay_core *core, struct cay_http_server **out,
                 struct cay_error *err);
void cay_app_close(struct cay_http_server *server);
/* Every route there is, NULL-terminated: for the test that walks them. */
extern const struct cay_route *const cay_app_tables[];
/* And those whose they are; the first one's are all that have no other. */
extern const struct cay_dialect *const cay_app_dialects[];
