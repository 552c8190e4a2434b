/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a request ahead of its handler and after it, and the life of the server. */
#include "api/app.h"
#include "api/auth.h"
#include "api/dialect.h"
#include "api/gateway/gateway.h"
#include "api/guard.h"
#include "api/metrics.h"
#include "api/preview.h"
#include "api/ratelimit.h"
#include "api/records.h"
#include "api/sandbox/sandbox.h"
#include "api/v1/v1.h"
#include "base/clock.h"
#include "base/log.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define WORKERS 32 /* three quarters of them may wait for a sandbox's grace: CAY_SLOW_MAX */

static struct {
    struct cay_ratelimit rate;
    struct cay_auth auth;
    unsigned port; /* 0: any Host is well */
} app;

static struct cay_http_server *volatile running; /* for the signal handler */

static unsigned port_of(const char *url)
{
    uint64_t port = 80;
    const char *colon = strrchr(url, ':');
    if (colon)
        (void)cay_str_u64(colon + 1, 65535, &port); /* http://name has none */
    return (unsigned)port;
}

static void add_number(struct cay_resp *resp, const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    cay_resp_header(resp, name, text);
}

/* Whose requests are counted together: an address's, with each token that it shows. One that is
 * none is no other token: guesses are counted together. */
static const char *counted_as(const struct cay_req *req)
{
    const struct cay_account *who = req->owner;
    if (!app.auth.on || !who)
        return req->peer;
    const char *token = who->key_id ? who->key_id : who->only ? who->only : who->id;
    return cay_arena_printf(req->arena, "%s %s", req->peer, token);
}

static int check_rate(const struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_rate rate;
    if (req->route && req->route->unlimited)
        return 0; /* health: whoever watches must not be shut out by whoever works */
    bool fits = cay_ratelimit_take(&app.rate, counted_as(req), cay_clock_mono_ms(), &rate);
    if (rate.limit > 0) {
        add_number(resp, "RateLimit-Limit", rate.limit);
        add_number(resp, "RateLimit-Remaining", rate.remaining);
        add_number(resp, "RateLimit-Reset", rate.reset_s);
    }
    if (fits)
        return 0;
    add_number(resp, "Retry-After", rate.reset_s);
    return cay_fail_as(err, CAY_ERR_LIMIT, "RATE_LIMITED", "at most %lld requests in %lld seconds",
                       (long long)rate.limit, (long long)(app.rate.window_ms / 1000));
}

static int before(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_error refused;
    if (cay_preview_is(req))
        return cay_preview_guard(req, app.port, err); /* the handler looks who it is */
    if (req->is_local) {
        int known = cay_auth_admit(&app.auth, req, err);
        if (known == 0)
            cay_records_begin(req);
        return known;
    }
    int r = cay_guard_check(req->host, cay_req_header(req, "origin"),
                            cay_req_header(req, "sec-fetch-site"), app.port, req->is_tls, err);
    if (r < 0)
        return r;
    int admitted = cay_auth_admit(&app.auth, req, &refused);
    r = check_rate(req, resp, err); /* guesses count too */
    if (r == 0 && admitted < 0) {
        *err = refused;
        r = admitted;
    }
    if (r == 0)
        cay_records_begin(req);
    return r;
}

static void done(const struct cay_req *req, int status, int64_t took_us)
{
    cay_metrics_request(req, status, took_us);
    cay_records_request(req, status, took_us);
}

/* An error has the form of the dialect that was spoken, also where no route fits. */
static void tell_error(const struct cay_req *req, const struct cay_error *err,
                       struct cay_resp *resp)
{
    const struct cay_dialect *spoken = cay_app_dialects[0];
    size_t longest = 0;
    if (cay_preview_is(req)) {
        cay_preview_error(req, err, resp);
        return;
    }
    for (size_t i = 0; cay_app_dialects[i]; i++) {
        size_t len = strlen(cay_app_dialects[i]->prefix);
        if (strncmp(req->path, cay_app_dialects[i]->prefix, len) == 0 && req->path[len] == '/' &&
            len > longest) {
            spoken = cay_app_dialects[i];
            longest = len;
        }
    }
    spoken->tell(req, err, resp);
}

