/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: images. A name that has a slash is given by ?ref=, because no path has an encoded one.
 */
#include "api/auth.h"
#include "api/v1/v1.h"
#include <string.h>

static void shape_strs(struct cay_json_writer *w, const char *key, const struct cay_strs *list,
                       const char *prefix)
{
    cay_jw_array(w, key);
    for (size_t i = 0; i < list->count; i++) {
        CAY_AUTO_BUF struct cay_buf text = {0};
        cay_buf_addf(&text, "%s%s", prefix, list->at[i]);
        cay_jw_strn(w, NULL, text.data, text.len);
    }
    cay_jw_array_end(w);
}

static const char *or_null(const char *s)
{
    return s && *s ? s : NULL;
}

static void shape(struct cay_json_writer *w, const struct cay_image *i, bool full)
{
    CAY_AUTO_BUF struct cay_buf digest = {0};
    cay_buf_addf(&digest, "sha256:%s%c", i->digest ? i->digest : "", 0);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "name", i->name);
    cay_jw_str(w, "digest", or_null(i->digest) ? digest.data : NULL);
    cay_jw_str(w, "source", or_null(i->source));
    cay_jw_str(w, "architecture", or_null(i->architecture));
    cay_jw_int(w, "sizeBytes", (int64_t)i->bytes);
    cay_jw_int(w, "uses", i->uses);
    cay_jw_int(w, "layerCount", (int64_t)i->layers.count);
    cay_jw_time(w, "createdAt", i->created_at_ms);
    if (full) {
        cay_jw_str(w, "user", or_null(i->user));
        cay_jw_str(w, "workdir", or_null(i->workdir));
        cay_jw_str(w, "stopSignal", or_null(i->stop_signal));
        shape_strs(w, "env", &i->env, "");
        shape_strs(w, "entrypoint", &i->entrypoint, "");
        shape_strs(w, "cmd", &i->cmd, "");
        shape_strs(w, "layers", &i->layers, "sha256:");
    }
    cay_jw_object_end(w);
}

struct list_query {
    const char *ref;
};

static const struct cay_field list_fields[] = {
    CAY_FIELD_STR(struct list_query, ref, "ref", .max_len = CAY_MAX_IMAGE_NAME),
    CAY_FIELD_END,
};

static int answer_one(struct cay_req *req, struct cay_resp *resp, const char *ref,
                      struct cay_error *err)
{
    struct cay_image image;
    int r = cay_core_image(req->core, ref, req->arena, &image, err);
    if (r == 0)
        shape(cay_resp_json(resp, 200), &image, true);
    return r;
}

static int list(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct list_query q = {0};
    struct cay_images found;
    int r = cay_req_decode_query(req, list_fields, &q, err);
    if (r == 0 && q.ref)
        return answer_one(req, resp, q.ref, err);
    if (r == 0)
        r = cay_core_images(req->core, req->arena, &found, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "images");
    for (size_t i = 0; i < found.count; i++)
        shape(w, &found.at[i], false);
    cay_jw_array_end(w);
    cay_jw_int(w, "total", (int64_t)found.count);
    cay_jw_object_end(w);
    return 0;
}

static int get(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return answer_one(req, resp, cay_req_param(req, "ref"), err);
}

static int remove_ref(struct cay_req *req, struct cay_resp *resp, const char *ref,
                      struct cay_error *err)
{
    const char *name;
    req->object = ref;
    int r = cay_core_image_remove(req->core, ref, req->arena, &name, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "name", name);
    cay_jw_bool(w, "deleted", true);
    cay_jw_object_end(w);
    return 0;
}

static int delete_path(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return remove_ref(req, resp, cay_req_param(req, "ref"), err);
}

static const struct cay_field delete_fields[] = {
    CAY_FIELD_STR(struct list_query, ref, "ref", .required = true, .max_len = CAY_MAX_IMAGE_NAME),
    CAY_FIELD_END,
};

static int delete_query(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct list_query q = {0};
    int r = cay_req_decode_query(req, delete_fields, &q, err);
    return r < 0 ? r : remove_ref(req, resp, q.ref, err);
}

