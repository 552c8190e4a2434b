/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions are kept by the SHA-256 of what they stand on, so no secret is; a slot by hash, and who
 * shares it pays with a fresh look. Counts are in chains by hash, and go with the last visit. */
#include "api/visits.h"
#include "api/preview.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "core/ports.h"
#include "http/forward.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256

/* All headers that preview.c and guard.c look at on the way to a yes. */
static const char *const looked_at[] = {"cookie", "cay-token",      "authorization",
                                        "origin", "sec-fetch-site", "sec-fetch-mode"};

struct kept {
    struct cay_visit_key key;
    struct cay_visit visit;
};

struct open {
    struct open *next;
    unsigned count;
    char sandbox_id[CAY_ID_SIZE];
};

static struct {
    pthread_mutex_t lock;
    struct kept kept[CAY_PREVIEW_RECALLED];
    struct open *open[BUCKETS];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- decisions ---- */

static bool is_common(const struct cay_req *req)
{
    return cay_req_is_safe(req) && req->body_announced == 0 && !cay_forward_is_upgrade(req) &&
           !cay_req_header(req, "cay-wait") && !strstr(req->query, CAY_PREVIEW_PARAM "=");
}

bool cay_visit_key(const struct cay_req *req, const char *sandbox_id, size_t prefix,
                   struct cay_visit_key *out)
{
    struct cay_sha256 s;
    if (!is_common(req))
        return false;
    out->at_ms = cay_clock_mono_ms();
    out->version = cay_core_version(req->core, sandbox_id);
    cay_sha256_init(&s);
    cay_sha256_add(&s, req->host, strlen(req->host) + 1); /* the 0 ends it: none has one inside */
    cay_sha256_add(&s, req->path, prefix);
    cay_sha256_add(&s, req->is_tls ? "s" : "", req->is_tls);
    for (size_t i = 0; i < CAY_COUNT(looked_at); i++) {
        const char *value = cay_req_header(req, looked_at[i]);
        cay_sha256_add(&s, value ? "\0=" : "\0", value ? 2 : 1);
        cay_sha256_add(&s, value ? value : "", value ? strlen(value) : 0);
    }
    cay_sha256_done(&s, out->sum);
    return true;
}

static struct kept *slot_of(const struct cay_visit_key *key)
{
    return &all.kept[((size_t)key->sum[0] << 8 | key->sum[1]) % CAY_PREVIEW_RECALLED];
}

void cay_visit_keep(const struct cay_visit_key *key, const struct cay_visit *visit)
{
    (void)pthread_mutex_lock(&all.lock);
    *slot_of(key) = (struct kept){.key = *key, .visit = *visit};
    (void)pthread_mutex_unlock(&all.lock);
}

bool cay_visit_recall(const struct cay_visit_key *key, struct cay_visit *out)
{
    (void)pthread_mutex_lock(&all.lock);
    const struct kept *k = slot_of(key);
    bool found = memcmp(k->key.sum, key->sum, sizeof key->sum) == 0 &&
                 k->key.version == key->version &&
                 key->at_ms - k->key.at_ms < CAY_PREVIEW_RECALL_MS;
    if (found)
        *out = k->visit;
    (void)pthread_mutex_unlock(&all.lock);
    return found;
}

/* ---- who is there ---- */

static struct open **find(const char *sandbox_id)
{
    unsigned h = 2166136261u;
    for (const char *p = sandbox_id; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    struct open **at = &all.open[h % BUCKETS];
    while (*at && strcmp((*at)->sandbox_id, sandbox_id) != 0)
        at = &(*at)->next;
    return at;
}

bool cay_visit_enter(const char *sandbox_id)
{
    (void)pthread_mutex_lock(&all.lock);
    struct open **at = find(sandbox_id);
    if (!*at) {
        struct open *new = calloc(1, sizeof *new);
        if (!new)
            abort();
        cay_str_copy(new->sandbox_id, sizeof new->sandbox_id, sandbox_id);
        *at = new;
    }
    bool fits = (*at)->count < CAY_PREVIEW_OPEN;
    (*at)->count += fits;
    (void)pthread_mutex_unlock(&all.lock);
    return fits;
}

void cay_visit_leave(const char *sandbox_id)
{
    (void)pthread_mutex_lock(&all.lock);
    struct open **at = find(sandbox_id), *o = *at;
    if (o && --o->count == 0) {
        *at = o->next;
        free(o);
    }
    (void)pthread_mutex_unlock(&all.lock);
}

int cay_visit_refuse(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_LIMIT, "TOO_MANY_VISITS",
                       "at most %d requests to the ports of one sandbox at a time",
                       CAY_PREVIEW_OPEN);
}
