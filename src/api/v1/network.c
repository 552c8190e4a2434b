/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: what a sandbox may reach, what it wanted to reach, and the policy that it would need. */
#include "api/v1/v1.h"
#include "model/limits.h"
#include <string.h>

/* egress-policy: the same policy as two lists, whatever form it came in. */

struct egress_body {
    const struct cay_json *allowlist, *denylist;
    int64_t generation;
};

static const struct cay_field egress_fields[] = {
    CAY_FIELD_ANY(struct egress_body, allowlist, "allowlist", .type = "[string]|null"),
    CAY_FIELD_ANY(struct egress_body, denylist, "denylist", .type = "[string]|null"),
    CAY_FIELD_INT(struct egress_body, generation, "generation", .min = 1, .max = 0x1p53),
    CAY_FIELD_END,
};

static void shape_joined(struct cay_json_writer *w, const char *key, bool given,
                         const struct cay_strs *one, const struct cay_strs *other)
{
    if (!given) {
        cay_jw_null(w, key);
        return;
    }
    cay_jw_array(w, key);
    for (size_t i = 0; i < one->count; i++)
        cay_jw_str(w, NULL, one->at[i]);
    for (size_t i = 0; i < other->count; i++)
        cay_jw_str(w, NULL, other->at[i]);
    cay_jw_array_end(w);
}

static int answer_egress(struct cay_req *req, struct cay_resp *resp, const struct cay_sandbox *sb)
{
    const struct cay_network *n = &sb->spec.network;
    bool listed = n->mode == CAY_NETWORK_LISTED || n->mode == CAY_NETWORK_OFF;
    bool denies = !listed || n->deny.count > 0 || n->subnets_deny.count > 0;
    uint64_t applied = cay_core_network_applied(req->core, sb);
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_object(w, "policy");
    shape_joined(w, "allowlist", listed, &n->allow, &n->subnets_allow);
    shape_joined(w, "denylist", denies, &n->deny, &n->subnets_deny);
    cay_jw_object_end(w);
    cay_jw_int(w, "generation", (int64_t)n->generation);
    cay_jw_int(w, "applied_generation", (int64_t)applied);
    cay_jw_int(w, "appliedGeneration", (int64_t)applied);
    cay_jw_bool(w, "applied", applied == n->generation);
    cay_jw_object_end(w);
    return 0;
}

static int get_egress(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    return r < 0 ? r : answer_egress(req, resp, &sb);
}

/* networkAllowlist[3] is allowlist[3] in this body. */
static void rename_field(struct cay_error *err)
{
    static const char prefix[] = "network";
    char *rest = err->field + strlen(prefix);
    if (strncmp(err->field, prefix, strlen(prefix)) != 0 || !*rest)
        return;
    memmove(err->field, rest, strlen(rest) + 1);
    err->field[0] = err->field[0] == 'A' ? 'a' : 'd';
}

/* The whole of it: without either list all is allowed. */
static int put_egress(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct egress_body body = {0};
    struct cay_network network = {.mode = CAY_NETWORK_OPEN};
    struct cay_change change = {.network = &network};
    struct cay_sandbox sb;
    int r = cay_req_decode(req, egress_fields, &body, err);
    if (r < 0)
        return r;
    uint64_t generation = (uint64_t)body.generation;
    struct cay_api_network lists = {.allowlist = body.allowlist, .denylist = body.denylist};
    change.generation = generation ? &generation : NULL;
    r = cay_api_decode_network(req->arena, &lists, &network, NULL, err);
    if (r == 0)
        r = cay_core_update(req->core, req->owner, cay_req_param(req, "id"), &change, req->arena,
                            &sb, err);
    if (r < 0) {
        rename_field(err);
        return r;
    }
    return answer_egress(req, resp, &sb);
}

/* What it wanted. */

static void shape_want(struct cay_json_writer *w, const struct cay_want *wanted)
{
    cay_jw_object(w, NULL);
    cay_jw_str(w, "name", wanted->name);
    cay_jw_str(w, "address", wanted->address);
    if (wanted->port)
        cay_jw_int(w, "port", wanted->port);
    else
        cay_jw_null(w, "port");
    cay_jw_str(w, "verdict", wanted->verdict);
    cay_jw_bool(w, "failed", wanted->failed);
    cay_jw_int(w, "count", (int64_t)wanted->count);
    cay_jw_int(w, "sentBytes", (int64_t)wanted->sent_bytes);
    cay_jw_int(w, "receivedBytes", (int64_t)wanted->received_bytes);
    cay_jw_int(w, "injected", (int64_t)wanted->injected);
    cay_jw_time(w, "firstAt", wanted->first_ms);
    cay_jw_time(w, "lastAt", wanted->last_ms);
    cay_jw_object_end(w);
}

static int get_network(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_wants found;
    int r =
        cay_core_wants(req->core, req->owner, cay_req_param(req, "id"), req->arena, &found, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "sandboxId", found.sandbox.id);
    cay_api_shape_policy(w, "networkPolicy", &found.sandbox.spec.network);
    cay_jw_int(w, "generation", (int64_t)found.sandbox.spec.network.generation);
    cay_jw_array(w, "wanted");
    for (size_t i = 0; i < found.count; i++)
        shape_want(w, &found.at[i]);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    return 0;
}

static int propose(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_wants found;
    int r =
        cay_core_wants(req->core, req->owner, cay_req_param(req, "id"), req->arena, &found, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "sandboxId", found.sandbox.id);
    cay_api_shape_policy(w, "networkPolicy", &found.proposal);
    cay_jw_array(w, "leftOut");
    for (size_t i = 0; i < found.count; i++)
        if (!found.at[i].open_to_policy)
            shape_want(w, &found.at[i]);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    return 0;
}

#define AT "/api/v1/sandbox/{id}/"

const struct cay_route cay_v1_network_routes[] = {
    {"GET", AT "egress-policy", CAY_SCOPE_READ, get_egress, CAY_BODY_AUTO,
     CAY_DOC("What it may reach, as two lists", "EgressPolicy", .topic = "Network")},
    {"PUT", AT "egress-policy", CAY_SCOPE_WRITE, put_egress, CAY_BODY_AUTO,
     CAY_DOC("Replace what it may reach; with generation only if that is the present one",
             "EgressPolicy", .body = egress_fields, .send = "{'allowlist': ['*.debian.org:80']}")},
    {"GET", AT "network", CAY_SCOPE_READ, get_network, CAY_BODY_AUTO,
     CAY_DOC("What it wanted to reach, newest first", "Network")},
    {"POST", AT "network/propose", CAY_SCOPE_READ, propose, CAY_BODY_AUTO,
     CAY_DOC("The smallest policy that allows what it wanted", "Proposal")},
    {0},
};