static int prune(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_pruned pruned;
    int r = cay_core_image_prune(req->core, &pruned, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_int(w, "layers", pruned.layers);
    cay_jw_int(w, "bytes", (int64_t)pruned.bytes);
    cay_jw_object_end(w);
    return 0;
}

/* ---- in ---- */

struct pull_body {
    const char *image, *policy;
};

static const char *const policies[] = {"missing", "always", NULL};

static const struct cay_field pull_fields[] = {
    CAY_FIELD_STR(struct pull_body, image, "image", .required = true,
                  .max_len = CAY_MAX_IMAGE_NAME),
    CAY_FIELD_STR(struct pull_body, policy, "policy", .choices = policies),
    CAY_FIELD_END,
};

static int pull(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct pull_body body = {.policy = "always"};
    enum cay_pull_policy policy = CAY_PULL_ALWAYS;
    char id[CAY_ID_SIZE];
    int r = cay_req_decode(req, pull_fields, &body, err);
    if (r < 0)
        return r;
    req->object = body.image;
    (void)cay_pull_policy_parse(body.policy, &policy); /* one of the table's */
    r = cay_core_image_pull(req->core, req->owner, body.image, policy, id, err);
    return r < 0 ? r : cay_v1_answer_job(req, resp, id, err);
}

struct build_body {
    const char *image, *recipe;
    bool again;
};

static const struct cay_field build_fields[] = {
    CAY_FIELD_STR(struct build_body, image, "image", .max_len = CAY_MAX_IMAGE_NAME),
    CAY_FIELD_STR(struct build_body, recipe, "recipe", .max_len = CAY_RECIPE_BYTES),
    CAY_FIELD_BOOL(struct build_body, again, "again"),
    CAY_FIELD_END,
};

/* What a create would have built anybody may have built who may create; a recipe of one's own, or
 * another image in the place of one that is there, is the operator's. */
static int build(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct build_body body = {0};
    char id[CAY_ID_SIZE];
    int r = cay_req_decode(req, build_fields, &body, err);
    if (r == 0 && !body.image == !body.recipe)
        r = cay_fail_field(err, "image", "name the image of a recipe, or give a recipe");
    if (r == 0 && (body.recipe || body.again))
        r = cay_auth_raise(req, CAY_SCOPE_IMAGES, err);
    if (r < 0)
        return r;
    const struct cay_recipe what = {body.image, body.recipe, body.again};
    req->object = body.image;
    r = cay_core_image_build(req->core, req->owner, &what, id, err);
    return r < 0 ? r : cay_v1_answer_job(req, resp, id, err);
}

struct load_query {
    const char *name;
};

static const struct cay_field load_fields[] = {
    CAY_FIELD_STR(struct load_query, name, "name", .max_len = CAY_MAX_IMAGE_NAME),
    CAY_FIELD_END,
};

/* The body has come, or the job took no more of it: what came of it is the job's to tell. */
static int answer_load(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return cay_v1_answer_job(req, resp, req->object, err);
}

static int load(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct load_query q = {0};
    struct cay_load_ends ends;
    char id[CAY_ID_SIZE];
    int r = cay_req_decode_query(req, load_fields, &q, err);
    if (r == 0)
        r = cay_core_image_load(req->core, req->owner, q.name, &ends, id, err);
    if (r < 0)
        return r;
    req->object = cay_arena_strdup(req->arena, id);
    const struct cay_receive to = {
        .sink_fd = ends.data_fd, .end_fd = ends.end_fd, .verdict_fd = -1};
    return cay_resp_receive(resp, &to, answer_load);
}

/* ---- out ---- */

struct export_query {
    const char *ref, *tag;
};

static const struct cay_field export_fields[] = {
    CAY_FIELD_STR(struct export_query, ref, "ref", .required = true, .max_len = CAY_MAX_IMAGE_NAME),
    CAY_FIELD_STR(struct export_query, tag, "tag", .max_len = CAY_MAX_IMAGE_NAME),
    CAY_FIELD_END,
};

static int export_it(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct export_query q = {0};
    struct cay_export_ends ends;
    int r = cay_req_decode_query(req, export_fields, &q, err);
    if (r == 0)
        r = cay_core_image_export(req->core, req->owner, q.ref, q.tag, &ends, err);
    if (r < 0)
        return r;
    return cay_resp_fd(resp, 200, "application/x-tar", ends.out_fd, -1, ends.end_fd);
}

const struct cay_route cay_v1_image_routes[] = {
    {"GET", "/api/v1/images", CAY_SCOPE_READ, list, CAY_BODY_AUTO,
     CAY_DOC("Images that are here; with ref= that one", "ImageList|Image; 501", .topic = "Images",
             .query = list_fields)},
    {"DELETE", "/api/v1/images", CAY_SCOPE_IMAGES, delete_query, CAY_BODY_AUTO,
     CAY_DOC("Remove a name; its layers go with the next prune", "ImageRemoved; 501",
             .query = delete_fields, .ask = "ref=spare:1")},
    {"GET", "/api/v1/images/{ref}", CAY_SCOPE_READ, get, CAY_BODY_AUTO,
     CAY_DOC("One image, with what it says about itself", "Image; 501")},
    {"DELETE", "/api/v1/images/{ref}", CAY_SCOPE_IMAGES, delete_path, CAY_BODY_AUTO,
     CAY_DOC("Remove a name; its layers go with the next prune", "ImageRemoved; 501")},
    {"POST", "/api/v1/images/pull", CAY_SCOPE_WRITE, pull, CAY_BODY_AUTO,
     CAY_DOC("Bring an image in from its registry: a job", "202 Job; 501", .body = pull_fields,
             .send = "{'image': 'node:20-bookworm', 'policy': 'missing'}")},
    {"POST", "/api/v1/images/load", CAY_SCOPE_IMAGES, load, CAY_BODY_STREAM,
     CAY_DOC("Images out of an archive of Docker's or an OCI layout: a job", "202 Job; 501",
             .query = load_fields, .media = "application/x-tar")},
    {"POST", "/api/v1/images/build", CAY_SCOPE_WRITE, build, CAY_BODY_AUTO,
     CAY_DOC("Build an image by one of the server's recipes, or by one's own: a job",
             "202 Job; 501", .body = build_fields, .send = "{'image': 'busybox'}")},
    {"POST", "/api/v1/images/prune", CAY_SCOPE_IMAGES, prune, CAY_BODY_AUTO,
     CAY_DOC("Remove layers that nothing needs", "Pruned; 501")},
    {"GET", "/api/v1/images/export", CAY_SCOPE_READ, export_it, CAY_BODY_AUTO,
     CAY_DOC("An image, or a snapshot, as an archive that Docker and others load",
             "application/x-tar; 501", .query = export_fields, .ask = "ref=busybox")},
    {0},
};
