/* SPDX-License-Identifier: Apache-2.0 */
/* Who may see a preview, and whose it is; preview_reach.c leads there.
 *
 * In this order: a port that is public is open to all; a signed link, or the cookie that it left,
 * opens its one port; a token opens what its account has. A server without tokens is local: there
 * all is open, but not to pages of others. */
#include "api/preview.h"
#include "api/dialect.h"
#include "api/guard.h"
#include "api/preview_reach.h"
#include "base/clock.h"
#include "core/service.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DOMAIN_MAX 200
#define PATH_FORM "/p/"
#define COOKIE "cay-preview"
#define SECURE_COOKIE "__Host-cay-preview"

static struct {
    const struct cay_auth *auth;
    bool is_tls;
    char domain[DOMAIN_MAX]; /* lower case, without port */
    char port[8];            /* ":3000", or empty where the scheme's own is meant */
} preview;

static int handle(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);

const struct cay_route cay_preview_routes[] = {
    {"GET", "{port}-{id}", CAY_SCOPE_NONE, handle, CAY_BODY_STREAM},
    {"GET", "/p/{id}/{port}", CAY_SCOPE_NONE, handle, CAY_BODY_STREAM},
    {0},
};
#define BY_HOST (&cay_preview_routes[0])
#define BY_PATH (&cay_preview_routes[1])

/* ---- names ---- */

static bool is_domain(const char *s)
{
    size_t label = 0;
    for (; *s; s++) {
        bool plain = (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9');
        if (*s == '.' ? label == 0 : !plain && (*s != '-' || label == 0))
            return false;
        label = *s == '.' ? 0 : label + 1;
        if (label > 63)
            return false;
    }
    return label > 0;
}

static const char *without_scheme(const char *s, bool *tls)
{
    static const char http[] = "http://", https[] = "https://";
    if (strncmp(s, https, strlen(https)) == 0) {
        *tls = true;
        return s + strlen(https);
    }
    if (strncmp(s, http, strlen(http)) == 0) {
        *tls = false;
        return s + strlen(http);
    }
    return s;
}

int cay_preview_open(const struct cay_config *cfg, const struct cay_auth *auth,
                     struct cay_error *err)
{
    uint64_t port = 0;
    preview.auth = auth;
    preview.is_tls = false;
    const char *own = strrchr(without_scheme(cfg->url, &preview.is_tls), ':');
    const char *given = cfg->preview_domain ? cfg->preview_domain : "localhost";
    const char *name = without_scheme(given, &preview.is_tls);
    size_t len = strcspn(name, ":");
    bool told = name[len] == ':';
    if (len >= sizeof preview.domain || (told && !cay_str_u64(name + len + 1, 65535, &port)))
        return cay_fail(err, CAY_ERR_INVALID, "%s is no preview domain", given);
    if (!told && own)
        (void)cay_str_u64(own + 1, 65535, &port); /* else it is the scheme's */
    cay_str_copy(preview.domain, len + 1, name);
    for (char *p = preview.domain; *p; p++)
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 'a' - 'A') : *p;
    if (!is_domain(preview.domain))
        return cay_fail(err, CAY_ERR_INVALID, "%s is no preview domain", given);
    preview.port[0] = 0;
    if (port != 0 && port != (preview.is_tls ? 443 : 80))
        (void)snprintf(preview.port, sizeof preview.port, ":%u", (unsigned)port);
    return 0;
}

void cay_preview_url(const char *sandbox_id, unsigned port, char out[CAY_PREVIEW_URL])
{
    (void)snprintf(out, CAY_PREVIEW_URL, "%s://%u-%s.%s%s/", preview.is_tls ? "https" : "http",
                   port, sandbox_id, preview.domain, preview.port);
}

void cay_preview_address(const char *sandbox_id, unsigned port, char out[CAY_PREVIEW_URL])
{
    (void)snprintf(out, CAY_PREVIEW_URL, "%u-%s.%s%s", port, sandbox_id, preview.domain,
                   preview.port[0]  ? preview.port
                   : preview.is_tls ? ":443"
                                    : ":80");
}

int cay_preview_port(const struct cay_req *req, uint64_t *out, struct cay_error *err)
{
    if (!cay_str_u64(cay_req_param(req, "port"), 65535, out) || *out == 0)
        return cay_fail_field(err, "port", "port must be a number from 1 to 65535");
    return 0;
}

static bool read_number(const char *s, size_t len, unsigned *out)
{
    char text[8];
    uint64_t port;
    if (len >= sizeof text)
        return false;
    cay_str_copy(text, len + 1, s);
    if (!cay_str_u64(text, 65535, &port) || port == 0)
        return false;
    *out = (unsigned)port;
    return true;
}

