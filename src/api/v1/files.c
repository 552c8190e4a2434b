/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: names in a sandbox's directories. */
#include "api/v1/file.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

#define Q struct cay_api_file_query
#define DEPTH_MAX 64

static const struct cay_field fields[] = {
    CAY_FIELD_STR(Q, path, "path"),
    CAY_FIELD_STR(Q, path_base64, "pathBase64"),
    CAY_FIELD_STR(Q, user, "user"),
    CAY_FIELD_STR(Q, hash, "hash"),
    CAY_FIELD_BOOL(Q, recursive, "recursive"),
    CAY_FIELD_INT(Q, depth, "depth", .min = 1, .max = DEPTH_MAX),
    CAY_FIELD_INT(Q, limit, "limit", .min = 1, .max = CAY_FILE_PAGE),
    CAY_FIELD_STR(Q, cursor, "cursor"),
    CAY_FIELD_END,
};

static const struct cay_field body_fields[] = {
    CAY_FIELD_STR(Q, path, "path"),
    CAY_FIELD_STR(Q, path_base64, "pathBase64"),
    CAY_FIELD_STR(Q, to, "to"),
    CAY_FIELD_STR(Q, to_base64, "toBase64"),
    CAY_FIELD_STR(Q, user, "user"),
    CAY_FIELD_STR(Q, mode, "mode"),
    CAY_FIELD_BOOL(Q, parents, "parents"),
    CAY_FIELD_BOOL(Q, overwrite, "overwrite"),
    CAY_FIELD_END,
};

static struct cay_json_writer *open_answer(struct cay_resp *resp, int status,
                                           const struct cay_api_file *f)
{
    struct cay_json_writer *w = cay_resp_json(resp, status);
    cay_jw_object(w, NULL);
    cay_v1_file_path(w, "path", f->rq.path, strlen(f->rq.path));
    return w;
}

/* ---- stat ---- */

static int answer_stat(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                       struct cay_error *err)
{
    (void)req;
    if (f->len != f->reply.length)
        return cay_core_file_verdict(&f->rq, NULL, err);
    struct cay_json_writer *w = open_answer(resp, 200, f);
    cay_v1_file_info(w, &f->reply.info);
    cay_jw_int(w, "links", f->reply.info.links);
    if (f->len > 0)
        cay_v1_file_path(w, "linkTarget", f->data, f->len);
    if (f->reply.flags & CAY_FILE_HAS_TARGET) {
        cay_jw_object(w, "target");
        cay_v1_file_info(w, &f->reply.target);
        cay_jw_object_end(w);
    }
    cay_v1_file_hash(w, &f->reply);
    cay_jw_object_end(w);
    return 0;
}

static int get_stat(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {0};
    struct cay_api_file *f;
    int r = cay_req_decode_query(req, fields, &q, err);
    if (r == 0)
        r = cay_api_file_new(req, CAY_FILE_STAT, &q, &f, err);
    if (r < 0)
        return r;
    f->answer = answer_stat;
    return cay_api_file_ask(req, resp, f, err);
}

/* ---- list ---- */

/* A cursor is the last path of a page, in hex: names may hold any byte. */
static int read_cursor(struct cay_arena *a, const char *hex, const char **out,
                       struct cay_error *err)
{
    size_t len = strlen(hex);
    char *path = cay_arena_alloc(a, len / 2 + 1);
    if (len % 2 || len / 2 > CAY_MAX_PATH || strspn(hex, "0123456789abcdef") != len)
        return cay_fail_field(err, "cursor", "this is no cursor that a page ended with");
    for (size_t i = 0; i < len / 2; i++) {
        unsigned byte = 0;
        (void)sscanf(hex + 2 * i, "%2x", &byte); /* two digits, as seen above */
        if (byte == 0)
            return cay_fail_field(err, "cursor", "this is no cursor that a page ended with");
        path[i] = (char)byte;
    }
    *out = path;
    return 0;
}

static void put_cursor(struct cay_json_writer *w, struct cay_arena *a,
                       const struct cay_file_item *last)
{
    char *hex = cay_arena_alloc(a, 2 * last->path_len + 1);
    for (size_t i = 0; i < last->path_len; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned char)last->path[i]);
    cay_jw_str(w, "nextCursor", hex);
}

static void shape_item(struct cay_json_writer *w, struct cay_arena *a, const char *top,
                       const struct cay_file_item *item)
{
    const char *slash = memrchr(item->path, '/', item->path_len);
    const char *name = slash ? slash + 1 : item->path;
    size_t top_len = strcmp(top, ".") == 0 ? 0 : strlen(top);
    char *path = cay_arena_alloc(a, top_len + 1 + item->path_len + 1);
    memcpy(path, top, top_len);
    if (top_len > 0 && top[top_len - 1] != '/')
        path[top_len++] = '/';
    memcpy(path + top_len, item->path, item->path_len);
    cay_jw_object(w, NULL);
    cay_v1_file_path(w, "name", name, (size_t)(item->path + item->path_len - name));
    cay_v1_file_path(w, "path", path, top_len + item->path_len);
    cay_v1_file_info(w, &item->info);
    if (item->link_len > 0)
        cay_v1_file_path(w, "linkTarget", item->link, item->link_len);
    cay_jw_object_end(w);
}

