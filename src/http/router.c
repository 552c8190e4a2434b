/* SPDX-License-Identifier: Apache-2.0 */
/* Routes as a tree of path segments. Each node has children by name and at most one that takes any
 * segment; the named ones are tried first, then that one, so that a literal wins over a parameter
 * and yet hides nothing that lies deeper. */
#include "http/router.h"
#include <string.h>

#define SEGMENTS_MAX 16 /* no pattern is deeper, so a longer path is unknown */
#define ROUTES_MAX 8    /* methods of one path */
#define GENERAL_ALLOW "GET, HEAD, POST, PUT, PATCH, DELETE"

struct node {
    const char *name; /* of a literal segment; NULL takes any */
    size_t len;
    struct node *child, *any, *next; /* first literal child, parameter child, sibling */
    const struct cay_route *routes[ROUTES_MAX];
    size_t count;
};

struct cay_router {
    struct cay_arena arena;
    struct node root;
};

struct path {
    const char *at[SEGMENTS_MAX];
    size_t count;
};

static struct node *child_for(struct cay_arena *a, struct node *n, const char *name, size_t len)
{
    if (name[0] == '{') {
        if (!n->any)
            n->any = cay_arena_alloc(a, sizeof *n);
        return n->any;
    }
    for (struct node *c = n->child; c; c = c->next)
        if (c->len == len && memcmp(c->name, name, len) == 0)
            return c;
    struct node *c = cay_arena_alloc(a, sizeof *c);
    *c = (struct node){.name = name, .len = len, .next = n->child};
    n->child = c;
    return c;
}

static int add_route(struct cay_router *r, const struct cay_route *route, struct cay_error *err)
{
    struct node *n = &r->root;
    size_t depth = 0, params = 0;
    const char *p = route->pattern;
    while (*p == '/') {
        size_t len = strcspn(++p, "/");
        params += *p == '{';
        if (++depth > SEGMENTS_MAX || params > CAY_HTTP_PARAMS)
            return cay_fail(err, CAY_ERR_INVALID, "route %s is too deep", route->pattern);
        if (*p == '{' && p[len - 1] != '}')
            return cay_fail(err, CAY_ERR_INVALID, "route %s has no closing brace", route->pattern);
        n = child_for(&r->arena, n, p, len);
        p += len;
    }
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->routes[i]->method, route->method) == 0)
            return cay_fail(err, CAY_ERR_INVALID, "route %s %s is there twice", route->method,
                            route->pattern);
    if (n->count == ROUTES_MAX)
        return cay_fail(err, CAY_ERR_INVALID, "route %s has too many methods", route->pattern);
    n->routes[n->count++] = route;
    return 0;
}

int cay_router_new(const struct cay_route *const *tables, struct cay_router **out,
                   struct cay_error *err)
{
    struct cay_router *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    for (; *tables; tables++)
        for (const struct cay_route *route = *tables; route->method; route++)
            if (add_route(r, route, err) < 0) {
                cay_router_free(r);
                return CAY_ERR_INVALID;
            }
    *out = r;
    return 0;
}

void cay_router_free(struct cay_router *r)
{
    if (!r)
        return;
    cay_arena_done(&r->arena);
    free(r);
}

/* Cuts the path into decoded segments. A slash that was encoded would be cut by the next reader, so
 * it is refused. A path that is too deep keeps no segment and fits no route. */
static int split(struct cay_req *req, struct path *out, struct cay_error *err)
{
    const char *p = req->path;
    size_t depth = 0;
    while (*p == '/') {
        size_t len = strcspn(++p, "/");
        const char *segment;
        if (!memchr(p, '%', len))
            segment = cay_arena_strndup(req->arena, p, len);
        else if (!cay_str_percent(req->arena, p, len, &segment) || strchr(segment, '/') ||
                 !cay_str_is_utf8(segment, strlen(segment)))
            return cay_fail_as(err, CAY_ERR_INVALID, "INVALID_PATH",
                               "the path has a broken escape or one for NUL or a slash");
        if (depth < SEGMENTS_MAX)
            out->at[depth] = segment;
        depth++;
        p += len;
    }
    out->count = depth <= SEGMENTS_MAX ? depth : 0;
    return 0;
}

static const struct node *find(const struct node *n, const struct path *path, size_t depth)
{
    if (depth == path->count)
        return n->count ? n : NULL;
    const char *segment = path->at[depth];
    size_t len = strlen(segment);
    for (const struct node *c = n->child; c; c = c->next)
        if (c->len == len && memcmp(c->name, segment, len) == 0) {
            const struct node *found = find(c, path, depth + 1);
            if (found)
                return found;
            break;
        }
    return n->any && len > 0 ? find(n->any, path, depth + 1) : NULL;
}

static void set_params(struct cay_req *req, const struct path *path)
{
    req->params.at = cay_arena_alloc(req->arena, CAY_HTTP_PARAMS * sizeof(req->params.at[0]));
    const char *p = req->route->pattern;
    for (size_t depth = 0; *p == '/'; depth++) {
        size_t len = strcspn(++p, "/");
        if (*p == '{')
            req->params.at[req->params.count++] =
                (struct cay_pair){cay_arena_strndup(req->arena, p + 1, len - 2), path->at[depth]};
        p += len;
    }
}

static const char *list_methods(struct cay_arena *a, const struct node *n)
{
    const char *list = NULL;
    for (size_t i = 0; i < n->count; i++) {
        const char *method = n->routes[i]->method;
        const char *more = strcmp(method, "GET") == 0 ? "GET, HEAD" : method;
        list = list ? cay_arena_printf(a, "%s, %s", list, more) : more;
    }
    return list;
}

int cay_router_match(const struct cay_router *r, struct cay_req *req, struct cay_error *err)
{
    struct path path = {.count = 0};
    int failed = split(req, &path, err);
    if (failed < 0)
        return failed;
    const struct node *n = path.count ? find(&r->root, &path, 0) : NULL;
    if (!n && req->path[0] == '/')
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "ROUTE_NOT_FOUND", "no such path");
    const char *method = strcmp(req->method, "HEAD") == 0 ? "GET" : req->method;
    for (size_t i = 0; n && i < n->count; i++)
        if (strcmp(n->routes[i]->method, method) == 0) {
            req->route = n->routes[i];
            set_params(req, &path);
            return 0;
        }
    req->allow = n ? list_methods(req->arena, n) : GENERAL_ALLOW;
    return cay_fail_as(err, CAY_ERR_METHOD, "METHOD_NOT_ALLOWED", "method %s is not allowed here",
                       req->method);
}