enum cay_preview_kind cay_preview_of_host(const char *host, const char *domain,
                                          struct cay_preview_target *out)
{
    size_t len = strcspn(host, ":"), below = strlen(domain), label = strcspn(host, ".");
    if (len > 0 && host[len - 1] == '.')
        len--; /* the same name to a resolver */
    if (len <= below + 1 || host[len - below - 1] != '.' ||
        strncasecmp(host + len - below, domain, below) != 0)
        return CAY_PREVIEW_NONE;
    size_t digits = strspn(host, "0123456789");
    if (label != len - below - 1 || host[digits] != '-' || !read_number(host, digits, &out->port) ||
        label - digits - 1 >= sizeof out->sandbox_id)
        return CAY_PREVIEW_WRONG;
    for (size_t i = 0; i < label - digits - 1; i++) {
        char c = host[digits + 1 + i];
        out->sandbox_id[i] = c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
    }
    out->sandbox_id[label - digits - 1] = 0;
    out->prefix = 0;
    return cay_id_is_sandbox(out->sandbox_id) ? CAY_PREVIEW_NAMED : CAY_PREVIEW_WRONG;
}

enum cay_preview_kind cay_preview_of_path(const char *path, struct cay_preview_target *out)
{
    if (strncmp(path, PATH_FORM, strlen(PATH_FORM)) != 0)
        return CAY_PREVIEW_NONE;
    const char *id = path + strlen(PATH_FORM);
    size_t len = strcspn(id, "/");
    if (!id[len] || len >= sizeof out->sandbox_id)
        return CAY_PREVIEW_WRONG;
    cay_str_copy(out->sandbox_id, len + 1, id);
    const char *port = id + len + 1;
    size_t digits = strcspn(port, "/");
    if (!cay_id_is_sandbox(out->sandbox_id) || !read_number(port, digits, &out->port))
        return CAY_PREVIEW_WRONG;
    out->prefix = (size_t)(port + digits - path);
    return CAY_PREVIEW_NAMED;
}

const struct cay_route *cay_preview_divert(const struct cay_req *req)
{
    struct cay_preview_target ignored;
    if (req->is_local)
        return NULL;
    if (cay_preview_of_host(req->host, preview.domain, &ignored) != CAY_PREVIEW_NONE)
        return BY_HOST;
    return cay_preview_of_path(req->path, &ignored) != CAY_PREVIEW_NONE ? BY_PATH : NULL;
}

bool cay_preview_is(const struct cay_req *req)
{
    return req->route == BY_HOST || req->route == BY_PATH;
}

/* ---- who ---- */

static bool navigates(const struct cay_req *req)
{
    const char *mode = cay_req_header(req, "sec-fetch-mode");
    return mode && strcmp(mode, "navigate") == 0 && cay_req_is_safe(req);
}

int cay_preview_guard(const struct cay_req *req, unsigned port, struct cay_error *err)
{
    if (req->route == BY_HOST)
        return 0;                 /* what it may do depends on its port */
    bool leaves = navigates(req); /* it will be sent to the host's form */
    return cay_guard_check(req->host, leaves ? NULL : cay_req_header(req, "origin"),
                           leaves ? NULL : cay_req_header(req, "sec-fetch-site"), port, req->is_tls,
                           err);
}

/* Is it a page of another origin that asks? The cookie goes with requests of such pages, and a
 * local server asks for nothing. */
static int check_origin(const struct cay_req *req, bool by_cookie, struct cay_error *err)
{
    const char *origin = cay_req_header(req, "origin");
    const char *site = cay_req_header(req, "sec-fetch-site");
    bool acts = !cay_req_is_safe(req) || cay_forward_is_upgrade(req);
    const char *host = !origin                                   ? NULL
                       : strncasecmp(origin, "https://", 8) == 0 ? origin + 8
                       : strncasecmp(origin, "http://", 7) == 0  ? origin + 7
                                                                 : "";
    bool foreign = site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
    if (acts && ((host && strcasecmp(host, req->host) != 0) || foreign))
        return cay_fail(err, CAY_ERR_FORBIDDEN, "requests from other origins are refused");
    if (by_cookie && foreign && !navigates(req))
        return cay_fail(err, CAY_ERR_FORBIDDEN, "requests from other sites are refused");
    return 0;
}

static const char *cookie_name(void)
{
    return preview.is_tls ? SECURE_COOKIE : COOKIE;
}

/* The value of our cookie, or NULL. */
static const char *cookie_of(const struct cay_req *req)
{
    const char *all = cay_req_header(req, "cookie"), *name = cookie_name();
    size_t len = strlen(name);
    while (all && *all) {
        all += strspn(all, "; ");
        size_t part = strcspn(all, ";");
        if (part > len && strncmp(all, name, len) == 0 && all[len] == '=')
            return cay_arena_strndup(req->arena, all + len + 1, part - len - 1);
        all += part;
    }
    return NULL;
}

