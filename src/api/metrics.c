/* SPDX-License-Identifier: Apache-2.0 */
/* A slot for each route, found by the route's place in its table, and one for requests without a
 * route. */
#include "api/metrics.h"
#include "api/openapi.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/metrics.h"
#include "http/response.h"
#include "http/server.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define TABLES_MAX 64
#define CLASSES 6 /* of status: 1xx to 5xx, and what is none */
#define LABELS_MAX 256

struct slot {
    const struct cay_route *route; /* NULL: none fitted */
    bool any_method;
    _Atomic int64_t by_class[CLASSES];
    struct cay_histogram took;
};

static struct {
    const struct cay_route *table[TABLES_MAX];
    size_t length[TABLES_MAX], tables;
    struct slot *slots; /* the first is for no route, then table after table */
    size_t count;
    int64_t started_ms;
} all;

static void add_table(const struct cay_route *table)
{
    size_t length = 0;
    while (table[length].method)
        length++;
    all.table[all.tables] = table;
    all.length[all.tables++] = length;
    all.count += length;
}

void cay_metrics_open(const struct cay_route *const *tables, const struct cay_route *diverted)
{
    all.tables = 0;
    all.count = 1;
    all.started_ms = cay_clock_ms();
    for (; *tables && all.tables < TABLES_MAX - 1; tables++)
        add_table(*tables);
    if (diverted)
        add_table(diverted);
    all.slots = calloc(all.count, sizeof *all.slots);
    if (!all.slots)
        abort();
    struct slot *at = all.slots + 1;
    for (size_t t = 0; t < all.tables; t++)
        for (size_t i = 0; i < all.length[t]; i++, at++) {
            at->route = &all.table[t][i];
            at->any_method = all.table[t] == diverted;
        }
}

void cay_metrics_close(void)
{
    free(all.slots);
    all.slots = NULL;
    all.count = all.tables = 0;
}

static struct slot *slot_of(const struct cay_route *route)
{
    struct slot *at = all.slots + 1;
    uintptr_t here = (uintptr_t)route;
    for (size_t t = 0; t < all.tables; t++) {
        uintptr_t first = (uintptr_t)all.table[t];
        if (here >= first && here < first + all.length[t] * sizeof *route)
            return at + (here - first) / sizeof *route;
        at += all.length[t];
    }
    return all.slots;
}

void cay_metrics_request(const struct cay_req *req, int status, int64_t took_us)
{
    struct slot *slot = slot_of(req->route);
    int class = status >= 100 && status < 600 ? status / 100 - 1 : CLASSES - 1;
    atomic_fetch_add_explicit(&slot->by_class[class], 1, memory_order_relaxed);
    cay_histogram_add(&slot->took, took_us);
}

static const char *labels_of(const struct slot *slot, char out[LABELS_MAX])
{
    (void)snprintf(
        out, LABELS_MAX, "route=\"%s\",method=\"%s\"", slot->route ? slot->route->pattern : "none",
        slot->route && !slot->any_method ? slot->route->method : "any"); /* patterns are short */
    return out;
}

