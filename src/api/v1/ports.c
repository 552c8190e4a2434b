/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: which ports of a sandbox may be reached, in two spellings: /ports, by number, and
 * /expose, by the id of an exposure. */
#include "api/preview.h"
#include "api/v1/v1.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

struct port_body {
    int64_t port, wait_seconds;
    const char *name, *protocol;
    bool is_public;
};

static const char *const protocols[] = {"http", "tcp", "HTTP", "TCP", NULL};

#define BODY struct port_body
static const struct cay_field port_fields[] = {
    CAY_FIELD_INT(BODY, port, "port", .required = true, .min = 1, .max = 65535),
    CAY_FIELD_STR(BODY, name, "name", .max_len = CAY_MAX_PORT_NAME),
    CAY_FIELD_BOOL(BODY, is_public, "public"),
    CAY_FIELD_STR(BODY, protocol, "protocol", .choices = protocols),
    CAY_FIELD_INT(BODY, wait_seconds, "waitSeconds", .min = 0, .max = CAY_MAX_PORT_WAIT_S),
    CAY_FIELD_END,
};

static struct cay_port port_of(const struct port_body *body)
{
    struct cay_port port = {.port = (uint16_t)body->port,
                            .is_public = body->is_public,
                            .is_tcp = body->protocol && strchr("tT", body->protocol[0]),
                            .wait_s = (uint16_t)body->wait_seconds};
    cay_str_copy(port.name, sizeof port.name, body->name ? body->name : "");
    return port;
}

/* Puts the place of a list's element ahead of the field's name. */
static int wrong_at(size_t i, int r, struct cay_error *err)
{
    char inner[sizeof err->field];
    cay_str_copy(inner, sizeof inner, err->field);
    (void)snprintf(err->field, sizeof err->field, "ports.%zu%s%.30s", i, inner[0] ? "." : "",
                   inner);
    return r;
}

int cay_v1_decode_ports(struct cay_arena *a, const struct cay_json *v,
                        struct cay_port out[CAY_MAX_PORTS], size_t *count_out,
                        struct cay_error *err)
{
    struct cay_port ports[CAY_MAX_PORTS] = {0};
    size_t count = 0;
    if (!v || v->kind == CAY_JSON_NULL)
        return 0;
    if (v->kind != CAY_JSON_ARRAY || v->count > CAY_MAX_PORTS)
        return cay_fail_field(err, "ports", "ports must be a list of at most %d", CAY_MAX_PORTS);
    for (v = v->first; v; v = v->next) {
        struct port_body body = {0};
        bool plain = v->kind == CAY_JSON_NUMBER && cay_json_int(v, &body.port) && body.port >= 1 &&
                     body.port <= 65535;
        if (!plain && v->kind != CAY_JSON_OBJECT)
            return cay_fail_field(err, "ports", "a port is a number from 1 to 65535, or an object");
        int r = plain ? 0 : cay_fields_decode(a, port_fields, v, &body, err);
        if (r < 0)
            return wrong_at(count, r, err);
        ports[count++] = port_of(&body);
    }
    memcpy(out, ports, sizeof ports);
    *count_out = count;
    return 0;
}

/* What both spellings tell, into the object that is open. */
static void shape_inside(struct cay_json_writer *w, const char *sandbox_id,
                         const struct cay_port *port)
{
    char url[CAY_PREVIEW_URL];
    cay_preview_url(sandbox_id, port->port, url);
    cay_jw_int(w, "port", port->port);
    cay_jw_str(w, "name", port->name[0] ? port->name : NULL);
    cay_jw_str(w, "url", url);
    cay_jw_bool(w, "public", port->is_public);
    cay_jw_int(w, "waitSeconds", port->wait_s);
}

void cay_v1_shape_port(struct cay_json_writer *w, const char *key, const char *sandbox_id,
                       const struct cay_port *port)
{
    cay_jw_object(w, key);
    cay_jw_str(w, "sandboxId", sandbox_id);
    shape_inside(w, sandbox_id, port);
    cay_jw_str(w, "protocol", port->is_tcp ? "tcp" : "http");
    cay_jw_time(w, "createdAt", port->created_at_ms);
    cay_jw_object_end(w);
}

