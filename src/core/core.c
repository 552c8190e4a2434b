/* SPDX-License-Identifier: Apache-2.0 */
/* Putting the parts together, taking them apart, and asking how they are. */
#include "core/core.h"
#include "base/clock.h"
#include "base/path.h"
#include "core/keeper.h"
#include "core/network.h"
#include "core/once.h"
#include "core/secret.h"
#include "log/files.h"
#include "model/limits.h"
#include <string.h>
#include <sys/random.h>
#include <sys/sysinfo.h>

#define EVENTS_MAX 8192

static void init_wake(struct cay_core *core)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&core->lock, NULL);
    pthread_cond_init(&core->wake, &attr);
    pthread_condattr_destroy(&attr);
}

/* What one sandbox may have: no more than the engine gives all of them. */
static uint64_t host_memory(void)
{
    struct sysinfo info;
    if (sysinfo(&info) < 0)
        return UINT64_MAX;
    return (uint64_t)info.totalram * info.mem_unit / 100 * CAY_ALL_MEMORY_PERCENT;
}

static int64_t log_bytes(const struct cay_config *cfg)
{
    int64_t head = cfg->log_head_bytes ? cfg->log_head_bytes : CAY_LOG_HEAD_BYTES;
    int64_t tail = cfg->log_tail_bytes ? cfg->log_tail_bytes : CAY_LOG_TAIL_BYTES;
    return (head + tail) * CAY_LOG_SANDBOX_LOGS;
}

int cay_core_new(const struct cay_config *cfg, struct cay_store *store,
                 struct cay_provider *provider, struct cay_queue *events, int logs_fd,
                 struct cay_core **out, struct cay_error *err)
{
    struct cay_core *core = calloc(1, sizeof *core);
    (void)err;
    if (!core || getrandom(core->token_key, sizeof core->token_key, 0) < 0 ||
        getrandom(core->secrets_key, sizeof core->secrets_key, 0) < 0)
        abort();
    core->store = store;
    core->provider = provider;
    core->events = events;
    core->logs_fd = logs_fd;
    core->events_fd = core->pulls_fd = core->data_fd = -1;
    core->host_memory_bytes = host_memory();
    core->log_bytes = log_bytes(cfg);
    core->booted_at_ms = cay_clock_booted_at_ms();
    if (gethostname(core->server, sizeof core->server - 1) != 0)
        cay_str_copy(core->server, sizeof core->server, "localhost");
    cay_holds_init(&core->holds);
    cay_keyring_init(&core->keyring);
    cay_oom_init(&core->oom);
    cay_settler_init(&core->settler);
    cay_maker_init(&core->maker);
    cay_fetcher_init(&core->fetcher);
    core->aliases = &cfg->aliases;
    cay_readier_init(&core->readier);
    cay_waiter_init(&core->waiter);
    cay_historian_init(&core->historian);
    cay_batcher_init(&core->batcher);
    cay_jobs_init(&core->jobs);
    cay_leases_init(&core->leases);
    cay_running_init(&core->running);
    pthread_mutex_init(&core->cache.lock, NULL);
    init_wake(core);
    *out = core;
    return 0;
}

static struct cay_queue *new_queue(void)
{
    struct cay_queue *q = calloc(1, sizeof *q);
    if (!q)
        abort();
    cay_queue_init(q, EVENTS_MAX);
    return q;
}

static void free_queue(struct cay_queue *q)
{
    void *left;
    cay_queue_close(q);
    while ((left = cay_queue_pop(q, 0)) != NULL)
        free(left);
    cay_queue_done(q);
    free(q);
}