static void put_requests(struct cay_buf *out)
{
    static const char *const classes[CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx", "other"};
    static const char count[] = "cay_http_requests_total";
    static const char took[] = "cay_http_request_duration_seconds";
    char labels[LABELS_MAX], full[LABELS_MAX + 32];
    cay_metrics_family(out, count, "counter", "Requests by route and class of status.");
    for (size_t i = 0; i < all.count; i++)
        for (size_t class = 0; class < CLASSES; class ++) {
            int64_t n = atomic_load(&all.slots[i].by_class[class]);
            (void)snprintf(full, sizeof full, "%s,status=\"%s\"", labels_of(&all.slots[i], labels),
                           classes[class]);
            if (n > 0)
                cay_metrics_int(out, count, full, n);
        }
    cay_metrics_family(out, took, "histogram",
                       "Until the answer was sent, or began if it lasts, by route.");
    for (size_t i = 0; i < all.count; i++)
        if (cay_histogram_count(&all.slots[i].took) > 0)
            cay_metrics_histogram(out, took, labels_of(&all.slots[i], labels), &all.slots[i].took);
}

static void put_operations(struct cay_buf *out)
{
    static const char *const names[CAY_TOOKS] = {"create", "exec", "delete"};
    static const char took[] = "cay_operation_duration_seconds";
    char labels[32];
    cay_metrics_family(out, took, "histogram",
                       "What creating, beginning a command and deleting took, when it went well.");
    for (size_t i = 0; i < CAY_TOOKS; i++) {
        (void)snprintf(labels, sizeof labels, "operation=\"%s\"", names[i]); /* short words */
        cay_metrics_histogram(out, took, labels, &cay_core_times[i]);
    }
}

/* What cannot be told now is left out: a watcher sees that it is missing. */
static void put_sandboxes(struct cay_buf *out, struct cay_core *core)
{
    int64_t by_state[CAY_STATES];
    uint32_t ready, size;
    char labels[32];
    struct cay_error ignored, err = {0};
    bool up = cay_core_pool(core, &ready, &size, &ignored) == 0;
    if (cay_core_count(core, by_state, &err) < 0) {
        cay_log_error(&err, "cannot count sandboxes for /metrics");
    } else {
        cay_metrics_family(out, "cay_sandboxes", "gauge", "Sandboxes by state, of all accounts.");
        for (int i = 0; i < CAY_TERMINATED; i++) {
            (void)snprintf(labels, sizeof labels, "state=\"%s\"", cay_state_name(i));
            cay_metrics_int(out, "cay_sandboxes", labels, by_state[i]);
        }
    }
    cay_metrics_family(out, "cay_provider_up", "gauge", "Does the engine answer?");
    cay_metrics_int(out, "cay_provider_up", "", up);
    if (!up || size == 0)
        return;
    cay_metrics_family(out, "cay_pool_ready", "gauge", "Namespaces made ahead of creates.");
    cay_metrics_int(out, "cay_pool_ready", "", ready);
    cay_metrics_family(out, "cay_pool_size", "gauge", "How many are to be ready.");
    cay_metrics_int(out, "cay_pool_size", "", size);
}

static int64_t count_fds(void)
{
    int64_t count = -3; /* itself, and the two dots */
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count;
}

/* Threads and resident pages. */
static void read_stat(long long *threads_out, long long *pages_out)
{
    char text[1024] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    *threads_out = *pages_out = 0;
    if (!file)
        return;
    size_t len = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[len] = 0;
    const char *at = strrchr(text, ')'); /* the name may have blanks */
    if (at && sscanf(at + 1,
                     " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
                     " %lld %*d %*u %*u %lld",
                     threads_out, pages_out) != 2)
        *threads_out = *pages_out = 0;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void put_process(struct cay_buf *out)
{
    struct rusage used = {0};
    struct rlimit fds = {0};
    long long threads, pages;
    (void)getrusage(RUSAGE_SELF, &used); /* cannot fail with these arguments, nor the next */
    (void)getrlimit(RLIMIT_NOFILE, &fds);
    read_stat(&threads, &pages);
    const struct {
        const char *name, *help;
        int64_t value;
    } gauges[] = {
        {"process_resident_memory_bytes", "Memory.", pages * sysconf(_SC_PAGESIZE)},
        {"process_open_fds", "Descriptors that are open.", count_fds()},
        {"process_max_fds", "Descriptors that may be open.", (int64_t)fds.rlim_cur},
        {"process_threads", "Threads.", threads},
    };
    for (size_t i = 0; i < CAY_COUNT(gauges); i++) {
        cay_metrics_family(out, gauges[i].name, "gauge", gauges[i].help);
        cay_metrics_int(out, gauges[i].name, "", gauges[i].value);
    }
    cay_metrics_family(out, "process_start_time_seconds", "gauge", "Since 1970.");
    cay_metrics_real(out, "process_start_time_seconds", "", (double)all.started_ms / 1000);
    cay_metrics_family(out, "process_cpu_seconds_total", "counter", "Time on processors.");
    cay_metrics_real(out, "process_cpu_seconds_total", "",
                     seconds(used.ru_utime) + seconds(used.ru_stime));
}

static int get_metrics(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    (void)err;
    cay_metrics_family(&out, "cay_info", "gauge", "Which build this is.");
    cay_metrics_int(&out, "cay_info", "version=\"" CAY_VERSION "\"", 1);
    put_requests(&out);
    put_operations(&out);
    put_sandboxes(&out, req->core);
    for (size_t i = 0; cay_core_metrics[i]; i++)
        cay_metrics_one(&out, cay_core_metrics[i]);
    for (size_t i = 0; cay_http_metrics[i]; i++)
        cay_metrics_one(&out, cay_http_metrics[i]);
    put_process(&out);
    cay_resp_text(resp, 200, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
    return 0;
}

const struct cay_route cay_metrics_routes[] = {
    {"GET", "/metrics", CAY_SCOPE_READ, get_metrics, CAY_BODY_AUTO,
     CAY_DOC("Figures for Prometheus", "text/plain", .topic = "About this server")},
    {0},
};
