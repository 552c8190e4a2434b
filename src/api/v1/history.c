/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: code history. */
#include "api/history.h"
#include "api/v1/v1.h"

#define AT "/api/v1/sandbox/{id}"

const struct cay_route cay_v1_history_routes[] = {
    {"GET", AT "/history", CAY_SCOPE_READ, cay_history_get, CAY_BODY_AUTO,
     CAY_DOC("Versions of the workspace, newest first", "History", .topic = "Code history")},
    {"GET", AT "/history/bundle", CAY_SCOPE_READ, cay_history_get_bundle, CAY_BODY_AUTO,
     CAY_DOC("All of it, for git clone", "application/x-git-bundle")},
    {"POST", AT "/diff", CAY_SCOPE_READ, cay_history_post_diff, CAY_BODY_AUTO,
     CAY_DOC("What differs between two versions; from the first to the last unless named", "Diff",
             .body = cay_history_diff_fields, .send = "{}")},
    {"POST", AT "/rollback", CAY_SCOPE_EXEC, cay_history_post_back, CAY_BODY_AUTO,
     CAY_DOC("Files as they were, as a version of its own; or one of them", "RolledBack",
             .body = cay_history_back_fields, .send = "{'executionId': 'COMMIT'}")},
    {0},
};
