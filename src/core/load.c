/* SPDX-License-Identifier: Apache-2.0 */
#include "core/load.h"
#include "image/archive.h"
#include "image/ref.h"
#include "model/limits.h"
#include <pthread.h>
#include <string.h>

#define TRIES 2 /* a prune may come between the layers and the name */

struct loading {
    struct cay_provider *provider;
    int fd;
    const struct cay_archive_images *images;
    const struct cay_progress *progress;
    pthread_mutex_t lock; /* of all below */
    size_t image, layer;  /* the next one */
    uint64_t done;        /* bytes of layers that are there */
    struct cay_error err; /* of the first that failed; code 0: none */
};

/* One layer at work on one thread. */
struct work {
    struct loading *all;
    uint64_t told;
};

static bool step(void *arg, uint64_t done)
{
    struct work *w = arg;
    struct loading *l = w->all;
    pthread_mutex_lock(&l->lock);
    l->done += done - w->told;
    w->told = done;
    bool goes_on =
        l->err.code == 0 && (!l->progress || l->progress->step(l->progress->arg, l->done));
    pthread_mutex_unlock(&l->lock);
    return goes_on;
}

static const struct cay_layer *next_layer(struct loading *l)
{
    const struct cay_layer *found = NULL;
    pthread_mutex_lock(&l->lock);
    while (!found && l->err.code == 0 && l->image < l->images->count) {
        const struct cay_archive_image *image = &l->images->at[l->image];
        if (l->layer < image->about.config.diff_ids.count)
            found = &image->layers[l->layer++];
        else {
            l->image++;
            l->layer = 0;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return found;
}

static void *unpack_layers(void *arg)
{
    struct loading *l = arg;
    for (const struct cay_layer *layer; (layer = next_layer(l));) {
        struct work w = {.all = l};
        struct cay_progress progress = {step, &w};
        struct cay_unpacked unpacked;
        struct cay_error err;
        bool has = false;
        int r = cay_provider_image_has(l->provider, layer->diff_id, &has, &err);
        if (r == 0 && !has)
            r = cay_provider_image_layer(l->provider, layer, l->fd, &progress, &unpacked, &err);
        if (r == 0)
            (void)step(&w, layer->size);
        pthread_mutex_lock(&l->lock);
        if (r < 0 && l->err.code == 0)
            l->err = err;
        pthread_mutex_unlock(&l->lock);
    }
    return NULL;
}

/* Two at a time: one unpacks while the other waits for the disk. */
static int unpack_all(struct cay_provider *p, int fd, const struct cay_archive_images *images,
                      const struct cay_progress *progress, struct cay_error *err)
{
    pthread_t other;
    struct loading l = {.provider = p, .fd = fd, .images = images, .progress = progress};
    pthread_mutex_init(&l.lock, NULL);
    bool two = pthread_create(&other, NULL, unpack_layers, &l) == 0;
    (void)unpack_layers(&l);
    if (two)
        pthread_join(other, NULL);
    pthread_mutex_destroy(&l.lock);
    if (l.err.code)
        *err = l.err;
    return l.err.code;
}

static int name_images(struct cay_arena *a, struct cay_archive_images *images, const char *as,
                       struct cay_error *err)
{
    struct cay_ref ref;
    if (as && images->count != 1)
        return cay_fail_field(err, "name", "there are %zu images in the archive, not one",
                              images->count);
    if (as) {
        int r = cay_ref_parse(a, as, &ref, err);
        if (r < 0)
            return r;
        images->at[0].names = (struct cay_strs){0};
        cay_strs_push(a, &images->at[0].names, cay_ref_short(a, &ref));
    }
    for (size_t i = 0; i < images->count; i++)
        if (images->at[i].names.count == 0)
            return cay_fail_field(err, "name", "the archive does not say how its image is called");
    return 0;
}

static int put_names(struct cay_provider *p, struct cay_arena *a,
                     const struct cay_archive_images *images, struct cay_strs *names_out,
                     struct cay_error *err)
{
    struct cay_strs names = {0};
    for (size_t i = 0; i < images->count; i++) {
        const struct cay_archive_image *image = &images->at[i];
        const char *text;
        int r = cay_image_text_write(a, &image->about, &text, err);
        for (size_t k = 0; r == 0 && k < image->names.count; k++) {
            r = cay_provider_image_put(p, image->names.at[k], text, err);
            cay_strs_push(a, &names, image->names.at[k]);
        }
        if (r < 0)
            return r;
    }
    *names_out = names;
    return 0;
}

int cay_load_images(struct cay_provider *p, int fd, const char *as,
                    const struct cay_progress *progress, struct cay_arena *a,
                    struct cay_strs *names_out, struct cay_error *err)
{
    struct cay_archive archive;
    struct cay_archive_images images;
    int r = cay_archive_open(a, fd, &archive, err);
    if (r == 0)
        r = cay_archive_images(&archive, cay_image_architecture(), &images, err);
    if (r == 0)
        r = name_images(a, &images, as, err);
    if (r < 0)
        return r;
    for (int tries = 0; tries < TRIES; tries++) {
        r = unpack_all(p, fd, &images, progress, err);
        if (r == 0)
            r = put_names(p, a, &images, names_out, err);
        if (r == 0 || !err->name || strcmp(err->name, "LAYER_MISSING") != 0)
            break;
    }
    for (size_t i = 0; i < images.count; i++) /* only now: they may have layers in common */
        cay_provider_image_let_go(p, &images.at[i].about.config.diff_ids);
    return r;
}
