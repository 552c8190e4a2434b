/* SPDX-License-Identifier: Apache-2.0 */
/* Images, as sandboxes need them.
 *
 * A container begins with cay-init and its user, which no image has. So each image gets one layer
 * more, once, under a name made of its id: the programs, the user, the working directory. Its
 * labels say what the image itself wanted to run, since entry point and user become ours. */
#include "base/buf.h"
#include "base/id.h"
#include "base/sha256.h"
#include "file/tar.h"
#include "image/fit.h"
#include "init/proto.h"
#include "model/limits.h"
#include "provider/docker/docker.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FIT_VERSION "4" /* raised when what the layer holds changes */
#define PROGRAM_MAX (16u << 20)

static const struct cay_json *list_of(const struct cay_json *config, const char *key)
{
    const struct cay_json *v = cay_json_get(config, key);
    return v && v->kind == CAY_JSON_ARRAY ? v : NULL;
}

/* ---- the programs ---- */

/* cay-init, cay-file, and whom the operator believes: what fitting layers differ by, beside their
 * images. */
struct tools {
    struct cay_buf file[3];
    struct cay_trust trust;
};

static void free_tools(struct tools *t)
{
    for (size_t i = 0; i < CAY_COUNT(t->file); i++)
        cay_buf_done(&t->file[i]);
}

static int read_whole(int fd, struct cay_buf *out, struct cay_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size > (off_t)PROGRAM_MAX)
        return cay_fail(err, CAY_ERR_PROVIDER, "cannot read a program of ours");
    char *at = cay_buf_room(out, (size_t)st.st_size + 1);
    if (pread(fd, at, (size_t)st.st_size, 0) != st.st_size)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read a program of ours");
    at[st.st_size] = 0;
    out->len += (size_t)st.st_size;
    return 0;
}

static int ask_tools(struct cay_docker *d, struct tools *out, struct cay_error *err)
{
    CAY_CLEANUP(cay_local_close_fds) struct cay_local_fds fds = {0};
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = CAY_ENGINE_PROGRAMS};
    int r = cay_local_call_fds(&d->local, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, &fds, err);
    if (r == 0 && fds.count != CAY_COUNT(out->file))
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer has no programs");
    for (int i = 0; r == 0 && i < fds.count; i++)
        r = read_whole(fds.at[i], &out->file[i], err);
    out->trust.text = out->file[2].data;
    return r;
}

