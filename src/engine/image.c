/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/image.h"
#include "base/beneath.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/path.h"
#include "engine/dispatcher.h"
#include "engine/implied.h"
#include "image/fit.h"
#include "image/text.h"
#include "image/trust.h"
#include "model/limits.h"
#include "model/network.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FIT_VERSION "4"     /* raised when what a fitting layer holds changes */
#define LAYER_PATH 14       /* of each in the list that the mount takes */
#define MAX_LAYERS_LEN 3800 /* the list and the other options are one page */

static bool is_layer_id(const char *s)
{
    return *s && strlen(s) <= 64 && strspn(s, "0123456789abcdef") == strlen(s);
}

/* overlayfs refuses a layer twice (empty ones come so). The upper one covers all that the lower one
 * does. */
static bool has_layer(const struct cay_strs *layers, const char *id)
{
    for (size_t i = 0; i < layers->count; i++)
        if (strcmp(layers->at[i], id) == 0)
            return true;
    return false;
}

static int parse_layers(struct cay_arena *a, char *value, struct cay_image *out,
                        struct cay_error *err)
{
    char *rest = NULL;
    size_t len = 0;
    for (char *id = strtok_r(value, " ", &rest); id; id = strtok_r(NULL, " ", &rest)) {
        if (has_layer(&out->layers, id))
            continue;
        len += strlen(id) + LAYER_PATH;
        if (out->layers.count == CAY_MAX_LAYERS || len > MAX_LAYERS_LEN)
            return cay_fail_as(err, CAY_ERR_UNSUPPORTED, "TOO_MANY_LAYERS",
                               "an image may have %zu layers, this one has more",
                               out->layers.count);
        if (!is_layer_id(id))
            return cay_fail(err, CAY_ERR_PROVIDER, "bad list of layers in an image");
        cay_strs_push(a, &out->layers, id);
    }
    return 0;
}

/* A number, or a name with or without SIG; 0: it is none. */
static int signal_of(const char *text)
{
    uint64_t n;
    if (cay_str_u64(text, NSIG - 1, &n))
        return (int)n;
    if (strncmp(text, "SIG", 3) == 0)
        text += 3;
    if (strncmp(text, "RTMIN+", 6) == 0 && cay_str_u64(text + 6, 30, &n))
        return SIGRTMIN + (int)n;
    for (int i = 1; i < SIGSYS + 1; i++)
        if (strcmp(sigabbrev_np(i) ? sigabbrev_np(i) : "", text) == 0)
            return i;
    return 0;
}

int cay_image_parse(struct cay_arena *a, const char *text, struct cay_image *out,
                    struct cay_error *err)
{
    char *rest = cay_arena_strdup(a, text), *value;
    const char *line;
    *out = (struct cay_image){.user = "", .workdir = ""};
    while (cay_image_text_next(a, &rest, &line, &value)) {
        int r = 0;
        if (strcmp(line, "layers") == 0)
            r = parse_layers(a, value, out, err);
        else if (strcmp(line, "user") == 0)
            out->user = value;
        else if (strcmp(line, "workdir") == 0)
            out->workdir = value;
        else if (strcmp(line, "stopsignal") == 0)
            out->stop_signal = signal_of(value);
        else if (strcmp(line, "env") == 0 && out->env.count < CAY_MAX_ENV)
            cay_strs_push(a, &out->env, value);
        else if (strcmp(line, "entrypoint") == 0 && out->entrypoint.count < CAY_MAX_ARGS)
            cay_strs_push(a, &out->entrypoint, value);
        else if (strcmp(line, "cmd") == 0 && out->cmd.count < CAY_MAX_ARGS)
            cay_strs_push(a, &out->cmd, value);
        if (r < 0)
            return r;
    }
    if (!out->layers.count)
        return cay_fail(err, CAY_ERR_PROVIDER, "an image without layers");
    uint64_t all = 14695981039346656037ULL; /* FNV-1a over every layer's id */
    for (size_t i = 0; i < out->layers.count; i++)
        for (const char *at = out->layers.at[i]; *at; at++)
            all = (all ^ (unsigned char)*at) * 1099511628211ULL;
    out->fit = cay_arena_printf(a, "%.32s-%016llx-" FIT_VERSION, out->layers.at[0],
                                (unsigned long long)all);
    return 0;
}

