/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest says which layers; a few threads take one after the other: fetched into a file that
 * has no name, verified, unpacked by the provider. The text under the name comes last, so that a
 * pull that is cut anywhere leaves nothing but layers, which the next one finds. */
#include "core/pull.h"
#include "base/clock.h"
#include "core/core.h"
#include "image/registry.h"
#include "image/text.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define AGAIN 2 /* a prune may come between the layers and the name */

struct pull {
    struct cay_core *core;
    struct cay_task *task;
    struct cay_arena arena;
    struct cay_ref ref;
    int64_t until_ms;                /* monotonic */
    char digest[CAY_DIGEST_HEX + 1]; /* of what its name stands for */
    struct cay_manifest manifest;
    struct cay_image_config config;
    const struct cay_registry_link *first; /* that found out what there is */

    atomic_size_t next; /* layer */
    atomic_bool failed;
    pthread_mutex_t lock; /* guards what follows */
    struct cay_error err; /* the first */
};

struct at { /* a layer, for those who tell of it */
    struct pull *p;
    size_t part;
};

static bool step(void *arg, int64_t more)
{
    const struct at *at = arg;
    return cay_task_more(at->p->task, at->part, more) && !atomic_load(&at->p->failed) &&
           cay_clock_mono_ms() < at->p->until_ms;
}

static bool unpack_step(void *arg, uint64_t done)
{
    (void)done; /* what is counted is what was fetched */
    return step(arg, 0);
}

/* ---- what it is made of ---- */

static int read_manifest(struct pull *p, struct cay_registry_link *l, const char *digest,
                         struct cay_registry_document *doc, struct cay_error *err)
{
    int r = cay_registry_manifest(l, digest, &p->arena, doc, err);
    if (r == 0)
        r = cay_manifest_parse(&p->arena, doc->text, doc->len, doc->type, &p->manifest, err);
    return r;
}

static int resolve(struct pull *p, struct cay_registry_link *l, struct cay_error *err)
{
    struct cay_registry_document doc;
    const struct cay_descriptor *chosen;
    int r = read_manifest(p, l, NULL, &doc, err);
    if (r < 0)
        return r;
    memcpy(p->digest, doc.digest, sizeof p->digest);
    if (!p->manifest.is_index)
        return 0;
    r = cay_manifest_choose(&p->manifest, cay_image_architecture(), &chosen, err);
    if (r == 0)
        r = read_manifest(p, l, chosen->digest, &doc, err);
    if (r == 0 && p->manifest.is_index)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE",
                           "the index of %.100s names another index", p->ref.repository);
    return r;
}

static int read_config(struct pull *p, struct cay_registry_link *l, struct cay_error *err)
{
    const char *text;
    int r = cay_registry_text(l, &p->manifest.config, &p->arena, &text, err);
    if (r == 0)
        r = cay_image_config_parse(&p->arena, text, strlen(text), &p->config, err);
    if (r == 0)
        r = cay_image_config_fits(&p->config, &p->manifest, cay_image_architecture(), err);
    for (size_t i = 0; r == 0 && i < p->manifest.count; i++)
        if (p->manifest.at[i].size > CAY_LAYER_BYTES)
            return cay_fail_as(err, CAY_ERR_TOO_LARGE, "LAYER_TOO_LARGE",
                               "layer %zu has %llu bytes", i,
                               (unsigned long long)p->manifest.at[i].size);
    return r;
}

/* Is the name's image the one that the registry has now, with all its layers? */
static bool is_current(struct pull *p, const char *name)
{
    struct cay_error ignored; /* then it is fetched */
    struct cay_image_list list;
    struct cay_image_about about;
    return cay_provider_image_list(p->core->provider, name, &p->arena, &list, &ignored) == 0 &&
           list.count == 1 &&
           cay_image_text_read(&p->arena, list.at[0].text, &about, &ignored) == 0 &&
           strcmp(about.digest, p->digest) == 0;
}

/* ---- layers ---- */