/* Takes a signed link's proof out of the query; NULL when there is none. The rest is the
 * service's, as it came. */
static const char *take_proof(struct cay_req *req)
{
    static const char name[] = CAY_PREVIEW_PARAM "=";
    const char *proof = NULL, *rest = "", *q = req->query;
    while (*q) {
        size_t len = strcspn(q, "&");
        if (strncmp(q, name, strlen(name)) == 0)
            proof = cay_arena_strndup(req->arena, q + strlen(name), len - strlen(name));
        else
            rest = cay_arena_printf(req->arena, "%s%s%.*s", rest, rest[0] ? "&" : "", (int)len, q);
        q += len + (q[len] == '&');
    }
    if (proof)
        req->query = rest;
    return proof;
}

/* The sandbox of whoever shows this token, if it is his. */
static int by_token(struct cay_req *req, struct cay_preview_visit *v, const char *token,
                    struct cay_error *err)
{
    struct cay_account *who = cay_arena_alloc(req->arena, sizeof *who);
    bool looks = cay_req_is_safe(req) && !cay_forward_is_upgrade(req);
    unsigned scope = looks ? CAY_SCOPE_READ : CAY_SCOPE_EXEC;
    int r = cay_auth_identify(preview.auth, req, token, who, err);
    if (r < 0)
        return r;
    who->reads = looks;
    req->owner = who;
    if ((who->only && strcmp(who->only, v->to.sandbox_id) != 0) || !(who->scopes & scope))
        return cay_fail(err, CAY_ERR_FORBIDDEN, "this token does not open this preview");
    return cay_core_get(req->core, who, v->to.sandbox_id, req->arena, &v->sb, err);
}

static bool holds(struct cay_req *req, const struct cay_preview_visit *v, const char *proof)
{
    int64_t ignored;
    return proof && cay_core_link_holds(req->core, v->to.sandbox_id, v->to.port, proof, &ignored);
}

static int refuse_stranger(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_UNAUTHORIZED, "PREVIEW_IS_PRIVATE",
                       "this preview is private: open a signed link, or send a token as Cay-Token");
}

/* Only we can tell a JWT of ours from a service's own; our keys are known by their prefix. */
static bool shows_our_jwt(struct cay_req *req)
{
    struct cay_account who;
    struct cay_error ignored; /* then it is somebody else's */
    return preview.auth->on && preview.auth->jwt && cay_req_header(req, "authorization") &&
           cay_auth_identify(preview.auth, req, NULL, &who, &ignored) != CAY_ERR_UNAUTHORIZED;
}

/* found: what the look-up without a name said; strangers do not learn it. */
static int admit(struct cay_req *req, struct cay_preview_visit *v, const char *proof, int found,
                 struct cay_error *err)
{
    const char *token = cay_req_header(req, "cay-token");
    bool is_public = found == 0 && v->port && v->port->is_public;
    v->hides_authorization = shows_our_jwt(req);
    if (is_public)
        return 0;
    if (!preview.auth->on)
        return found < 0 ? found : check_origin(req, false, err);
    if (holds(req, v, proof))
        return found < 0 ? found : check_origin(req, false, err);
    if (proof)
        return cay_fail_as(err, CAY_ERR_FORBIDDEN, "BAD_LINK",
                           "this link is not for this preview, or its time is over");
    if (holds(req, v, cookie_of(req)))
        return found < 0 ? found : check_origin(req, true, err);
    struct cay_error refused = {0};
    int r = by_token(req, v, token, &refused);
    v->hides_authorization |= !token && r != CAY_ERR_UNAUTHORIZED;
    if (r == CAY_ERR_UNAUTHORIZED)
        return refuse_stranger(err);
    if (r < 0)
        *err = refused;
    return r < 0 ? r : check_origin(req, false, err);
}

/* ---- what then ---- */

static void set_cookie(struct cay_req *req, struct cay_resp *resp, const char *proof,
                       int64_t expires_at_ms)
{
    int64_t seconds = (expires_at_ms - cay_clock_ms()) / 1000;
    cay_resp_header(resp, "Set-Cookie",
                    cay_arena_printf(req->arena,
                                     "%s=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Lax%s",
                                     cookie_name(), proof, (long long)(seconds > 0 ? seconds : 0),
                                     preview.is_tls ? "; Secure; Partitioned" : ""));
}

static int redirect(struct cay_resp *resp, int status, const char *to)
{
    cay_resp_text(resp, status, "text/plain", "", 0);
    cay_resp_header(resp, "Location", to);
    cay_resp_header(resp, "Cache-Control", "no-store");
    cay_resp_header(resp, "Referrer-Policy", "no-referrer");
    return 0;
}