const char *cay_image_ref_name(struct cay_arena *a, const char *name)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    for (; *name; name++) {
        if (*name == '/' || *name == '%' || (*name == '.' && out.len == 0))
            cay_buf_addf(&out, "%%%02X", (unsigned)(unsigned char)*name);
        else
            cay_buf_addc(&out, *name);
    }
    return cay_arena_strndup(a, out.data ? out.data : "", out.len);
}

/* ---- the fitting layer ---- */

/* The file as the image has it: from the topmost layer that has one. Hostile content is only
 * copied; a link in it cannot lead out of the layer. */
static const char *read_from_layers(int images_fd, const struct cay_image *image, const char *path,
                                    size_t max, struct cay_arena *a)
{
    for (size_t i = 0; i < image->layers.count; i++) {
        char name[80];
        struct stat st;
        snprintf(name, sizeof name, "layers/%s", image->layers.at[i]);
        CAY_AUTO_FD int root =
            openat(images_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        CAY_AUTO_FD int fd = root < 0 ? -1
                                      : cay_open_beneath(root, path, O_RDONLY | O_NONBLOCK,
                                                         RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size > max)
            continue;
        char *text = cay_arena_alloc(a, (size_t)st.st_size + 1);
        ssize_t n = read(fd, text, (size_t)st.st_size);
        return n < 0 ? "" : text;
    }
    return "";
}

/* Nothing is there yet, so nothing is followed. */
static int put(void *arg, const struct cay_fit_file *file, struct cay_error *err)
{
    int dir = *(const int *)arg;
    if (file->data)
        return cay_path_replace(dir, file->path, file->data, file->len, file->mode, err);
    if (mkdirat(dir, file->path, 0755) < 0 ||
        fchownat(dir, file->path, file->owner, file->owner, 0) < 0 ||
        fchmodat(dir, file->path, file->mode, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make %s of a fitting layer",
                              file->path);
    return 0;
}

static int fill_fit(int dir, int images_fd, const struct cay_image *image,
                    const struct cay_trust *trust, struct cay_arena *a, struct cay_error *err)
{
    const char *text[CAY_FIT_TEXTS];
    for (size_t i = 0; i < CAY_FIT_TEXTS; i++)
        text[i] =
            read_from_layers(images_fd, image, cay_fit_texts[i].path, cay_fit_texts[i].max, a);
    int r = cay_fit_fill(text, trust, put, &dir, err);
    return r < 0 ? r : cay_implied_fit(images_fd, image, dir, err);
}

/* Made beside and renamed into place: whoever comes second finds a whole one. */
int cay_image_fit(int images_fd, const struct cay_trust *trust, struct cay_arena *a,
                  struct cay_image *image, struct cay_error *err)
{
    char suffix[9], temp[160], path[128];
    image->fit = cay_arena_printf(a, "%s-%s", image->fit, trust->mark);
    snprintf(path, sizeof path, "fits/%s", image->fit);
    if (faccessat(images_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (mkdirat(images_fd, "fits", 0755) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a fitting layer");
    cay_id_hex(suffix, 8);
    snprintf(temp, sizeof temp, "fits/.%s-%s", image->fit, suffix);
    CAY_AUTO_FD int dir = -1;
    int r = cay_path_open_dir(images_fd, temp, 0755, &dir, err);
    if (r == 0)
        r = fill_fit(dir, images_fd, image, trust, a, err);
    if (r == 0 && syncfs(dir) < 0) /* what has a name after a power cut must be whole */
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot write a fitting layer to the disk");
    if (r == 0 && renameat(images_fd, temp, images_fd, path) == 0)
        return 0;
    if (r == 0 && errno != ENOTEMPTY && errno != EEXIST)
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot place a fitting layer");
    cay_trash_remove(images_fd, temp);
    return r;
}

int cay_image_find(int images_fd, const char *name, struct cay_arena *a, struct cay_image *out,
                   const char **text_out, struct cay_error *err)
{
    char *text;
    CAY_AUTO_FD int refs =
        openat(images_fd, "refs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = refs < 0 ? CAY_ERR_NOT_FOUND
                     : cay_path_read(refs, cay_image_ref_name(a, name), CAY_MAX_IMAGE_TEXT, a,
                                     &text, NULL, err);
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", "image not found: %s", name);
    if (r == 0)
        r = cay_image_parse(a, text, out, err);
    if (r == 0)
        *text_out = text;
    return r;
}