static int fetch_layer(struct pull *p, struct at *at, struct cay_registry_link *l,
                       struct cay_error *err)
{
    const struct cay_descriptor *d = &p->manifest.at[at->part];
    struct cay_layer layer = {
        .digest = d->digest, .diff_id = p->config.diff_ids.at[at->part], .size = d->size};
    struct cay_progress progress = {.step = unpack_step, .arg = at};
    struct cay_unpacked unpacked;
    bool has = false;
    int r = cay_provider_image_has(p->core->provider, layer.diff_id, &has, err);
    if (r < 0 || has) {
        (void)cay_task_more(p->task, at->part, has ? (int64_t)d->size : 0);
        cay_task_part_at(p->task, at->part, has ? "there" : "failed");
        return r;
    }
    CAY_AUTO_FD int fd = openat(p->core->pulls_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a file for a layer");
    cay_task_part_at(p->task, at->part, "downloading");
    r = cay_registry_blob(l, d, fd, err);
    if (r < 0)
        return r;
    cay_task_part_at(p->task, at->part, "unpacking");
    r = cay_provider_image_layer(p->core->provider, &layer, fd, &progress, &unpacked, err);
    if (r == 0)
        cay_task_part_at(p->task, at->part, "done");
    return r;
}

static void *fetch_layers(void *arg)
{
    struct pull *p = arg;
    struct at at = {.p = p};
    const struct cay_registry_watch watch = {.step = step, .arg = &at};
    struct cay_registry_link *l = cay_registry_link(p->core->registry, &p->ref, &watch, p->first);
    while ((at.part = atomic_fetch_add(&p->next, 1)) < p->manifest.count &&
           !atomic_load(&p->failed)) {
        struct cay_error err = {0};
        if (fetch_layer(p, &at, l, &err) == 0)
            continue;
        cay_task_part_at(p->task, at.part, "failed");
        pthread_mutex_lock(&p->lock);
        if (!atomic_exchange(&p->failed, true))
            p->err = err;
        pthread_mutex_unlock(&p->lock);
    }
    cay_registry_unlink(l);
    return NULL;
}

static int fetch_all(struct pull *p, struct cay_error *err)
{
    pthread_t helpers[CAY_PULL_LAYERS];
    size_t count = 0;
    atomic_store(&p->next, 0);
    while (count + 1 < CAY_PULL_LAYERS && count + 1 < p->manifest.count &&
           pthread_create(&helpers[count], NULL, fetch_layers, p) == 0)
        count++; /* with fewer it only takes longer */
    (void)fetch_layers(p);
    while (count > 0)
        (void)pthread_join(helpers[--count], NULL);
    if (atomic_load(&p->failed))
        *err = p->err;
    return atomic_load(&p->failed) ? err->code : 0;
}

static void name_parts(struct pull *p)
{
    size_t count = p->manifest.count;
    struct cay_job_part *parts = cay_arena_alloc(&p->arena, count * sizeof *parts + 1);
    for (size_t i = 0; i < count; i++) {
        parts[i] = (struct cay_job_part){.step = "waiting", .total_bytes = p->manifest.at[i].size};
        cay_str_copy(parts[i].name, 13, p->manifest.at[i].digest);
    }
    cay_task_parts(p->task, parts, count);
}

static int put(struct pull *p, const char *name, struct cay_error *err)
{
    struct cay_image_about about = {
        .config = p->config, .digest = p->digest, .source = cay_ref_full(&p->arena, &p->ref)};
    const char *text;
    int r = cay_image_text_write(&p->arena, &about, &text, err);
    return r < 0 ? r : cay_provider_image_put(p->core->provider, name, text, err);
}

static int bring(struct pull *p, const char *name, struct cay_error *err)
{
    int r = 0;
    cay_task_at(p->task, "downloading");
    name_parts(p);
    for (int i = 0; i < AGAIN; i++) {
        r = fetch_all(p, err);
        if (r == 0)
            r = put(p, name, err);
        if (r != CAY_ERR_CONFLICT || strcmp(cay_error_name(err), "LAYER_MISSING") != 0)
            break;
    }
    cay_provider_image_let_go(p->core->provider, &p->config.diff_ids);
    return r;
}

static void pull_done(struct pull *p)
{
    pthread_mutex_destroy(&p->lock);
    cay_arena_done(&p->arena);
}

int cay_pull_image(struct cay_core *core, struct cay_task *task, const struct cay_image_wish *wish,
                   struct cay_error *err)
{
    CAY_CLEANUP(pull_done)
    struct pull p = {.core = core, .task = task, .until_ms = cay_clock_mono_ms() + CAY_PULL_MS};
    struct at none = {.p = &p, .part = SIZE_MAX};
    const struct cay_registry_watch watch = {.step = step, .arg = &none, .brief = wish->brief};
    struct cay_image_list list;
    pthread_mutex_init(&p.lock, NULL);
    int r = cay_ref_parse(&p.arena, wish->name, &p.ref, err);
    if (r < 0)
        return r;
    const char *name = cay_ref_short(&p.arena, &p.ref);
    r = cay_provider_image_list(core->provider, name, &p.arena, &list, err);
    if (r == 0 && wish->policy != CAY_PULL_ALWAYS)
        return 0;
    if (r < 0 && r != CAY_ERR_NOT_FOUND)
        return r;
    cay_task_at(task, "resolving");
    struct cay_registry_link *l = cay_registry_link(core->registry, &p.ref, &watch, NULL);
    p.first = l;
    r = resolve(&p, l, err);
    bool current = r == 0 && is_current(&p, name);
    if (r == 0 && !current)
        r = read_config(&p, l, err);
    if (r == 0 && !current)
        r = bring(&p, name, err);
    cay_registry_unlink(l);
    if (r == CAY_ERR_CONFLICT && cay_clock_mono_ms() >= p.until_ms)
        return cay_fail_as(err, CAY_ERR_TIMEOUT, "PULL_TIMEOUT", "the pull took too long");
    return r;
}
