/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts, teams, keys and quotas, as their records tell them. Strings belong to the arena they
 * were read into.
 *
 * A team is an account that several people have: what is the team's has the team's id where else an
 * account's stands, so that every rule about accounts holds for teams as it is. */
#pragma once
#include "base/id.h"
#include "model/account.h"
#include <stddef.h>
#include <stdint.h>

/* Sums over all that an account, or a team, has. */
enum cay_quota_kind {
    CAY_QUOTA_SANDBOXES,
    CAY_QUOTA_CPU_MILLI,
    CAY_QUOTA_MEMORY_BYTES,
    CAY_QUOTA_DISK_BYTES,
    CAY_QUOTA_EXECUTIONS, /* at once */
    CAY_QUOTA_LOG_BYTES,
    CAY_QUOTA_EGRESS_BYTES, /* both ways, in a day of UTC */
    CAY_QUOTA_CONNECTIONS,  /* out of sandboxes, at once */
    CAY_QUOTAS,
};

#define CAY_QUOTA_NONE (-1)

struct cay_quota {
    int64_t at[CAY_QUOTAS]; /* CAY_QUOTA_NONE: no bound */
};

const char *cay_quota_name(enum cay_quota_kind kind); /* "memoryBytes" */
double cay_quota_unit(enum cay_quota_kind kind);      /* what one is on the wire: 1000 for vcpus */
struct cay_quota cay_quota_none(void);

/* Who can have sandboxes. */
struct cay_holder {
    char id[CAY_ID_SIZE]; /* ac-… or tm-…; "local" */
    bool is_team;
    const char *name; /* of accounts unique; one that a JWT made is jwt: and its subject */
    struct cay_quota quota;
    int64_t created_at_ms;
    int64_t deleted_at_ms; /* 0: it lives */
};

enum cay_role {
    CAY_ROLE_NONE,
    CAY_ROLE_VIEWER, /* looks */
    CAY_ROLE_MEMBER, /* works with what the team has */
    CAY_ROLE_OWNER,  /* and says who belongs to it */
};

const char *cay_role_name(enum cay_role role);             /* "viewer" */
bool cay_role_parse(const char *name, enum cay_role *out); /* of the last three */

struct cay_member {
    const char *team_id, *account_id;
    enum cay_role role; /* CAY_ROLE_NONE: does not belong to it (any more) */
    int64_t added_at_ms;
    const char *team_name, *account_name; /* when read */
};

#define CAY_KEY_HASH_SIZE 65 /* SHA-256 in hex */

struct cay_key {
    char id[CAY_ID_SIZE];
    const char *account_id;
    const char *name;
    char hash[CAY_KEY_HASH_SIZE];
    unsigned scopes;
    int64_t created_at_ms;
    int64_t expires_at_ms, last_used_at_ms, revoked_at_ms; /* 0: never */
};
