/* SPDX-License-Identifier: Apache-2.0 */
/* A part of service.h: ports of sandboxes, and the ways in to them. */
#pragma once
#include "model/account.h"
#include "model/sandbox.h"
#include "store/store.h"

struct cay_core;

/* Makes a port one that may be reached. One that is so already takes the new name and rights;
 * new_out tells them apart. More than CAY_MAX_PORTS: CAY_ERR_INVALID. */
int cay_core_expose(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const struct cay_port *port, struct cay_arena *a, struct cay_sandbox *out,
                    bool *new_out, struct cay_error *err);
/* CAY_ERR_NOT_FOUND, "PORT_NOT_EXPOSED". */
int cay_core_unexpose(struct cay_core *core, const struct cay_account *owner, const char *id,
                      unsigned port, struct cay_arena *a, struct cay_sandbox *out,
                      struct cay_error *err);
struct cay_exposed {
    char sandbox_id[CAY_ID_SIZE];
    const struct cay_port *ports;
    size_t count;
};
struct cay_exposed_list {
    struct cay_exposed *at;
    size_t count;
};
/* Such ports of all living sandboxes of the account, or of a team of his (or NULL); those that have
 * none are left out. */
int cay_core_exposed(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                     struct cay_arena *a, struct cay_exposed_list *out, struct cay_error *err);

/* For previews, whose caller may be anybody: whatever account has it. What he may see of it is for
 * the port's own rules to say. A caller who shows a token is asked for with cay_core_get. */
int cay_core_previewed(struct cay_core *core, const char *sandbox_id, struct cay_arena *a,
                       struct cay_sandbox *out, struct cay_error *err);
/* As cay_store_version: the same number later means that all this would be answered as before. */
uint64_t cay_core_version(struct cay_core *core, const char *sandbox_id);
/* A connection to what listens on the port inside, on either loopback address; non-blocking, and
 * perhaps still being made. CAY_ERR_CONFLICT "SANDBOX_NOT_RUNNING", CAY_ERR_PROVIDER
 * "NOTHING_LISTENS". */
int cay_core_dial(struct cay_core *core, const struct cay_sandbox *sb, unsigned port, int *fd_out,
                  struct cay_error *err);

/* A proof that whoever shows it may use this port of this sandbox until then. The server keeps
 * nothing of it; a restart does not end it. */
struct cay_link {
    const char *proof; /* of [0-9a-f.] */
    int64_t expires_at_ms;
};
/* For whoever came with a sandbox's own token it is good for an hour at most. */
int cay_core_link(struct cay_core *core, const struct cay_account *owner, const char *id,
                  unsigned port, int64_t seconds, struct cay_arena *a, struct cay_link *out,
                  struct cay_error *err);
bool cay_core_link_holds(struct cay_core *core, const char *sandbox_id, unsigned port,
                         const char *proof, int64_t *expires_at_ms_out);
