/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core/batch.h"
#include "core/keeper.h"
#include "tests/fixture.h"
#include "tests/test.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#define END_MS 20000

/* "result 3 0" is item 3 with exit code 0, "error 4 NOT_FOUND", "end 1 2". */
static void shape(const struct cay_batch_event *e, struct cay_buf *out)
{
    if (e->kind == CAY_BATCH_BEGINS)
        cay_buf_addf(out, "start %zu\n", e->items);
    if (e->kind == CAY_BATCH_MADE)
        cay_buf_addf(out, "made %zu\n", e->sandbox);
    if (e->kind == CAY_BATCH_RESULT)
        cay_buf_addf(out, "result %zu %d\n", e->index, e->ex->exit_code);
    if (e->kind == CAY_BATCH_ERROR)
        cay_buf_addf(out, "error %zu %s\n", e->index, cay_error_name(e->err));
    if (e->kind == CAY_BATCH_ENDS)
        cay_buf_addf(out, "end %zu %zu\n", e->succeeded, e->failed);
}

static struct cay_batch_asked ask(const char *const *words, size_t count)
{
    struct cay_batch_asked asked = {.shape = shape, .bytes = 100};
    asked.spec.concurrency = 2;
    asked.spec.commands = cay_arena_alloc(&asked.arena, count * sizeof *asked.spec.commands);
    asked.spec.command_count = count;
    for (size_t i = 0; i < count; i++) {
        struct cay_strs *argv = &asked.spec.commands[i].spec.argv;
        cay_strs_push(&asked.arena, argv, strcmp(words[i], "sleep") == 0 ? "sleep" : "exit");
        cay_strs_push(&asked.arena, argv, words[i]);
    }
    return asked;
}

static void make(struct cay_batch_asked *asked, size_t count)
{
    struct cay_spec *spec = cay_arena_alloc(&asked->arena, sizeof *spec);
    *spec = cay_spec_default();
    spec->memory_bytes = CAY_MIN_MEMORY_BYTES;
    asked->spec.make = spec;
    asked->spec.make_count = count;
}

/* All lines, once the end is there. */
static const char *follow(struct fixture *f, struct cay_batch_ref *ref)
{
    CAY_AUTO_FD int watch = inotify_init1(IN_CLOEXEC);
    CAY_AUTO_FD int fd = cay_take_fd(&ref->fd);
    char path[40], *text = cay_arena_alloc(&f->a, 65536);
    struct pollfd news = {.fd = watch, .events = POLLIN};
    char events[4096];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK("a watch", inotify_add_watch(watch, path, IN_MODIFY) >= 0);
    for (;;) {
        ssize_t n = pread(fd, text, 65535, CAY_BATCH_HEAD);
        if (n > 0 && text[n - 1] == 0)
            return text;
        if (poll(&news, 1, END_MS) <= 0)
            break;
        (void)!read(watch, events, sizeof events);
    }
    test_failed(__FILE__, __LINE__, "no end of: %s", text);
    return text;
}