int cay_docker_mark_tools(struct cay_docker *d, struct cay_error *err)
{
    CAY_CLEANUP(free_tools) struct tools tools = {0};
    struct cay_sha256 sha;
    uint8_t digest[32];
    int r = ask_tools(d, &tools, err);
    if (r < 0)
        return r;
    cay_sha256_init(&sha);
    for (size_t i = 0; i < CAY_COUNT(tools.file); i++)
        cay_sha256_add(&sha, tools.file[i].data, tools.file[i].len);
    cay_sha256_done(&sha, digest);
    for (size_t i = 0; i < 8; i++)
        (void)snprintf(d->tools + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

/* ---- a layer ---- */

static void add_file(struct cay_buf *tar, const char *path, uint32_t mode, uint32_t owner,
                     const char *data, size_t len)
{
    struct cay_tar_entry *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->type = data ? CAY_TAR_FILE : CAY_TAR_DIR;
    cay_str_copy(e->path, sizeof e->path, path);
    e->size = len;
    e->mode = mode;
    e->uid = e->gid = owner;
    cay_tar_write(e, tar);
    free(e);
    if (!len)
        return;
    cay_buf_add(tar, data, len);
    size_t pad = (CAY_TAR_BLOCK - len % CAY_TAR_BLOCK) % CAY_TAR_BLOCK;
    memset(cay_buf_room(tar, pad + 1), 0, pad);
    tar->len += pad;
}

struct reading {
    struct cay_buf tar;
    size_t at, max;
};

static int collect(void *arg, const char *data, size_t len, struct cay_error *err)
{
    struct reading *r = arg;
    if (r->tar.len + len > r->max + 8 * CAY_TAR_BLOCK)
        return cay_fail(err, CAY_ERR_TOO_LARGE, "a file of the image is too large");
    cay_buf_add(&r->tar, data, len);
    return 0;
}

static bool get(void *arg, void *data, size_t len)
{
    struct reading *r = arg;
    if (r->tar.len - r->at < len)
        return false;
    memcpy(data, r->tar.data + r->at, len);
    r->at += len;
    return true;
}

/* A file of a container as text; a missing one, or one that is too large, is empty. */
static int read_text(struct cay_docker *d, struct cay_arena *a, const char *container,
                     const struct cay_fit_text *text, const char **out, struct cay_error *err)
{
    struct reading reading = {.max = text->max};
    CAY_AUTO_FREE struct cay_tar_entry *e = calloc(1, sizeof *e);
    struct cay_tar tar = {.get = get, .arg = &reading};
    if (!e)
        abort();
    *out = "";
    int r = cay_docker_download(
        d, cay_arena_printf(a, "/containers/%s/archive?path=/%s", container, text->path), collect,
        &reading, err);
    if (r == 0 && cay_tar_next(&tar, e) == 1 && e->type == CAY_TAR_FILE && e->size <= text->max) {
        char *all = cay_arena_alloc(a, (size_t)e->size + 1);
        if (cay_tar_read(&tar, all, (size_t)e->size))
            *out = all;
    }
    cay_buf_done(&reading.tar);
    return r == CAY_ERR_NOT_FOUND || r == CAY_ERR_TOO_LARGE ? 0 : r;
}

static int put(void *arg, const struct cay_fit_file *file, struct cay_error *err)
{
    (void)err;
    add_file(arg, file->path, file->mode, file->owner, file->data, file->len);
    return 0;
}

/* What every fitting layer has, and the programs. */
static int build_layer(struct cay_docker *d, struct cay_arena *a, const char *container,
                       const struct tools *tools, struct cay_buf *tar, struct cay_error *err)
{
    static const char *const paths[] = {".cay/cay-init", ".cay/cay-file"};
    const char *own[CAY_FIT_TEXTS];
    int r = 0;
    for (size_t i = 0; r == 0 && i < CAY_FIT_TEXTS; i++)
        r = read_text(d, a, container, &cay_fit_texts[i], &own[i], err);
    if (r == 0)
        r = cay_fit_fill(own, &tools->trust, put, tar, err);
    if (r < 0)
        return r;
    add_file(tar, ".cay", 0755, 0, NULL, 0);
    for (size_t i = 0; i < CAY_COUNT(paths); i++)
        add_file(tar, paths[i], 0755, 0, tools->file[i].data, tools->file[i].len);
    memset(cay_buf_room(tar, (size_t)2 * CAY_TAR_BLOCK), 0, (size_t)2 * CAY_TAR_BLOCK);
    tar->len += (size_t)2 * CAY_TAR_BLOCK;
    return 0;
}

static int to_memory(const struct cay_buf *data, int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = memfd_create("layer", MFD_CLOEXEC);
    if (fd < 0 || !cay_write_all(fd, data->data, data->len) || lseek(fd, 0, SEEK_SET) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot hold a layer in memory");
    *fd_out = cay_take_fd(&fd);
    return 0;
}

/* ---- helpers: containers that never run ---- */

struct helper {
    struct cay_docker *d;
    const char *id; /* NULL: none */
};

static void remove_helper(struct helper *h)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error ignored; /* one that stays is removed at the next open */
    if (h->id)
        (void)cay_docker_call(h->d, &a, "DELETE",
                              cay_arena_printf(&a, "/containers/%s?force=true&v=true", h->id), NULL,
                              NULL, &ignored);
}

static int make_helper(struct cay_docker *d, struct cay_arena *a, const char *image,
                       struct helper *out, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    struct cay_docker_answer answer;
    char mark[17];
    cay_id_hex(mark, 16);
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "Image", image);
    cay_jw_array(&w, "Entrypoint");
    cay_jw_str(&w, NULL, CAY_INIT_DIR "/cay-init");
    cay_jw_array_end(&w);
    cay_jw_object(&w, "Labels"); /* those that the image of a snapshot has are not its own */
    cay_jw_str(&w, CAY_DOCKER_LABEL, "");
    cay_jw_str(&w, "cay.id", "");
    cay_jw_object_end(&w);
    cay_jw_bool(&w, "NetworkDisabled", true);
    cay_jw_object_end(&w);
    const char *path = cay_arena_printf(a, "/containers/create?name=" CAY_DOCKER_HELPER "%s-%s",
                                        d->instance, mark);
    int r = cay_docker_call(d, a, "POST", path, &body, &answer, err);
    if (r < 0)
        return r;
    *out = (struct helper){d, answer.json ? cay_json_get_str(answer.json, "Id", NULL) : NULL};
    return out->id ? 0 : cay_fail(err, CAY_ERR_PROVIDER, "Docker's answer names no container");
}

static int finish(struct cay_docker *d, struct cay_arena *a, const struct helper *h, int tar_fd,
                  const char *repo, const char *tag, const struct cay_buf *config,
                  struct cay_error *err)
{
    const char *put = cay_arena_printf(a, "/containers/%s/archive?path=%%2F", h->id);
    int r = cay_docker_upload(d, a, "PUT", put, tar_fd, err);
    if (r < 0)
        return r;
    return cay_docker_call(
        d, a, "POST",
        cay_arena_printf(a, "/commit?container=%s&repo=%s&tag=%s&pause=false", h->id, repo, tag),
        config, NULL, err);
}

/* ---- fitting ---- */

/* What the image itself said, for executions. */
static void write_config(const struct cay_json *config, const char *base,
                         const struct cay_trust *trust, struct cay_buf *out)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf argv = {0};
    struct cay_json_writer list = {.buf = &argv}, w = {.buf = out};
    static const char *const keys[] = {"Entrypoint", "Cmd"};
    cay_jw_array(&list, NULL);
    for (size_t i = 0; i < CAY_COUNT(keys); i++) {
        const struct cay_json *words = list_of(config, keys[i]);
        for (const struct cay_json *v = words ? words->first : NULL; v; v = v->next)
            if (v->kind == CAY_JSON_STRING)
                cay_jw_str(&list, NULL, v->text);
    }
    cay_jw_array_end(&list);
    cay_buf_addc(&argv, 0);
    cay_jw_object(&w, NULL);
    cay_jw_object(&w, "Labels");
    cay_jw_str(&w, CAY_DOCKER_BASE, base);
    cay_jw_str(&w, "cay.user", cay_json_get_str(config, "User", ""));
    cay_jw_str(&w, "cay.workdir", cay_json_get_str(config, "WorkingDir", ""));
    cay_jw_str(&w, "cay.argv", argv.data);
    cay_jw_object_end(&w);
    struct cay_strs env = {0};
    const struct cay_json *own = list_of(config, "Env");
    for (const struct cay_json *v = own ? own->first : NULL; v; v = v->next)
        if (v->kind == CAY_JSON_STRING)
            cay_strs_push(&a, &env, v->text);
    cay_trust_name(&a, trust, &env);
    cay_jw_array(&w, "Env");
    for (size_t i = 0; i < env.count; i++)
        cay_jw_str(&w, NULL, env.at[i]);
    cay_jw_array_end(&w);
    cay_jw_object_end(&w);
}