int cay_core_open(const struct cay_config *cfg, struct cay_core **out, struct cay_error *err)
{
    CAY_AUTO_FD int logs_fd = -1;
    struct cay_store *store = NULL;
    struct cay_provider *provider = NULL;
    struct cay_queue *events = new_queue();

    int r = cay_path_open_dir(cfg->data_fd, "logs", 0700, &logs_fd, err);
    if (r == 0)
        cay_log_shelve(logs_fd);
    if (r == 0)
        r = cay_store_open(cfg->store, cfg, &store, err);
    if (r == 0)
        r = cay_provider_open(cfg->provider, cfg, events, &provider, err);
    if (r < 0) {
        cay_store_close(store);
        free_queue(events);
        return r;
    }
    struct cay_core *core;
    r = cay_core_new(cfg, store, provider, events, cay_take_fd(&logs_fd), &core, err);
    if (r == 0)
        r = cay_core_open_records(core, cfg->data_fd, err);
    if (r == 0)
        r = cay_once_open(core, cfg->data_fd, err);
    if (r == 0)
        r = cay_secret_open(cfg->data_fd, "token.key", core->token_key, err);
    if (r == 0)
        r = cay_secret_open(cfg->data_fd, "secrets.key", core->secrets_key, err);
    if (r == 0)
        r = cay_network_begin(core, cfg, err);
    if (r == 0)
        r = cay_historian_open(&core->historian, cfg->data_fd, err);
    if (r == 0)
        r = cay_images_open(core, cfg, err);
    if (r == 0)
        r = cay_core_keep(core, err);
    if (r == 0)
        r = cay_history_resume(core, err);
    if (r < 0) {
        cay_core_close(core);
        return r;
    }
    *out = core;
    return 0;
}

int cay_core_keep(struct cay_core *core, struct cay_error *err)
{
    int r = cay_keeper_start(core, err);
    if (r == 0)
        r = cay_readier_start(core, err);
    if (r == 0)
        r = cay_maker_start(core, err);
    return r < 0 ? r : cay_batcher_start(core, err);
}

void cay_core_close(struct cay_core *core)
{
    if (!core)
        return;
    cay_batcher_stop(core);
    cay_jobs_stop(core); /* whoever waits for an image hears of it, and makers are still there */
    cay_maker_done(core);
    cay_readier_done(core);
    cay_batcher_done(&core->batcher); /* nobody tells it of sandboxes any more */
    cay_jobs_done(&core->jobs);
    cay_fetcher_done(&core->fetcher);
    cay_images_close(core);
    cay_keeper_stop(core);
    cay_historian_done(core);
    cay_settler_done(&core->settler);
    cay_network_end(core);
    cay_provider_close(core->provider);
    cay_store_close(core->store);
    free_queue(core->events);
    cay_close_fd(&core->logs_fd);
    cay_close_fd(&core->events_fd);
    cay_audit_close(core->audit);
    cay_oom_done(&core->oom);
    cay_keyring_done(&core->keyring);
    cay_leases_done(&core->leases);
    cay_running_done(&core->running);
    cay_holds_done(&core->holds);
    pthread_mutex_destroy(&core->cache.lock);
    pthread_mutex_destroy(&core->lock);
    pthread_cond_destroy(&core->wake);
    free(core->suspects);
    cay_shifts_done(&core->shifts);
    free(core);
}

/* What reconcile met last may be over for a single call and still be there for it. */
static void add_trouble(struct cay_core *core, struct cay_arena *a, struct cay_core_health *out)
{
    pthread_mutex_lock(&core->lock);
    const char **where = core->trouble_in_store ? &out->store_error : &out->provider_error;
    if (core->trouble[0] && !*where)
        *where = cay_arena_strdup(a, core->trouble);
    pthread_mutex_unlock(&core->lock);
}

const char *cay_core_disk(struct cay_core *core)
{
    return cay_provider_disk(core->provider);
}

const char *cay_core_isolation(struct cay_core *core)
{
    return cay_provider_isolation(core->provider);
}

const char *cay_core_provider(struct cay_core *core)
{
    return cay_provider_name(core->provider);
}

void cay_core_health(struct cay_core *core, struct cay_arena *a, struct cay_core_health *out)
{
    struct cay_error err = {0};
    char text[64];
    *out = (struct cay_core_health){.version = CAY_VERSION,
                                    .store_name = core->store->ops->name,
                                    .provider_name = cay_provider_name(core->provider)};
    if (cay_store_check(core->store, text, sizeof text, &err) < 0)
        out->store_error = cay_arena_strdup(a, err.msg);
    else
        out->store_version = cay_arena_strdup(a, text);
    if (cay_provider_health(core->provider, a, &out->provider, &err) < 0)
        out->provider_error = cay_arena_strdup(a, err.msg);
    add_trouble(core, a, out);
    bool fatal = out->store_error || out->provider_error;
    for (size_t i = 0; i < out->provider.problem_count; i++)
        fatal = fatal || out->provider.problems[i].fatal;
    out->degraded = !fatal && out->provider.problem_count > 0;
    out->healthy = !fatal && !out->degraded;
}