static const char *run(struct fixture *f, struct cay_batch_asked *asked)
{
    struct cay_batch_ref ref = {.fd = -1};
    struct cay_error err = {0};
    CHECK_EQ("it begins", cay_core_batch(f->core, &f->me, asked, &ref, &err), 0);
    cay_arena_done(&asked->arena);
    return ref.fd < 0 ? "" : follow(f, &ref);
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

TEST(batch_tells_every_item_once)
{
    static const char *const words[] = {"0", "3", "0"};
    struct fixture f;
    fixture_open(&f);
    (void)fixture_create(&f, "one", false);
    struct cay_batch_asked asked = ask(words, 3);
    cay_strs_push(&asked.arena, &asked.spec.sandboxes, "one");
    cay_strs_push(&asked.arena, &asked.spec.sandboxes, "none");
    const char *text = run(&f, &asked);
    static const char *const lines[] = {"start 6\n",          "result 0 0\n", "error 1 NOT_FOUND\n",
                                        "result 2 3\n",       "result 4 0\n", "error 3 NOT_FOUND\n",
                                        "error 5 NOT_FOUND\n"};
    for (size_t i = 0; i < COUNT(lines); i++)
        CHECK_EQ(lines[i], count_of(text, lines[i]), 1);
    CHECK("the end is last", cay_str_ends(text, "end 2 4\n"));
    fixture_close(&f);
}

TEST(batch_outlives_any_failure)
{
    static const char *const words[] = {"0", "1"};
    bool failed = true;
    for (int n = 1; failed && n < 100; n++) {
        struct fixture f;
        fixture_open(&f);
        cay_provider_fake_spare_destroy(f.provider, true);
        struct cay_batch_asked asked = ask(words, 2);
        make(&asked, 3);
        cay_provider_fake_fail_at(f.provider, n);
        const char *text = run(&f, &asked);
        failed = cay_provider_fake_failed(f.provider);
        CHECK_EQ("every item is told", count_of(text, "result ") + count_of(text, "error "), 6);
        CHECK_EQ("there is an end", count_of(text, "end "), 1);
        CHECK_EQ("no row is left", fixture_rows(&f), 0);
        CHECK_EQ("no sandbox is left", cay_provider_fake_count(f.provider), 0);
        fixture_close(&f);
    }
    CHECK("the walk came to its end", !failed);
}

/* What the provider does not remove at once, the keeper does. */
TEST(batch_leaves_nothing_that_could_not_be_removed)
{
    static const char *const words[] = {"0"};
    bool failed = true, late = false;
    for (int n = 1; failed && n < 100; n++) {
        struct fixture f;
        fixture_open(&f);
        struct cay_batch_asked asked = ask(words, 1);
        make(&asked, 1);
        ((struct cay_spec *)(uintptr_t)asked.spec.make)->persistent = n % 2;
        cay_provider_fake_fail_at(f.provider, n);
        (void)run(&f, &asked);
        failed = cay_provider_fake_failed(f.provider);
        late |= fixture_rows(&f) > 0;
        cay_keeper_expire(f.core, cay_clock_ms());
        CHECK_EQ("no row is left", fixture_rows(&f), 0);
        CHECK_EQ("no sandbox is left", cay_provider_fake_count(f.provider), 0);
        fixture_close(&f);
    }
    CHECK("one was left to the keeper", late);
    CHECK("the walk came to its end", !failed);
}

TEST(batch_that_ended_is_not_cleared)
{
    static const char *const words[] = {"0"};
    struct cay_once once = {.key = "k", .fingerprint = "0123456789abcdef0123456789abcdef"};
    struct cay_batch_ref ref = {.fd = -1};
    struct cay_error err = {0};
    struct fixture f;
    fixture_open(&f);
    for (int i = 0; i < 2; i++) {
        struct cay_batch_asked asked = ask(words, 1);
        make(&asked, 1);
        asked.spec.once = &once;
        CHECK_EQ("it begins", cay_core_batch(f.core, &f.me, &asked, &ref, &err), 0);
        CHECK_EQ("or has ended", ref.replayed, i == 1);
        cay_arena_done(&asked.arena);
        (void)follow(&f, &ref);
        CHECK_EQ("as if it had been cut before", cay_batch_clear(f.core, ref.id, &err), 0);
    }
    fixture_close(&f);
}

/* Its source goes with the batch. */
TEST(batch_does_not_take_forks_with_it)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox_list forks = {0};
    fixture_open(&f);
    struct cay_sandbox box = fixture_create(&f, "box", false);
    struct cay_spec spec = cay_spec_fork(&box.spec);
    cay_strs_push(&f.a, &spec.labels, CAY_BATCH_LABEL "batch_1");
    cay_strs_push(&f.a, &spec.labels, "mine");
    CHECK_EQ("fork", cay_core_fork(f.core, &f.me, "box", &spec, 1, &f.a, &forks, &err), 0);
    CHECK_EQ("one label", forks.at[0].spec.labels.count, 1);
    CHECK_STR("its own", forks.at[0].spec.labels.at[0], "mine");
    fixture_close(&f);
}