static void shape_exposure(struct cay_json_writer *w, const char *key, const char *sandbox_id,
                           const struct cay_port *port)
{
    char id[CAY_ID_SIZE + 8], address[CAY_PREVIEW_URL];
    (void)snprintf(id, sizeof id, "%u-%s", port->port, sandbox_id);
    cay_preview_address(sandbox_id, port->port, address);
    cay_jw_object(w, key);
    cay_jw_str(w, "exposure_id", id);
    cay_jw_str(w, "sandbox_id", sandbox_id);
    shape_inside(w, sandbox_id, port);
    cay_jw_str(w, "tls_socket", address);
    cay_jw_str(w, "protocol", port->is_tcp ? "TCP" : "HTTP");
    cay_jw_time(w, "created_at", port->created_at_ms);
    cay_jw_object_end(w);
}

typedef void (*shape)(struct cay_json_writer *w, const char *key, const char *sandbox_id,
                      const struct cay_port *port);

static int expose_as(struct cay_req *req, struct cay_resp *resp, shape each, struct cay_error *err)
{
    struct port_body body = {0};
    struct cay_sandbox sb;
    bool made;
    int r = cay_req_decode(req, port_fields, &body, err);
    if (r < 0)
        return r;
    struct cay_port port = port_of(&body);
    r = cay_core_expose(req->core, req->owner, cay_req_param(req, "id"), &port, req->arena, &sb,
                        &made, err);
    if (r < 0)
        return r;
    req->object = cay_arena_printf(req->arena, "%u", port.port);
    each(cay_resp_json(resp, made ? 201 : 200), NULL, sb.id, cay_spec_port(&sb.spec, port.port));
    return 0;
}

static int list_as(struct cay_req *req, struct cay_resp *resp, const char *key, shape each,
                   struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, key);
    for (size_t i = 0; i < sb.spec.port_count; i++)
        each(w, NULL, sb.id, &sb.spec.ports[i]);
    cay_jw_array_end(w);
    cay_jw_int(w, "total", (int64_t)sb.spec.port_count);
    cay_jw_object_end(w);
    return 0;
}

struct all_query {
    const char *team_id;
};

static const struct cay_field all_fields[] = {
    CAY_FIELD_STR(struct all_query, team_id, "teamId"),
    CAY_FIELD_END,
};

static int list_all_as(struct cay_req *req, struct cay_resp *resp, const char *key, shape each,
                       struct cay_error *err)
{
    struct all_query q = {0};
    struct cay_exposed_list found;
    int64_t total = 0;
    int r = cay_req_decode_query(req, all_fields, &q, err);
    if (r == 0)
        r = cay_core_exposed(req->core, req->owner, q.team_id, req->arena, &found, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, key);
    for (size_t i = 0; i < found.count; i++)
        for (size_t k = 0; k < found.at[i].count; k++, total++)
            each(w, NULL, found.at[i].sandbox_id, &found.at[i].ports[k]);
    cay_jw_array_end(w);
    cay_jw_int(w, "total", total);
    cay_jw_object_end(w);
    return 0;
}

static int remove_port(struct cay_req *req, struct cay_resp *resp, uint64_t port,
                       struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_unexpose(req->core, req->owner, cay_req_param(req, "id"), (unsigned)port,
                              req->arena, &sb, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "sandboxId", sb.id);
    cay_jw_int(w, "port", (int64_t)port);
    cay_jw_object_end(w);
    return 0;
}

static int expose(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return expose_as(req, resp, cay_v1_shape_port, err);
}

static int list(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return list_as(req, resp, "ports", cay_v1_shape_port, err);
}

static int list_all(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return list_all_as(req, resp, "ports", cay_v1_shape_port, err);
}

static int unexpose(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    uint64_t port;
    int r = cay_preview_port(req, &port, err);
    return r < 0 ? r : remove_port(req, resp, port, err);
}

struct link_body {
    int64_t expires_in;
};

static const struct cay_field link_fields[] = {
    CAY_FIELD_INT(struct link_body, expires_in, "expiresIn", .min = 1,
                  .max = CAY_PREVIEW_LINK_MAX_S),
    CAY_FIELD_END,
};