static int make_fit(struct cay_docker *d, struct cay_arena *a, const struct cay_json *image,
                    const char *tag, struct cay_error *err)
{
    CAY_CLEANUP(remove_helper) struct helper h = {0};
    CAY_CLEANUP(free_tools) struct tools tools = {0};
    CAY_AUTO_BUF struct cay_buf tar = {0}, body = {0};
    CAY_AUTO_FD int fd = -1;
    const struct cay_json *config = cay_json_get(image, "Config");
    if (!config || config->kind != CAY_JSON_OBJECT)
        return cay_fail(err, CAY_ERR_PROVIDER, "an image without a config");
    const char *id = cay_json_get_str(image, "Id", "");
    int r = ask_tools(d, &tools, err);
    if (r == 0)
        r = make_helper(d, a, id, &h, err);
    if (r == 0)
        r = build_layer(d, a, h.id, &tools, &tar, err);
    if (r == 0)
        r = to_memory(&tar, &fd, err);
    if (r < 0)
        return r;
    write_config(config, id, &tools.trust, &body);
    return finish(d, a, &h, fd, CAY_DOCKER_FITS, tag, &body, err);
}

/* ---- supply ---- */

static void add_change(struct cay_arena *a, struct cay_buf *path, const char *change)
{
    cay_buf_adds(path, "&changes=");
    cay_buf_adds(path, cay_docker_encode(a, change));
}

/* As a word of a Dockerfile, in which nothing stands for anything else. */
static void add_word(struct cay_buf *out, const char *text)
{
    cay_buf_addc(out, '"');
    for (; *text; text++) {
        if (strchr("\"\\$", *text))
            cay_buf_addc(out, '\\');
        cay_buf_addc(out, *text);
    }
    cay_buf_addc(out, '"');
}