/* A signed link was opened: it becomes a cookie of this one host. */
static int log_in(struct cay_req *req, struct cay_resp *resp, const struct cay_preview_visit *v,
                  const char *proof, struct cay_error *err)
{
    int64_t expires_at_ms;
    if (!cay_core_link_holds(req->core, v->to.sandbox_id, v->to.port, proof, &expires_at_ms))
        return cay_fail_as(err, CAY_ERR_FORBIDDEN, "BAD_LINK",
                           "this link is not for this preview, or its time is over");
    struct cay_audit_entry e = {
        .account_id = v->sb.account_id,
        .peer = req->peer,
        .action = "sandbox.preview.login",
        .sandbox = v->sb.id,
        .object = cay_arena_printf(req->arena, "%u", v->to.port),
        .request = req->request_id,
        .status = 302,
    };
    cay_core_record(req->core, &e);
    set_cookie(req, resp, proof, expires_at_ms);
    return redirect(
        resp, 302,
        cay_arena_printf(req->arena, "%s%s%s", req->path, req->query[0] ? "?" : "", req->query));
}

static struct cay_preview_visit new_visit(void)
{
    return (struct cay_preview_visit){.cookie = cookie_name(), .is_tls = preview.is_tls};
}

static enum cay_preview_kind target_of(const struct cay_req *req, const struct cay_route *route,
                                       struct cay_preview_target *out)
{
    return route == BY_HOST ? cay_preview_of_host(req->host, preview.domain, out)
                            : cay_preview_of_path(req->path, out);
}

bool cay_preview_recall(struct cay_req *req, struct cay_resp *resp)
{
    struct cay_error ignored; /* a worker finds it again, and tells it */
    struct cay_preview_target to;
    struct cay_visit_key visit_key;
    struct cay_visit known;
    char key[CAY_POOL_KEY];
    const struct cay_route *route = cay_preview_divert(req);
    if (!route || target_of(req, route, &to) != CAY_PREVIEW_NAMED ||
        !cay_visit_key(req, to.sandbox_id, to.prefix, &visit_key) ||
        !cay_visit_recall(&visit_key, &known))
        return false;
    (void)snprintf(key, sizeof key, "%s:%u", known.sandbox_id, known.port);
    int fd = cay_spare_take(req->spare, key);
    if (fd < 0)
        fd = cay_pool_take(req->pool, key);
    if (fd < 0)
        return false;
    struct cay_preview_visit *v = cay_arena_alloc(req->arena, sizeof *v);
    *v = new_visit();
    v->to = to;
    v->hides_authorization = known.hides_authorization;
    v->sb.state = CAY_RUNNING; /* or there were no such connection */
    cay_str_copy(v->sb.id, sizeof v->sb.id, known.sandbox_id);
    if (known.account_id[0]) {
        struct cay_account *who = cay_arena_alloc(req->arena, sizeof *who);
        *who = (struct cay_account){.id = cay_arena_strdup(req->arena, known.account_id)};
        req->owner = who; /* for the log */
    }
    req->route = route;
    req->data = v;
    cay_str_copy(req->subject, sizeof req->subject, known.sandbox_id);
    return cay_preview_carry(req, resp, fd, true, &ignored) == 0;
}

static int handle(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_error unknown = {0};
    struct cay_preview_visit *v = cay_arena_alloc(req->arena, sizeof *v);
    *v = new_visit();
    if (target_of(req, req->route, &v->to) != CAY_PREVIEW_NAMED)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "NO_PREVIEW", "no preview has this name");
    req->data = v;
    cay_str_copy(req->subject, sizeof req->subject, v->to.sandbox_id);
    if (v->to.prefix && navigates(req)) {
        char url[CAY_PREVIEW_URL];
        const char *rest = req->path + v->to.prefix;
        cay_preview_url(v->to.sandbox_id, v->to.port, url);
        return redirect(resp, 307,
                        cay_arena_printf(req->arena, "%s%s%s%s", url, rest[0] ? rest + 1 : "",
                                         req->query[0] ? "?" : "", req->query));
    }
    v->keeps = cay_visit_key(req, v->to.sandbox_id, v->to.prefix, &v->key);
    const char *proof = take_proof(req);
    int found = cay_core_previewed(req->core, v->to.sandbox_id, req->arena, &v->sb, &unknown);
    v->port = found == 0 ? cay_spec_port(&v->sb.spec, v->to.port) : NULL;
    *err = unknown; /* for those who may learn it */
    if (proof && found == 0 && !v->to.prefix && cay_req_is_safe(req))
        return log_in(req, resp, v, proof, err);
    int r = admit(req, v, proof, found, err);
    if (r < 0)
        return r;
    v->port = cay_spec_port(&v->sb.spec, v->to.port);
    if (v->sb.deleted_at_ms > 0)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    if (!v->port)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "PORT_NOT_EXPOSED",
                           "port %u of this sandbox is not exposed", v->to.port);
    return cay_preview_reach(req, resp, err);
}