static int make_link(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct link_body body = {.expires_in = CAY_PREVIEW_LINK_S};
    struct cay_sandbox sb;
    struct cay_link link;
    char url[CAY_PREVIEW_URL];
    uint64_t port;
    int r = cay_preview_port(req, &port, err);
    if (r == 0)
        r = cay_req_decode(req, link_fields, &body, err);
    if (r == 0)
        r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    if (r == 0)
        r = cay_core_link(req->core, req->owner, sb.id, (unsigned)port, body.expires_in, req->arena,
                          &link, err);
    if (r < 0)
        return r;
    cay_preview_url(sb.id, (unsigned)port, url);
    struct cay_json_writer *w = cay_resp_json(resp, 201);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "url",
               cay_arena_printf(req->arena, "%s?" CAY_PREVIEW_PARAM "=%s", url, link.proof));
    cay_jw_time(w, "expiresAt", link.expires_at_ms);
    cay_jw_object_end(w);
    return 0;
}

static int add_exposure(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return expose_as(req, resp, shape_exposure, err);
}

static int list_exposures(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return list_as(req, resp, "exposures", shape_exposure, err);
}

static int list_all_exposures(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return list_all_as(req, resp, "exposures", shape_exposure, err);
}

/* "3000-sb-…", or the number alone. */
static int remove_exposure(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    char number[8] = "";
    uint64_t port;
    const char *id = cay_req_param(req, "xid");
    size_t len = strcspn(id, "-");
    cay_str_copy(number, len < sizeof number ? len + 1 : 1, id);
    bool fits = !id[len] || strcmp(id + len + 1, cay_req_param(req, "id")) == 0;
    if (!fits || !cay_str_u64(number, 65535, &port))
        port = 0; /* which none is */
    return remove_port(req, resp, port, err);
}

#define PORTS "/api/v1/sandbox/{id}/ports"
#define EXPOSE "/api/v1/sandbox/{id}/expose"

const struct cay_route cay_v1_port_routes[] = {
    {"POST", PORTS, CAY_SCOPE_WRITE, expose, CAY_BODY_AUTO,
     CAY_DOC("Let a port be reached from outside", "201 Port; 200 Port", .topic = "Ports",
             .body = port_fields, .send = "{'port': 3000, 'name': 'site'}")},
    {"GET", PORTS, CAY_SCOPE_READ, list, CAY_BODY_AUTO,
     CAY_DOC("Ports of one that may be reached", "PortList")},
    {"DELETE", PORTS "/{port}", CAY_SCOPE_WRITE, unexpose, CAY_BODY_AUTO,
     CAY_DOC("Close it again", "PortRemoved")},
    {"POST", PORTS "/{port}/link", CAY_SCOPE_EXEC, make_link, CAY_BODY_AUTO,
     CAY_DOC("A signed link to it, for who has no token", "201 PortLink", .body = link_fields,
             .send = "{'expiresIn': 600}")},
    {"GET", "/api/v1/sandbox/ports", CAY_SCOPE_READ, list_all, CAY_BODY_AUTO,
     CAY_DOC("Ports of all that may be reached", "PortList", .query = all_fields)},
    {0},
};

const struct cay_route cay_v1_expose_routes[] = {
    {"POST", EXPOSE, CAY_SCOPE_WRITE, add_exposure, CAY_BODY_AUTO,
     CAY_DOC("The same by another name", "201 Exposure; 200 Exposure", .topic = "Ports",
             .body = port_fields, .send = "{'port': 3000, 'protocol': 'HTTP'}")},
    {"GET", EXPOSE, CAY_SCOPE_READ, list_exposures, CAY_BODY_AUTO,
     CAY_DOC("Exposures of one", "ExposureList")},
    {"DELETE", EXPOSE "/{xid}", CAY_SCOPE_WRITE, remove_exposure, CAY_BODY_AUTO,
     CAY_DOC("Remove one, by its id", "PortRemoved")},
    {"GET", "/api/v1/sandbox/expose/all", CAY_SCOPE_READ, list_all_exposures, CAY_BODY_AUTO,
     CAY_DOC("Exposures of all", "ExposureList", .query = all_fields)},
    {0},
};