static void add_to_list(struct cay_buf *list, const char *what, const char *value)
{
    struct cay_json_writer w = {.buf = list};
    cay_buf_addf(list, "%s", list->len ? "," : what);
    cay_jw_str(&w, NULL, value);
}

/* The settings that our image store keeps beside the layers, as Docker's import takes them. */
static void add_settings(struct cay_arena *a, char *text, struct cay_buf *path)
{
    CAY_AUTO_BUF struct cay_buf entry = {0}, cmd = {0};
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        CAY_AUTO_BUF struct cay_buf change = {0};
        char *value = strchr(line, '=');
        if (!value || !value[1])
            continue;
        *value++ = 0;
        bool env = strcmp(line, "env") == 0 && strchr(value, '=');
        if (strcmp(line, "user") == 0 || strcmp(line, "workdir") == 0) {
            cay_buf_adds(&change, *line == 'u' ? "USER " : "WORKDIR ");
            add_word(&change, value);
        } else if (env) {
            cay_buf_addf(&change, "ENV %.*s=", (int)strcspn(value, "="), value);
            add_word(&change, strchr(value, '=') + 1);
        } else if (strcmp(line, "entrypoint") == 0)
            add_to_list(&entry, "ENTRYPOINT [", value);
        else if (strcmp(line, "cmd") == 0)
            add_to_list(&cmd, "CMD [", value);
        if (change.len)
            add_change(a, path, cay_arena_strndup(a, change.data, change.len));
    }
    if (entry.len)
        add_change(a, path, cay_arena_printf(a, "%.*s]", (int)entry.len, entry.data));
    if (cmd.len)
        add_change(a, path, cay_arena_printf(a, "%.*s]", (int)cmd.len, cmd.data));
}

/* The engine's pipe. One that packed and was ended half way closes it too: a tar file's end is two
 * blocks of zeros, and without them the Engine must not take it for whole. */
struct packed {
    int fd;
    size_t zeros; /* that it ended with so far */
};

static int read_packed(void *arg, char *buf, size_t room, size_t *len_out, struct cay_error *err)
{
    struct packed *p = arg;
    ssize_t n;
    do
        n = read(p->fd, buf, room);
    while (n < 0 && errno == EINTR);
    if (n < 0 || (n == 0 && p->zeros < 2 * CAY_TAR_BLOCK))
        return cay_fail(err, CAY_ERR_PROVIDER, "the image could not be packed");
    size_t zeros = 0;
    while (zeros < (size_t)n && buf[(size_t)n - 1 - zeros] == 0)
        zeros++;
    p->zeros = zeros == (size_t)n ? p->zeros + zeros : zeros;
    *len_out = (size_t)n;
    return 0;
}

static int load(struct cay_docker *d, struct cay_arena *a, const char *name, struct cay_error *err)
{
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = CAY_ENGINE_EXPORT};
    CAY_AUTO_BUF struct cay_buf path = {0};
    CAY_AUTO_FD int fd = -1;
    char text[CAY_MESSAGE_MAX] = "";
    size_t len = 0;
    const char *repo, *tag;
    cay_str_copy(rq.image, sizeof rq.image, name);
    int r =
        cay_local_call(&d->local, &rq, CAY_ENGINE_CALL_MS, text, sizeof text - 1, &len, &fd, err);
    if (r < 0)
        return r;
    text[len] = 0;
    cay_docker_split_name(a, cay_docker_image_name(a, name), &repo, &tag);
    cay_buf_addf(&path, "/images/create?fromSrc=-&repo=%s",
                 cay_docker_encode(a, cay_arena_printf(a, "%s:%s", repo, tag)));
    add_settings(a, text, &path);
    cay_buf_addc(&path, 0);
    struct packed packed = {.fd = fd};
    const struct cay_docker_bytes bytes = {read_packed, -1, &packed};
    return cay_docker_send(d, a, "POST", path.data, &bytes, err);
}

static int inspect(struct cay_docker *d, struct cay_arena *a, const char *name,
                   const struct cay_json **out, struct cay_error *err)
{
    struct cay_docker_answer answer = {0};
    int r = cay_docker_call(d, a, "GET",
                            cay_arena_printf(a, "/images/%s/json", cay_docker_encode(a, name)),
                            NULL, &answer, err);
    if (r == CAY_ERR_PROVIDER && answer.status == 400) /* no name that it could have */
        return cay_fail(err, CAY_ERR_NOT_FOUND, "image not found: %s", name);
    if (r == 0 && (!answer.json || answer.json->kind != CAY_JSON_OBJECT))
        return cay_fail(err, CAY_ERR_PROVIDER, "Docker's answer is no image");
    if (r == 0)
        *out = answer.json;
    return r;
}

