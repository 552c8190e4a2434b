/* SPDX-License-Identifier: Apache-2.0 */
#include "api/health.h"
#include "core/service.h"

static void shape_problems(struct cay_json_writer *w, const struct cay_core_health *h)
{
    cay_jw_array(w, "problems");
    if (h->provider_error) {
        cay_jw_object(w, NULL);
        cay_jw_str(w, "what", "the engine does not answer");
        cay_jw_str(w, "why", h->provider_error);
        cay_jw_str(w, "fix",
                   "see the server's log; `cay serve` restarts the engine by itself, and "
                   "`cay doctor` says what the host lacks");
        cay_jw_object_end(w);
    }
    for (size_t i = 0; i < h->provider.problem_count; i++) {
        const struct cay_problem *p = &h->provider.problems[i];
        cay_jw_object(w, NULL);
        cay_jw_str(w, "what", p->what);
        cay_jw_str(w, "why", p->why);
        cay_jw_str(w, "fix", p->fix);
        cay_jw_bool(w, "fatal", p->fatal);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
}

static const char *status_of_provider(const struct cay_core_health *h)
{
    bool fatal = h->provider_error != NULL;
    for (size_t i = 0; i < h->provider.problem_count; i++)
        fatal = fatal || h->provider.problems[i].fatal;
    return fatal ? "unhealthy" : h->provider.problem_count > 0 ? "degraded" : "healthy";
}

static void shape_details(struct cay_json_writer *w, const struct cay_core_health *h)
{
    cay_jw_object(w, "provider");
    cay_jw_str(w, "name", h->provider_name);
    cay_jw_str(w, "version", h->provider.version);
    cay_jw_str(w, "status", status_of_provider(h));
    shape_problems(w, h);
    cay_jw_object_end(w);
    cay_jw_object(w, "store");
    cay_jw_str(w, "name", h->store_name);
    cay_jw_str(w, "version", h->store_version);
    cay_jw_str(w, "status", h->store_error ? "unhealthy" : "healthy");
    cay_jw_str(w, "error", h->store_error);
    cay_jw_object_end(w);
    cay_jw_object(w, "features");
    cay_jw_str(w, "network", "policy");
    cay_jw_str(w, "diskLimit", h->provider.disk ? h->provider.disk : "none");
    cay_jw_bool(w, "gpu", false);
    cay_jw_object_end(w);
}

int cay_api_health(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_core_health h;
    (void)err;
    cay_core_health(req->core, req->arena, &h);
    bool serves = h.healthy || h.degraded;
    struct cay_json_writer *w = cay_resp_json(resp, serves ? 200 : 503);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "status", h.healthy ? "healthy" : h.degraded ? "degraded" : "unhealthy");
    cay_jw_str(w, "version", h.version);
    if (req->owner && !req->owner->only) /* strangers are told no more */
        shape_details(w, &h);
    cay_jw_object_end(w);
    if (!serves)
        cay_resp_header(resp, "Retry-After", "1");
    return 0;
}