static int answer_list(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                       struct cay_error *err)
{
    struct cay_json_writer *w = open_answer(resp, 200, f);
    struct cay_file_item item = {0};
    const char *at = f->data;
    size_t left = f->len;
    cay_jw_array(w, "entries");
    for (uint32_t i = 0; i < f->reply.count; i++) {
        if (cay_file_entry_next(&at, &left, &item) != 0)
            return cay_core_file_verdict(&f->rq, NULL, err);
        shape_item(w, req->arena, f->rq.path, &item);
    }
    cay_jw_array_end(w);
    bool more = (f->reply.flags & CAY_FILE_MORE) && f->reply.count > 0;
    cay_jw_bool(w, "hasNext", more);
    if (more)
        put_cursor(w, req->arena, &item);
    else
        cay_jw_null(w, "nextCursor");
    cay_jw_object_end(w);
    return 0;
}

static int get_list(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {.path = ".", .limit = CAY_FILE_PAGE};
    struct cay_api_file *f;
    int r = cay_req_decode_query(req, fields, &q, err);
    if (r == 0)
        r = cay_api_file_new(req, CAY_FILE_LIST, &q, &f, err);
    if (r == 0 && q.cursor)
        r = read_cursor(req->arena, q.cursor, &f->rq.after, err);
    if (r < 0)
        return r;
    f->rq.depth = q.depth ? (uint64_t)q.depth : q.recursive ? DEPTH_MAX : 1;
    f->rq.count = (uint64_t)q.limit;
    f->answer = answer_list;
    return cay_api_file_ask(req, resp, f, err);
}

/* ---- changes ---- */

static int answer_made(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                       struct cay_error *err)
{
    bool created = f->reply.flags & CAY_FILE_CREATED;
    (void)req, (void)err;
    struct cay_json_writer *w = open_answer(resp, created ? 201 : 200, f);
    if (f->rq.op == CAY_FILE_MOVE)
        cay_v1_file_path(w, "to", f->rq.to, strlen(f->rq.to));
    else
        cay_jw_bool(w, "created", created);
    cay_v1_file_info(w, &f->reply.info);
    cay_jw_object_end(w);
    return 0;
}

static int post_mkdir(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {.parents = true};
    struct cay_api_file *f;
    int r = cay_req_decode(req, body_fields, &q, err);
    if (r == 0)
        r = cay_api_file_new(req, CAY_FILE_MKDIR, &q, &f, err);
    if (r < 0)
        return r;
    f->rq.flags |= q.parents ? CAY_FILE_PARENTS : 0;
    f->answer = answer_made;
    return cay_api_file_ask(req, resp, f, err);
}

static int post_move(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {.overwrite = true};
    struct cay_api_file *f;
    int r = cay_req_decode(req, body_fields, &q, err);
    if (r == 0)
        r = cay_api_file_new(req, CAY_FILE_MOVE, &q, &f, err);
    if (r < 0)
        return r;
    f->rq.flags |= q.overwrite ? 0 : CAY_FILE_NEW;
    f->answer = answer_made;
    return cay_api_file_ask(req, resp, f, err);
}

static int answer_removed(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                          struct cay_error *err)
{
    (void)req, (void)err;
    struct cay_json_writer *w = open_answer(resp, 200, f);
    cay_jw_bool(w, "removed", true);
    cay_jw_object_end(w);
    return 0;
}

static int delete_file(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {0};
    struct cay_api_file *f;
    int r = cay_req_decode_query(req, fields, &q, err);
    if (r == 0)
        r = cay_api_file_new(req, CAY_FILE_REMOVE, &q, &f, err);
    if (r < 0)
        return r;
    f->rq.flags |= q.recursive ? CAY_FILE_RECURSIVE : 0;
    f->answer = answer_removed;
    return cay_api_file_ask(req, resp, f, err);
}

#define FILES "/api/v1/sandbox/{id}/files"

const struct cay_route cay_v1_file_routes[] = {
    {"GET", FILES "/stat", CAY_SCOPE_READ, get_stat, CAY_BODY_AUTO,
     CAY_DOC("What a file is", "FileInfo", .topic = "Files", .query = fields,
             .ask = "path=hello.txt&hash=sha256")},
    {"GET", FILES "/list", CAY_SCOPE_READ, get_list, CAY_BODY_AUTO,
     CAY_DOC("What is in a directory, page by page", "FilePage", .query = fields,
             .ask = "path=.&depth=2")},
    {"POST", FILES "/mkdir", CAY_SCOPE_EXEC, post_mkdir, CAY_BODY_AUTO,
     CAY_DOC("Make a directory", "201 FileInfo; 200 FileInfo", .body = body_fields,
             .send = "{'path': 'data/new', 'parents': true}")},
    {"POST", FILES "/move", CAY_SCOPE_EXEC, post_move, CAY_BODY_AUTO,
     CAY_DOC("Move or rename", "FileInfo; 201 FileInfo", .body = body_fields,
             .send = "{'path': 'hello.txt', 'to': 'moved.txt'}")},
    {"DELETE", FILES, CAY_SCOPE_EXEC, delete_file, CAY_BODY_AUTO,
     CAY_DOC("Remove a file, or a directory and all in it", "FileRemoved", .query = fields,
             .ask = "path=hello.txt")},
    {"GET", FILES "/watch", CAY_SCOPE_READ, cay_v1_file_watch, CAY_BODY_AUTO,
     CAY_DOC("Changes below a directory, as they happen", "text/event-stream",
             .query = cay_v1_watch_fields, .ask = "path=.&recursive=true")},
    {0},
};
