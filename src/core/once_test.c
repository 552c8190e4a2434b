/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"
#include "core/once.h"
#include "tests/fixture.h"
#include <fcntl.h>
#include <pthread.h>

static const struct cay_once first = {.key = "k", .fingerprint = "aa"},
                             other = {.key = "k", .fingerprint = "bb"},
                             second = {.key = "l", .fingerprint = "aa"};

static int create(struct fixture *f, const struct cay_once *once, struct cay_arena *a,
                  struct cay_sandbox *out, struct cay_error *err)
{
    struct cay_spec spec = cay_spec_default();
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    spec.once = once;
    return cay_core_create(f->core, &f->me, &spec, a, out, err);
}

TEST(once_a_create_is_found_again)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox one, again, new;
    fixture_open(&f);
    CHECK_EQ("the first", create(&f, &first, &f.a, &one, &err), 0);
    CHECK("is not known", one.first_answer == NULL);
    cay_core_answered(f.core, &one, "{\"id\":1}");
    CHECK_EQ("the same", create(&f, &first, &f.a, &again, &err), 0);
    CHECK_STR("is the first one", again.id, one.id);
    CHECK_STR("and its answer", again.first_answer, "{\"id\":1}");
    CHECK_EQ("another body", create(&f, &other, &f.a, &again, &err), CAY_ERR_UNPROCESSABLE);
    CHECK_STR("says why", cay_error_name(&err), "IDEMPOTENCY_KEY_REUSED");
    CHECK_EQ("another key", create(&f, &second, &f.a, &new, &err), 0);
    CHECK("is another sandbox", strcmp(new.id, one.id) != 0);
    CHECK_EQ("rows", fixture_rows(&f), 2);
    CHECK_EQ("deleted",
             cay_core_delete(f.core, &f.me, one.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &again, &err), 0);
    CHECK_EQ("also then", create(&f, &first, &f.a, &again, &err), 0);
    CHECK_STR("it is the first one", again.id, one.id);
    CHECK_EQ("which is gone", again.state, CAY_TERMINATED);
    fixture_close(&f);
}

TEST(once_a_failed_create_is_tried_again)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK("fails", create(&f, &first, &f.a, &sb, &err) < 0);
    cay_provider_fake_fail_at(f.provider, 0);
    CHECK_EQ("then does not", create(&f, &first, &f.a, &sb, &err), 0);
    CHECK_EQ("rows", fixture_rows(&f), 1);
    fixture_close(&f);
}

struct caller {
    struct fixture *f;
    struct cay_arena a;
    struct cay_sandbox sb;
    int result;
};

static void *call(void *arg)
{
    struct caller *c = arg;
    struct cay_error err = {0};
    c->result = create(c->f, &first, &c->a, &c->sb, &err);
    return NULL;
}

TEST(once_at_the_same_time)
{
    struct fixture f;
    struct caller callers[8] = {0};
    pthread_t threads[CAY_COUNT(callers)];
    fixture_open(&f);
    for (size_t i = 0; i < CAY_COUNT(callers); i++) {
        callers[i].f = &f;
        CHECK_EQ("starts", pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (size_t i = 0; i < CAY_COUNT(callers); i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ("succeeds", callers[i].result, 0);
        CHECK_STR("with the same sandbox", callers[i].sb.id, callers[0].sb.id);
    }
    CHECK_EQ("rows", fixture_rows(&f), 1);
    for (size_t i = 0; i < CAY_COUNT(callers); i++)
        cay_arena_done(&callers[i].a);
    fixture_close(&f);
}

TEST(once_an_execution_is_found_again)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    struct cay_execution one, again;
    struct cay_exec_spec spec = {.once = &first};
    fixture_open(&f);
    cay_strs_push(&f.a, &spec.argv, "sleep");
    CHECK_EQ("create", create(&f, NULL, &f.a, &sb, &err), 0);
    CHECK_EQ("exec", cay_core_exec(f.core, &f.me, sb.id, &spec, &f.a, &one, NULL, &err), 0);
    CHECK_EQ("again", cay_core_exec(f.core, &f.me, sb.id, &spec, &f.a, &again, NULL, &err), 0);
    CHECK_STR("is the first one", again.id, one.id);
    spec.once = &other;
    CHECK_EQ("another body", cay_core_exec(f.core, &f.me, sb.id, &spec, &f.a, &again, NULL, &err),
             CAY_ERR_UNPROCESSABLE);
    spec.once = &second;
    CHECK_EQ("another key", cay_core_exec(f.core, &f.me, sb.id, &spec, &f.a, &again, NULL, &err),
             0);
    CHECK("is another execution", strcmp(again.id, one.id) != 0);
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, sb.id, 0, &f.a, &sb, &err), 0);
    spec.once = &first;
    CHECK_EQ("also when it is down",
             cay_core_exec(f.core, &f.me, sb.id, &spec, &f.a, &again, NULL, &err), 0);
    CHECK_STR("it is the first one", again.id, one.id);
    fixture_close(&f);
}

