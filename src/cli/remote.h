/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of /api/v1: paths, bodies and answers as JSON, errors as sentences. */
#pragma once
#include "base/json.h"
#include "cli/cli.h"

#define CAY_REMOTE_PATIENCE_MS 60000 /* how long a server may be away before we give up */

const char *cay_remote_file(struct cay_arena *a, const void *values);
int cay_remote_open(struct cay_cli *cli, struct cay_error *err);
/* "/api/v1" and the words, each percent-encoded and set off by '/'; NULL ends them. */
const char *cay_remote_path(struct cay_cli *cli, ...) __attribute__((sentinel));
const char *cay_remote_quote(struct cay_arena *a, const char *word);

/* An answer that is an error, as the error it tells; 0 when it is none. */
int cay_remote_check(struct cay_cli *cli, const struct cay_client_answer *answer,
                     struct cay_error *err);
/* One call; the answer's JSON in the arena and as text in cli->raw. body may be NULL; wait_ms is
 * how long the server may be silent, 0 for the usual. */
int cay_remote_call(struct cay_cli *cli, const char *method, const char *path,
                    const struct cay_buf *body, int64_t wait_ms, const struct cay_json **out,
                    struct cay_error *err);
/* True when the server is away or overloaded, so that the same call may succeed later. */
bool cay_remote_may_retry(const struct cay_error *err);
/* As above for what may be asked twice: tries again while the server is away. */
int cay_remote_insist(struct cay_cli *cli, const char *method, const char *path,
                      const struct cay_json **out, struct cay_error *err);
/* Sleeps; CAY_ERR_CONFLICT when the user interrupted. */
int cay_remote_pause(struct cay_cli *cli, int64_t ms, struct cay_error *err);