TEST(batch_with_a_key_is_one_batch)
{
    static const char *const words[] = {"0"};
    struct cay_once once = {.key = "k", .fingerprint = "0123456789abcdef0123456789abcdef"};
    struct cay_batch_ref first = {.fd = -1}, second = {.fd = -1};
    struct cay_error err = {0};
    struct fixture f;
    fixture_open(&f);
    for (int i = 0; i < 2; i++) {
        struct cay_batch_asked asked = ask(words, 1);
        make(&asked, 1);
        asked.spec.once = &once;
        struct cay_batch_ref *ref = i == 0 ? &first : &second;
        CHECK_EQ("it begins, or began", cay_core_batch(f.core, &f.me, &asked, ref, &err), 0);
        CHECK_EQ("told apart", ref->replayed, i == 1);
        cay_arena_done(&asked.arena);
    }
    CHECK_STR("the same", second.id, first.id);
    CHECK_STR("the same lines", follow(&f, &second), follow(&f, &first));
    struct cay_batch_asked other = ask(words, 1);
    make(&other, 1);
    once.fingerprint[0] = 'f';
    other.spec.once = &once;
    CHECK_EQ("another request", cay_core_batch(f.core, &f.me, &other, &first, &err),
             CAY_ERR_UNPROCESSABLE);
    cay_arena_done(&other.arena);
    fixture_close(&f);
}

TEST(batch_that_was_cut_leaves_nothing)
{
    static const char *const words[] = {"sleep"};
    struct cay_batch_ref ref = {.fd = -1};
    struct cay_error err = {0};
    struct fixture f;
    fixture_open(&f);
    struct cay_batch_asked asked = ask(words, 1);
    make(&asked, 2);
    CHECK_EQ("it begins", cay_core_batch(f.core, &f.me, &asked, &ref, &err), 0);
    (void)fixture_create(&f, "mine", false);
    CAY_AUTO_FD int watch = inotify_init1(IN_CLOEXEC);
    char path[40], text[4096] = "", events[4096];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ref.fd);
    (void)inotify_add_watch(watch, path, IN_MODIFY);
    while (count_of(text, "made ") < 2) {
        ssize_t n = pread(ref.fd, text, sizeof text - 1, CAY_BATCH_HEAD);
        text[n > 0 ? n : 0] = 0;
        struct pollfd news = {.fd = watch, .events = POLLIN};
        if (count_of(text, "made ") < 2 && poll(&news, 1, END_MS) > 0)
            (void)!read(watch, events, sizeof events);
    }
    cay_close_fd(&ref.fd);
    /* as a server that ends, and the next one */
    cay_batcher_stop(f.core);
    cay_batcher_done(&f.core->batcher);
    cay_batcher_init(&f.core->batcher);
    cay_waiter_init(&f.core->waiter);
    CHECK_EQ("what was made is still there", fixture_rows(&f), 3);
    CHECK_EQ("looked after", cay_batcher_start(f.core, &err), 0);
    CHECK("something was found", f.core->batcher.cleaning);
    pthread_join(f.core->batcher.cleaner, NULL);
    f.core->batcher.cleaning = false;
    CHECK_EQ("only mine is left", fixture_rows(&f), 1);
    CHECK_EQ("nothing more to do", cay_batcher_start(f.core, &err), 0);
    CHECK("nothing was found", !f.core->batcher.cleaning);
    fixture_close(&f);
}