static int snapshot(struct fixture *f, const char *id, const struct cay_once *once,
                    int64_t expires_at_ms, struct cay_kept *out, struct cay_error *err)
{
    struct cay_snapshot_wish wish = {.expires_at_ms = expires_at_ms, .once = once};
    return cay_core_snapshot(f->core, &f->me, id, &wish, &f->a, out, err);
}

TEST(once_a_snapshot_is_found_again)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    struct cay_kept one, again;
    fixture_open(&f);
    CHECK_EQ("create", create(&f, NULL, &f.a, &sb, &err), 0);
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK("fails", snapshot(&f, sb.id, &first, 0, &one, &err) < 0);
    cay_provider_fake_fail_at(f.provider, 0);
    CHECK_EQ("then does not", snapshot(&f, sb.id, &first, 0, &one, &err), 0);
    CHECK("is new", !one.replayed);
    CHECK_EQ("again, too late for the first time", snapshot(&f, sb.id, &first, 1, &again, &err), 0);
    CHECK_STR("is the first one", again.id, one.id);
    CHECK("and says so", again.replayed);
    CHECK_EQ("another body", snapshot(&f, sb.id, &other, 0, &again, &err), CAY_ERR_UNPROCESSABLE);
    CHECK_EQ("another key", snapshot(&f, sb.id, &second, 0, &again, &err), 0);
    CHECK("is another snapshot", strcmp(again.id, one.id) != 0);
    CHECK_EQ("deleted",
             cay_core_delete(f.core, &f.me, sb.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    CHECK_EQ("also then", snapshot(&f, sb.id, &first, 0, &again, &err), 0);
    CHECK_STR("it is the first one", again.id, one.id);
    fixture_close(&f);
}

TEST(once_an_unfinished_snapshot_is_made_anew)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    struct cay_kept one;
    fixture_open(&f);
    CHECK_EQ("create", create(&f, NULL, &f.a, &sb, &err), 0);
    CHECK_EQ("snapshot", snapshot(&f, sb.id, &first, 0, &one, &err), 0);
    one.ready = false; /* as a crash would leave it */
    CHECK_EQ("put", cay_store_kept_put(f.store, &one, CAY_NOW, &err), 0);
    CHECK_EQ("again", snapshot(&f, sb.id, &first, 0, &one, &err), 0);
    CHECK("is new, and ready", one.ready && !one.replayed);
    fixture_close(&f);
}

TEST(once_the_secret_stays)
{
    struct cay_core core = {0}, later = {0};
    struct cay_error err = {0};
    char id[CAY_ID_SIZE], same[CAY_ID_SIZE];
    CAY_AUTO_FD int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("made", cay_once_open(&core, dir, &err), 0);
    CHECK_EQ("found", cay_once_open(&later, dir, &err), 0);
    cay_once_sandbox(&core, "local", &first, id);
    cay_once_sandbox(&later, "local", &first, same);
    CHECK("an id", cay_id_is_sandbox(id));
    CHECK_STR("the same", same, id);
    cay_once_sandbox(&core, "else", &first, same);
    CHECK("another account's is another", strcmp(same, id) != 0);
    cay_once_execution(&core, id, &first, same);
    CHECK("an execution's", cay_id_is_execution(same));
}
