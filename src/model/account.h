/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks, and what he may. */
#pragma once
#include <stdbool.h>

#define CAY_LOCAL_ACCOUNT "local"

/* What a route needs, and what a token allows: one bit each. A token's write includes exec and
 * read, its exec includes read. */
enum cay_scope {
    CAY_SCOPE_NONE = 0,    /* no token needed */
    CAY_SCOPE_READ = 1,    /* looks */
    CAY_SCOPE_EXEC = 2,    /* works inside one sandbox: commands, files, terminals */
    CAY_SCOPE_WRITE = 4,   /* makes, changes and removes */
    CAY_SCOPE_ACCOUNT = 8, /* keys and teams */
    CAY_SCOPE_ADMIN = 16,  /* the operator's: accounts and quotas; no token has it */
    CAY_SCOPE_IMAGES = 32, /* changes images that all share: the operator's as well, but where no
                              token is needed everybody's */
};

struct cay_account {
    const char *id;     /* "local" when authentication is off; a team's for a key of a team */
    unsigned scopes;    /* of enum cay_scope: what its token allows */
    const char *only;   /* a sandbox's own token: that id and nothing else; or NULL */
    const char *key_id; /* of the key that was shown; or NULL */
    bool reads;         /* the request at hand changes nothing: a viewer of a team may make it */
};
