/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a core on the fakes, in a directory of its own. */
#pragma once
#include "core/core.h"
#include "core/ticket.h"
#include "model/limits.h"
#include "provider/fake/fake.h"
#include "store/fake/fake.h"
#include "tests/test.h"
#include <fcntl.h>
#include <sys/stat.h>

/* Where the logs of a sandbox lie, for "%c/%s". */
#define LOGS_OF(id) (id)[strlen(id) - 1], id

struct fixture {
    struct cay_core *core;
    struct cay_store *store;
    struct cay_provider *provider;
    struct cay_arena a;
    struct cay_account me, other;
};

static inline void fixture_open(struct fixture *f)
{
    struct cay_error err = {0};
    static const struct cay_config cfg = {.store = "fake", .provider = "fake"};
    struct cay_queue *events = calloc(1, sizeof *events);
    cay_queue_init(events, 64);
    *f = (struct fixture){.me = {.id = CAY_LOCAL_ACCOUNT}, .other = {.id = "other"}};
    int dir_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)mkdirat(dir_fd, "logs", 0700);
    int logs_fd = openat(dir_fd, "logs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("the fake store opens", cay_store_open("fake", &cfg, &f->store, &err), 0);
    f->provider = cay_provider_fake_new(events);
    CHECK_EQ("a core opens",
             cay_core_new(&cfg, f->store, f->provider, events, logs_fd, &f->core, &err), 0);
    CHECK_EQ("records are kept", cay_core_open_records(f->core, dir_fd, &err), 0);
    close(dir_fd);
}

static inline void fixture_close(struct fixture *f)
{
    cay_core_close(f->core);
    cay_arena_done(&f->a);
}

/* cay_core_make for tests, which may wait for what it takes. */
static inline int cay_core_create(struct cay_core *core, const struct cay_account *owner,
                                  const struct cay_spec *spec, struct cay_arena *a,
                                  struct cay_sandbox *out, struct cay_error *err)
{
    struct cay_ticket *ticket;
    int r = cay_core_make(core, owner, spec, a, out, &ticket, err);
    if (r < 0 || !ticket)
        return r;
    r = cay_ticket_verdict(ticket, err);
    cay_ticket_free(ticket);
    const char *account_id = cay_arena_strdup(a, out->account_id);
    char *id = cay_arena_strdup(a, out->id);
    return r < 0 ? r : cay_store_get(core->store, account_id, id, a, out, err);
}

static inline struct cay_sandbox fixture_create(struct fixture *f, const char *name,
                                                bool persistent)
{
    struct cay_error err = {0};
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb = {0};
    spec.name = name;
    spec.persistent = persistent;
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    if (cay_core_create(f->core, &f->me, &spec, &f->a, &sb, &err) < 0)
        test_failed(__FILE__, __LINE__, "create %s: %s (%s)", name ? name : "-", err.msg,
                    err.cause);
    return sb;
}

static inline size_t fixture_rows(struct fixture *f)
{
    struct cay_error err = {0};
    struct cay_sandbox_list rows = {0};
    CHECK_EQ("rows are read", cay_store_all(f->store, &f->a, &rows, &err), 0);
    return rows.count;
}

static inline enum cay_state fixture_state(struct fixture *f, const char *id)
{
    struct cay_error err = {0};
    struct cay_sandbox sb = {.state = CAY_PENDING};
    CHECK_EQ("the row is there", cay_core_get(f->core, &f->me, id, &f->a, &sb, &err), 0);
    return sb.state;
}

static inline int fixture_exec(struct fixture *f, const char *id, const char *word, const char *arg,
                               struct cay_execution *out, struct cay_error *err)
{
    struct cay_exec_spec spec = {0};
    cay_strs_push(&f->a, &spec.argv, word);
    if (arg)
        cay_strs_push(&f->a, &spec.argv, arg);
    return cay_core_exec(f->core, &f->me, id, &spec, &f->a, out, NULL, err);
}