int cay_docker_inspect_image(struct cay_docker *d, struct cay_arena *a, const char *name,
                             const struct cay_json **out, struct cay_error *err)
{
    int r = inspect(d, a, name, out, err);
    return r == CAY_ERR_NOT_FOUND ? cay_docker_no_image(name, err) : r;
}

/* The Engine takes the beginning of an id for a name too, and each image has an id: also those that
 * are snapshots, and what nobody may have by a name. So it counts only by a name that it has. */
int cay_docker_find_image(struct cay_docker *d, struct cay_arena *a, const char *name,
                          const struct cay_json **out, struct cay_error *err)
{
    const char *const forms[] = {name, cay_docker_image_name(a, name)};
    for (size_t i = 0; i < CAY_COUNT(forms); i++) {
        const struct cay_json *image = NULL;
        int r = i == 0 || strcmp(forms[i], name) != 0 ? inspect(d, a, forms[i], &image, err)
                                                      : CAY_ERR_NOT_FOUND;
        if (r < 0 && r != CAY_ERR_NOT_FOUND)
            return r;
        if (r == 0 && cay_docker_called(a, image, name)) {
            *out = image;
            return 0;
        }
    }
    return cay_docker_no_image(name, err);
}

/* From our own store; the Engine asks no registry by itself. */
static int supply(struct cay_docker *d, struct cay_arena *a, const char *name,
                  const struct cay_json **out, struct cay_error *err)
{
    int r = cay_docker_find_image(d, a, name, out, err);
    if (r != CAY_ERR_NOT_FOUND || cay_docker_is_inner(a, name))
        return r;
    pthread_mutex_lock(&d->fitting); /* nobody loads what another is loading */
    r = cay_docker_find_image(d, a, name, out, err);
    if (r == CAY_ERR_NOT_FOUND && (r = load(d, a, name, err)) == 0)
        r = cay_docker_find_image(d, a, name, out, err);
    pthread_mutex_unlock(&d->fitting);
    return r == CAY_ERR_NOT_FOUND ? cay_docker_no_image(name, err) : r;
}

/* In our store, and from there in the Engine, whatever had the name. */
int cay_docker_build(struct cay_provider *p, const struct cay_recipe *what,
                     const struct cay_build_watch *watch, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    int r = cay_docker_refuse_inner(&a, what->image, err);
    if (r == 0)
        r = cay_local_build(p, what, watch, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&d->fitting);
    r = load(d, &a, what->image, err);
    pthread_mutex_unlock(&d->fitting);
    return r;
}

static const char *fit_tag(const struct cay_docker *d, struct cay_arena *a,
                           const struct cay_json *image)
{
    const char *id = cay_json_get_str(image, "Id", "");
    const char *digits = strchr(id, ':') ? strchr(id, ':') + 1 : id;
    return cay_arena_printf(a, "%.24s-%s-" FIT_VERSION, digits, d->tools);
}

int cay_docker_fit_name(struct cay_docker *d, struct cay_arena *a, const char *name,
                        const char **out, struct cay_error *err)
{
    const struct cay_json *image;
    int r = supply(d, a, name, &image, err);
    if (r == 0)
        *out = cay_arena_printf(a, CAY_DOCKER_FITS ":%s", fit_tag(d, a, image));
    return r;
}

int cay_docker_fit(struct cay_docker *d, struct cay_arena *a, const char *name,
                   struct cay_error *err)
{
    const struct cay_json *image, *fit;
    int r = supply(d, a, name, &image, err);
    if (r < 0)
        return r;
    const char *tag = fit_tag(d, a, image);
    pthread_mutex_lock(&d->fitting);
    r = inspect(d, a, cay_arena_printf(a, CAY_DOCKER_FITS ":%s", tag), &fit, err);
    if (r == CAY_ERR_NOT_FOUND)
        r = make_fit(d, a, image, tag, err);
    pthread_mutex_unlock(&d->fitting);
    return r < 0 ? cay_wrap(err, "cannot fit the image %s", name) : 0;
}