/* Who waits for an image holds no thread: another batch goes by. */
TEST(batch_waits_for_an_image)
{
    static const char *const words[] = {"0"};
    struct cay_batch_ref waiting = {.fd = -1};
    struct cay_error err = {0};
    struct fixture f;
    fixture_open(&f);
    cay_provider_fake_hold_builds(f.provider, true);
    struct cay_batch_asked asked = ask(words, 1);
    make(&asked, CAY_BATCH_THREADS);
    ((struct cay_spec *)(uintptr_t)asked.spec.make)->image = "missing-built";
    asked.spec.concurrency = CAY_BATCH_THREADS;
    CHECK_EQ("it begins", cay_core_batch(f.core, &f.me, &asked, &waiting, &err), 0);
    struct cay_batch_asked other = ask(words, 1);
    make(&other, 2);
    CHECK("another ends", cay_str_ends(run(&f, &other), "end 2 0\n"));
    cay_provider_fake_hold_builds(f.provider, false);
    const char *text = follow(&f, &waiting);
    CHECK_EQ("all are made", count_of(text, "made "), CAY_BATCH_THREADS);
    CHECK("and used", cay_str_ends(text, "end 8 0\n"));
    CHECK_EQ("one build", cay_provider_fake_builds(f.provider), 1);
    CHECK_EQ("no row is left", fixture_rows(&f), 0);
    fixture_close(&f);
}

/* One that is closed meanwhile leaves what the next start finds. */
TEST(batch_is_closed_while_it_waits_for_an_image)
{
    static const char *const words[] = {"0"};
    struct cay_batch_ref ref = {.fd = -1};
    struct cay_error err = {0};
    struct fixture f;
    fixture_open(&f);
    cay_provider_fake_hold_builds(f.provider, true);
    struct cay_batch_asked asked = ask(words, 1);
    make(&asked, 3);
    ((struct cay_spec *)(uintptr_t)asked.spec.make)->image = "missing-built";
    CHECK_EQ("it begins", cay_core_batch(f.core, &f.me, &asked, &ref, &err), 0);
    cay_close_fd(&ref.fd);
    fixture_close(&f);
}

TEST(batches_are_bounded)
{
    static const char *const words[] = {"0"};
    struct cay_batch_ref ref = {.fd = -1};
    struct cay_error err = {0};
    struct fixture f;
    fixture_open(&f);
    struct cay_batch_asked asked = ask(words, 1);
    make(&asked, 1);
    asked.bytes = CAY_BATCH_BYTES + 1;
    CHECK_EQ("too large", cay_core_batch(f.core, &f.me, &asked, &ref, &err), CAY_ERR_UNAVAILABLE);
    CHECK_STR("by name", cay_error_name(&err), "TOO_MANY_BATCHES");
    asked.bytes = CAY_BATCH_BYTES;
    const char *text = run(&f, &asked);
    CHECK("nothing stayed behind of it", cay_str_ends(text, "end 1 0\n"));
    fixture_close(&f);
}

TEST(batches_of_one_account_leave_room_for_others)
{
    static const char *const words[] = {"sleep"};
    struct cay_error err = {0};
    struct cay_account mine[] = {{.id = CAY_LOCAL_ACCOUNT}, {.id = "other"}};
    struct fixture f;
    fixture_open(&f);
    (void)fixture_create(&f, "box", false);
    for (int i = 0; i <= CAY_BATCHES / 2 + 1; i++) {
        struct cay_batch_ref ref = {.fd = -1};
        struct cay_batch_asked asked = ask(words, 1);
        bool too_many = i == CAY_BATCHES / 2, another = i > CAY_BATCHES / 2;
        another ? make(&asked, 1) : cay_strs_push(&asked.arena, &asked.spec.sandboxes, "box");
        CHECK_EQ(another ? "another's" : "mine",
                 cay_core_batch(f.core, &mine[another], &asked, &ref, &err),
                 too_many ? CAY_ERR_UNAVAILABLE : 0);
        CHECK_STR("whose bound", err.msg,
                  i < CAY_BATCHES / 2
                      ? ""
                      : "as many batches of this account run as it may have at once");
        cay_close_fd(&ref.fd);
        cay_arena_done(&asked.arena);
    }
    fixture_close(&f);
}
