/* SPDX-License-Identifier: Apache-2.0 */
/* Registries: OCI's distribution API, as a client that only reads.
 *
 * No byte is handed on whose digest is not what was asked for. What fails for a moment is tried
 * again, later each time, and a blob goes on where it was cut. Mirrors are asked first, the
 * registry itself last. Secrets go to the host that they are for, and to the token server that it
 * names. */
#pragma once
#include "image/manifest.h"
#include "image/ref.h"
#include "image/web.h"

struct cay_registry;      /* what all share: settings and tokens. Any thread */
struct cay_registry_link; /* one thread's connections, to one registry */

int cay_registry_open(const struct cay_registry_options *o, struct cay_registry **out,
                      struct cay_error *err);
void cay_registry_close(struct cay_registry *r);

/* How far it is, told with every piece and about once a second; false: give up. `more` may be
 * negative: what came was not what it should be, and is fetched again. */
struct cay_registry_watch {
    bool (*step)(void *arg, int64_t more);
    void *arg;
    bool brief; /* who does not answer soon is not asked again */
};

/* The ref's strings are borrowed. `like`, or NULL: one that was answered, and by whom. */
struct cay_registry_link *cay_registry_link(struct cay_registry *r, const struct cay_ref *ref,
                                            const struct cay_registry_watch *watch,
                                            const struct cay_registry_link *like);
void cay_registry_unlink(struct cay_registry_link *l);

struct cay_registry_document {
    const char *text, *type; /* in the arena */
    size_t len;
    char digest[CAY_DIGEST_HEX + 1]; /* of the text */
};

/* A manifest or an index: of a digest, or of the ref itself with NULL. CAY_ERR_NOT_FOUND,
 * "IMAGE_NOT_FOUND"; CAY_ERR_FORBIDDEN, "REGISTRY_DENIED"; CAY_ERR_UNPROCESSABLE,
 * "DIGEST_MISMATCH", "BAD_REGISTRY"; and what cay_web_get says. */
int cay_registry_manifest(struct cay_registry_link *l, const char *digest, struct cay_arena *a,
                          struct cay_registry_document *out, struct cay_error *err);
/* A small blob, as text. */
int cay_registry_text(struct cay_registry_link *l, const struct cay_descriptor *d,
                      struct cay_arena *a, const char **out, struct cay_error *err);
/* A blob, into an empty file from its beginning. */
int cay_registry_blob(struct cay_registry_link *l, const struct cay_descriptor *d, int fd,
                      struct cay_error *err);
