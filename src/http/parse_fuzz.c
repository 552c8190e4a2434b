/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a head: no crash, and the same verdict wherever the network cuts them. */
#include "http/parse.h"
#include "http/router.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void route(struct cay_arena *a, const struct cay_head *head)
{
    static const struct cay_route routes[] = {
        {"GET", "/a/{x}/b"}, {"GET", "/a/b/{y}"}, {"POST", "/{z}"}, {0}};
    static const struct cay_route *const tables[] = {routes, NULL};
    static struct cay_router *router;
    struct cay_error err;
    struct cay_req req = {.arena = a, .method = head->method, .path = head->path};
    struct cay_pairs pairs;
    req.query = head->query;
    if (!router && cay_router_new(tables, &router, &err) < 0)
        abort();
    (void)cay_router_match(router, &req, &err);
    (void)cay_req_query(&req, &pairs, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err;
    struct cay_head head;
    if (size < 1)
        return 0;
    size_t step = data[0] % 16 + 1, scanned = 0, len = size - 1;
    const char *bytes = (const char *)data + 1;
    int whole = cay_parse_scan(bytes, len, &scanned, &err), pieces = 0;
    scanned = 0;
    for (size_t have = 0; pieces == 0 && have < len;) {
        have = have + step < len ? have + step : len;
        pieces = cay_parse_scan(bytes, have, &scanned, &err);
    }
    if (whole != pieces)
        abort();
    if (whole > 0 && cay_parse_head(&a, bytes, (size_t)whole, &head, &err) == 0)
        route(&a, &head);
    return 0;
}
