/* SPDX-License-Identifier: Apache-2.0 */
/* The source that a sandbox begins with: a git repository or a tarball, fetched by the sandbox
 * itself, with its own programs and by its own way out. Nothing of it is opened or resolved here.
 */
#pragma once
#include "base/buf.h"
#include "core/service.h"

/* CAY_ERR_INVALID, "INVALID_SOURCE", with the field; never repeats a URL that has credentials. */
int cay_source_check(const struct cay_spec_source *s, struct cay_error *err);

/* What the credentials become, for who lasts longer than the request; NULL: there are none. It is
 * wiped when it goes. */
char *cay_source_login(const struct cay_spec_source *s);
void cay_source_logout(char **login);

/* One that is under way. */
struct cay_bringing {
    char exec_id[CAY_ID_SIZE]; /* empty: none is */
    enum cay_spec_source_kind kind;
    int64_t timeout_ms, until_ms; /* monotonic */
    uint64_t max_bytes;
    uint64_t offset;                                           /* in the log */
    char line[CAY_SOURCE_LINE + 1], next[CAY_SOURCE_LINE + 1]; /* said last; not ended yet */
};
/* The sandbox runs and has no way out yet: opens one for its source, beside what its policy allows,
 * and begins to fetch. */
int cay_source_begin(struct cay_core *core, const struct cay_sandbox *sb, const char *login,
                     struct cay_bringing *out, struct cay_error *err);
/* 1: it is there; 0: not yet. CAY_ERR_UNPROCESSABLE, "SOURCE_FAILED", or CAY_ERR_INVALID,
 * "BAD_ARCHIVE", with what the tool said last. */
int cay_source_look(struct cay_core *core, const char *sandbox_id, struct cay_bringing *f,
                    struct cay_error *err);
/* From now on it has the way out that its policy allows. */
int cay_source_end(struct cay_core *core, const struct cay_sandbox *sb, struct cay_bringing *f,
                   struct cay_error *err);