/* One a line, so that additions do not collide. */
/* clang-format off */
const struct cay_route *const cay_app_tables[] = {
    cay_v1_sandbox_routes,
    cay_v1_bulk_routes,
    cay_v1_exec_routes,
    cay_v1_input_routes,
    cay_v1_attach_routes,
    cay_v1_file_routes,
    cay_v1_file_data_routes,
    cay_v1_output_routes,
    cay_v1_log_routes,
    cay_v1_stats_routes,
    cay_v1_health_routes,
    cay_v1_kept_routes,
    cay_v1_update_routes,
    cay_v1_process_routes,
    cay_v1_batch_routes,
    cay_v1_history_routes,
    cay_sandbox_routes,
    cay_sandbox_exec_routes,
    cay_sandbox_history_routes,
    cay_v1_event_routes,
    cay_v1_audit_routes,
    cay_metrics_routes,
    cay_v1_access_routes,
    cay_v1_status_routes,
    cay_gateway_routes,
    cay_v1_port_routes,
    cay_v1_expose_routes,
    cay_v1_tunnel_routes,
    cay_v1_network_routes,
    cay_v1_image_routes,
    cay_v1_job_routes,
    cay_openapi_routes,
    NULL,
};
const struct cay_dialect *const cay_app_dialects[] = {
    &cay_v1_dialect,
    &cay_gateway_dialect,
    &cay_sandbox_dialect,
    NULL,
};
/* clang-format on */

int cay_app_open(const struct cay_config *cfg, struct cay_core *core, struct cay_http_server **out,
                 struct cay_error *err)
{
    struct cay_http_app http = {
        .tables = cay_app_tables,
        .core = core,
        .before = before,
        .divert = cay_preview_divert,
        .recall = cay_preview_recall,
        .error = tell_error,
        .done = done,
        .workers = WORKERS,
        .local_fd = cfg->admin_fd,
        .tls_fd = cfg->tls_fd,
        .news_fd = cfg->tls_news_fd,
    };
    int r = cay_auth_open(&app.auth, cfg, err);
    if (r < 0)
        return r;
    r = cay_preview_open(cfg, &app.auth, err);
    if (r < 0) {
        cay_auth_close(&app.auth);
        return r;
    }
    app.port = app.auth.on ? 0 : port_of(cfg->url);
    cay_ratelimit_init(&app.rate, cfg->rate_limit, cfg->rate_seconds);
    cay_metrics_open(cay_app_tables, cay_preview_routes);
    r = cay_http_new(&http, cfg->listen_fd, out, err);
    if (r < 0) {
        cay_ratelimit_done(&app.rate);
        cay_metrics_close();
        cay_auth_close(&app.auth);
    }
    return r;
}

void cay_app_close(struct cay_http_server *server)
{
    cay_http_free(server);
    cay_ratelimit_done(&app.rate);
    cay_metrics_close();
    cay_auth_close(&app.auth);
}

static void on_signal(int sig)
{
    (void)sig;
    if (!running)
        _exit(0); /* all requests are answered, only threads are waited for */
    cay_http_stop(running);
}

static void catch_signals(void)
{
    struct sigaction stop = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&stop.sa_mask);
    sigemptyset(&ignore.sa_mask);
    (void)sigaction(SIGTERM, &stop, NULL); /* these cannot fail with signals that exist */
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGHUP, &ignore, NULL); /* the supervisor's */
}

static int serve(const struct cay_config *cfg, struct cay_core *core, struct cay_error *err)
{
    struct cay_http_server *server;
    int r = cay_app_open(cfg, core, &server, err);
    if (r < 0)
        return r;
    running = server;
    catch_signals();
    printf("ready %s\n", cfg->url);
    (void)fflush(stdout); /* whoever closed our stdout does not want the line */
    r = cay_http_run(server, err);
    running = NULL;
    cay_app_close(server);
    return r;
}

int cay_server_run(const struct cay_config *cfg)
{
    struct cay_error err = {0};
    struct cay_core *core = NULL;
    int r = cay_core_open(cfg, &core, &err);
    if (r == 0)
        r = serve(cfg, core, &err);
    cay_core_close(core);
    if (r < 0)
        cay_log_error(&err, "the server cannot go on");
    return r < 0 ? 1 : 0;
}
