/* SPDX-License-Identifier: Apache-2.0 */
/* What every store must do. Each test runs against each implementation. */
#include "model/limits.h"
#include "store/fake/fake.h"
#include "tests/contract/spec.h"
#include "tests/contract/stores.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

static struct cay_sandbox make(const char *account, const char *name, int64_t created_at_ms)
{
    struct cay_sandbox sb = {
        .account_id = account,
        .spec = cay_spec_default(),
        .state = CAY_RUNNING,
        .created_at_ms = created_at_ms,
        .updated_at_ms = created_at_ms,
    };
    cay_id_sandbox(sb.id);
    sb.spec.name = name;
    return sb;
}

static void insert(struct cay_store *s, const struct cay_sandbox *sb)
{
    struct cay_error err = {0};
    CHECK_EQ(sb->spec.name, cay_store_insert(s, sb, CAY_SOON, &err), 0);
}

static void update(struct cay_store *s, const struct cay_sandbox *sb)
{
    struct cay_error err = {0};
    CHECK_EQ(sb->spec.name, cay_store_update(s, sb, CAY_SOON, &err), 0);
}

static void terminate(struct cay_store *s, struct cay_sandbox *sb, int64_t at_ms)
{
    sb->state = CAY_TERMINATED;
    sb->deleted_at_ms = at_ms;
    update(s, sb);
}

static const char *const start_words[] = {"sh", "-c", "echo \"\xC3\xA9\"\n"};
static const char *const label_words[] = {"a", "b c"};
static const char *const rule_words[] = {"*.example.com:443", "192.0.2.0/24"};

static struct cay_sandbox make_full(void)
{
    static struct cay_pair env[] = {{"PATH", "/bin"}, {"QUOTE", "\"\\\x01"}}, tags[] = {{"k", "v"}};
    struct cay_sandbox sb = make("local", "full", 1794736080123);
    sb.spec.image = "debian:bookworm";
    sb.spec.start = (struct cay_strs){.at = (const char **)start_words, .count = 3};
    sb.spec.start_text = "echo";
    sb.spec.cpu_milli = 1500;
    sb.spec.memory_bytes = 1ULL << 40;
    sb.spec.disk_bytes = 123456789;
    sb.spec.pids = 7;
    sb.spec.gpu_count = 2;
    sb.spec.network =
        (struct cay_network){.form = CAY_NETWORK_LISTS,
                             .mode = CAY_NETWORK_LISTED,
                             .allow = {.at = (const char **)rule_words, .count = 2},
                             .deny = {.at = (const char **)rule_words, .count = 1},
                             .subnets_allow = {.at = (const char **)rule_words + 1, .count = 1},
                             .subnets_deny = {.at = (const char **)rule_words, .count = 2},
                             .generation = 5};
    sb.spec.persistent = sb.spec.stop_when_start_ends = true;
    sb.spec.timeout_ms = 5;
    sb.spec.env = (struct cay_pairs){.at = env, .count = 2};
    sb.spec.labels = (struct cay_strs){.at = (const char **)label_words, .count = 2};
    sb.spec.tags = (struct cay_pairs){.at = tags, .count = 1};
    sb.spec.user = "root";
    sb.spec.workdir = "/srv";
    sb.spec.team_id = "team";
    sb.spec.from = "sb-0123456789abcdefghij";
    sb.spec.volume = "vo-0123456789abcdefghij";
    sb.spec.source = (struct cay_spec_source){.kind = CAY_SOURCE_GIT,
                                              .url = "https://git.example/a.git",
                                              .revision = "v1",
                                              .depth = 3,
                                              .timeout_ms = 1234};
    sb.state = CAY_ERROR;
    sb.status_reason = "why";
    sb.server = "node-1";
    cay_id_execution(sb.start_exec);
    sb.started_at_ms = 1794736080124;
    sb.updated_at_ms = 1794736080125;
    sb.stopped_at_ms = 1794736080126;
    sb.expires_at_ms = 1794736080127;
    sb.created_in_ms = 9;
    cay_id_volume(sb.keeps, sb.id);
    sb.copied = (struct cay_copied){.method = "reflink", .ms = 3};
    sb.has_death = true;
    sb.death = (struct cay_death){.reason = "signal",
                                  .removal = "timeout",
                                  .has_signal = true,
                                  .signal = 9,
                                  .message = "killed",
                                  .peak_bytes = 1ULL << 33,
                                  .cpu_ms = 44};
    return sb;
}

static void check_same(const char *store, const struct cay_sandbox *got,
                       const struct cay_sandbox *want)
{
    CHECK_STR(store, got->id, want->id);
    CHECK_STR(store, got->account_id, want->account_id);
    check_spec(store, &got->spec, &want->spec);
    CHECK_EQ(store, got->state, want->state);
    CHECK_STR(store, got->status_reason, want->status_reason);
    CHECK_STR(store, got->server, want->server);
    CHECK_STR(store, got->start_exec, want->start_exec);
    CHECK_EQ(store, got->created_at_ms, want->created_at_ms);
    CHECK_EQ(store, got->started_at_ms, want->started_at_ms);
    CHECK_EQ(store, got->updated_at_ms, want->updated_at_ms);
    CHECK_EQ(store, got->stopped_at_ms, want->stopped_at_ms);
    CHECK_EQ(store, got->expires_at_ms, want->expires_at_ms);
    CHECK_EQ(store, got->deleted_at_ms, want->deleted_at_ms);
    CHECK_EQ(store, got->created_in_ms, want->created_in_ms);
    CHECK_EQ(store, got->has_death, want->has_death);
    CHECK_STR(store, got->death.reason, want->death.reason);
    CHECK_STR(store, got->death.removal, want->death.removal);
    CHECK_EQ(store, got->death.has_exit, want->death.has_exit);
    CHECK_EQ(store, got->death.exit_code, want->death.exit_code);
    CHECK_EQ(store, got->death.has_signal, want->death.has_signal);
    CHECK_EQ(store, got->death.signal, want->death.signal);
    CHECK_STR(store, got->death.message, want->death.message);
    CHECK_EQ(store, got->death.peak_bytes, want->death.peak_bytes);
    CHECK_EQ(store, got->death.cpu_ms, want->death.cpu_ms);
    CHECK_STR(store, got->keeps, want->keeps);
    CHECK_STR(store, got->copied.method, want->copied.method);
    CHECK_EQ(store, got->copied.ms, want->copied.ms);
}

static void every_field_comes_back(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox full = make_full(), plain = make("local", "plain", 5), got;
    insert(s, &full);
    insert(s, &plain);
    CHECK_EQ(store, cay_store_get(s, "local", full.id, &a, &got, &err), 0);
    check_same(store, &got, &full);
    CHECK_EQ(store, cay_store_get(s, "local", plain.id, &a, &got, &err), 0);
    check_same(store, &got, &plain);

    /* What was full becomes plain and the other way round, in one update each. */
    memcpy(got.id, full.id, sizeof got.id);
    plain.state = CAY_PAUSED;
    struct cay_sandbox swapped = full;
    swapped.spec = plain.spec;
    swapped.spec.name = "renamed";
    swapped.has_death = false;
    swapped.death = (struct cay_death){0};
    swapped.expires_at_ms = 0;
    update(s, &swapped);
    CHECK_EQ(store, cay_store_get(s, "local", "renamed", &a, &got, &err), 0);
    check_same(store, &got, &swapped);
    CHECK_EQ(store, cay_store_get(s, "local", "full", &a, &got, &err), CAY_ERR_NOT_FOUND);
}

TEST(store_keeps_every_field)
{
    each_store(every_field_comes_back);
}

static void get_finds(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox one = make("local", "one", 1), other = make("other", "one", 2), got, none;
    insert(s, &one);
    insert(s, &other); /* the same name in another account */
    none = make("local", "none", 3);

    CHECK_EQ(store, cay_store_get(s, "local", one.id, &a, &got, &err), 0);
    CHECK_STR(store, got.id, one.id);
    CHECK_EQ(store, cay_store_get(s, "other", "one", &a, &got, &err), 0);
    CHECK_STR(store, got.id, other.id);
    CHECK_EQ(store, cay_store_get(s, "local", other.id, &a, &got, &err), CAY_ERR_FORBIDDEN);
    CHECK_EQ(store, cay_store_get(s, "local", none.id, &a, &got, &err), CAY_ERR_NOT_FOUND);
    CHECK_STR(store, err.msg, "sandbox not found");
    CHECK_EQ(store, cay_store_get(s, "local", "none", &a, &got, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ(store, cay_store_get(s, "local", "", &a, &got, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ(store, cay_store_get(s, "local", "' OR 1=1 --", &a, &got, &err), CAY_ERR_NOT_FOUND);

    terminate(s, &one, 10);
    CHECK_EQ(store, cay_store_get(s, "local", one.id, &a, &got, &err), 0);
    CHECK_EQ(store, got.state, CAY_TERMINATED);
    CHECK_EQ(store, cay_store_get(s, "local", "one", &a, &got, &err), CAY_ERR_NOT_FOUND);
}

TEST(store_get_is_by_id_or_living_name)
{
    each_store(get_finds);
}

static void names_are_unique(struct cay_store *s, const char *store)
{
    struct cay_error err = {0};
    struct cay_sandbox one = make("local", "n", 1), two = make("local", "n", 2);
    insert(s, &one);
    CHECK_EQ(store, cay_store_insert(s, &two, CAY_NOW, &err), CAY_ERR_CONFLICT);
    CHECK_STR(store, cay_error_name(&err), "NAME_TAKEN");
    two.spec.name = "m";
    insert(s, &two);
    two.spec.name = "n";
    CHECK_EQ(store, cay_store_update(s, &two, CAY_NOW, &err), CAY_ERR_CONFLICT);
    CHECK_STR(store, cay_error_name(&err), "NAME_TAKEN");
    terminate(s, &one, 3);
    CHECK_EQ(store, cay_store_update(s, &two, CAY_NOW, &err), 0);
    struct cay_sandbox again = two;
    again.spec.name = "o";
    CHECK_EQ("the same id", cay_store_insert(s, &again, CAY_NOW, &err), CAY_ERR_CONFLICT);
}

TEST(store_names_are_unique_among_the_living_of_an_account)
{
    each_store(names_are_unique);
}

static void missing_rows(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox sb = make("local", "n", 1), got;
    CHECK_EQ(store, cay_store_update(s, &sb, CAY_NOW, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ(store, cay_store_remove(s, sb.id, CAY_SOON, &err), 0);
    insert(s, &sb);
    struct cay_sandbox stolen = sb;
    stolen.account_id = "other";
    CHECK_EQ(store, cay_store_update(s, &stolen, CAY_NOW, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ(store, cay_store_remove(s, sb.id, CAY_SOON, &err), 0);
    CHECK_EQ(store, cay_store_get(s, "local", sb.id, &a, &got, &err), CAY_ERR_NOT_FOUND);
    insert(s, &sb); /* name and id are free again */
}

TEST(store_remove_leaves_nothing)
{
    each_store(missing_rows);
}

/* Five of `local`, two of them with labels, one terminated; one of another account. */
static void fill(struct cay_store *s)
{
    static const char *const both[] = {"web", "prod"}, *const one[] = {"web"};
    struct cay_sandbox a = make("local", "a", 100), b = make("local", "b", 300),
                       c = make("local", "c", 200), d = make("local", "d", 200),
                       e = make("local", "e", 400), f = make("other", "f", 500);
    a.spec.labels = (struct cay_strs){.at = (const char **)both, .count = 2};
    b.spec.labels = (struct cay_strs){.at = (const char **)one, .count = 1};
    e.spec.labels = a.spec.labels;
    f.spec.labels = a.spec.labels;
    c.state = CAY_STOPPED;
    insert(s, &a);
    insert(s, &b);
    insert(s, &c);
    insert(s, &d);
    insert(s, &e);
    insert(s, &f);
    terminate(s, &e, 900);
}

static const struct {
    const char *what;
    struct cay_list_filter filter;
    const char *label[2];
    const char *names; /* one letter each, in order */
    int64_t total;
} lists[] = {
    {"newest first, then by sequence", {.page = 1, .per_page = 10}, {0}, "bdca", 4},
    {"first page", {.page = 1, .per_page = 3}, {0}, "bdc", 4},
    {"second page", {.page = 2, .per_page = 3}, {0}, "a", 4},
    {"behind the end", {.page = 3, .per_page = 3}, {0}, "", 4},
    {"far behind the end", {.page = CAY_MAX_PAGE, .per_page = 1000}, {0}, "", 4},
    {"all", {.include_terminated = true, .page = 1, .per_page = 10}, {0}, "ebdca", 5},
    {"running",
     {.has_state = true, .state = CAY_RUNNING, .page = 1, .per_page = 10},
     {0},
     "bda",
     3},
    {"running of all",
     {.has_state = true,
      .state = CAY_RUNNING,
      .include_terminated = true,
      .page = 1,
      .per_page = 10},
     {0},
     "bda",
     3},
    {"terminated",
     {.has_state = true, .state = CAY_TERMINATED, .page = 1, .per_page = 10},
     {0},
     "e",
     1},
    {"paused", {.has_state = true, .state = CAY_PAUSED, .page = 1, .per_page = 10}, {0}, "", 0},
    {"by name", {.name = "c", .page = 1, .per_page = 10}, {0}, "c", 1},
    {"no such name", {.name = "f", .page = 1, .per_page = 10}, {0}, "", 0},
    {"terminated by name",
     {.name = "e", .include_terminated = true, .page = 1, .per_page = 10},
     {0},
     "e",
     1},
    {"one label", {.page = 1, .per_page = 10}, {"web"}, "ba", 2},
    {"both labels", {.page = 1, .per_page = 10}, {"web", "prod"}, "a", 1},
    {"label of all", {.include_terminated = true, .page = 1, .per_page = 1}, {"prod"}, "e", 2},
    {"label of the terminated",
     {.has_state = true, .state = CAY_TERMINATED, .page = 1, .per_page = 10},
     {"prod", "web"},
     "e",
     1},
    {"label and state",
     {.has_state = true, .state = CAY_STOPPED, .page = 1, .per_page = 10},
     {"web"},
     "",
     0},
    {"label and name", {.name = "a", .page = 1, .per_page = 10}, {"prod"}, "a", 1},
    {"unknown label", {.page = 1, .per_page = 10}, {"web", "x\"]"}, "", 0},
};

static void lists_filter(struct cay_store *s, const char *store)
{
    (void)store;
    fill(s);
    for (size_t i = 0; i < COUNT(lists); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_sandbox_list list = {0};
        struct cay_list_filter f = lists[i].filter;
        const char *labels[] = {lists[i].label[0], lists[i].label[1]};
        char names[8] = "";
        f.account_id = "local";
        f.labels = (struct cay_strs){.at = labels, .count = !!labels[0] + (size_t) !!labels[1]};
        CHECK_EQ(lists[i].what, cay_store_list(s, &f, &a, &list, &err), 0);
        for (size_t k = 0; k < list.count && k < sizeof names - 1; k++)
            names[k] = list.at[k].spec.name[0];
        CHECK_STR(lists[i].what, names, lists[i].names);
        CHECK_EQ(lists[i].what, list.total, lists[i].total);
    }
}

TEST(store_lists_by_filter)
{
    each_store(lists_filter);
}

static void labels_follow(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox_list list = {0};
    const char *old[] = {"old"}, *new[] = {"new"};
    struct cay_sandbox sb = make("local", "n", 1);
    struct cay_list_filter f = {.account_id = "local", .page = 1, .per_page = 10};
    sb.spec.labels = (struct cay_strs){.at = old, .count = 1};
    insert(s, &sb);
    sb.spec.labels.at = new;
    update(s, &sb);
    f.labels = (struct cay_strs){.at = old, .count = 1};
    CHECK_EQ(store, cay_store_list(s, &f, &a, &list, &err), 0);
    CHECK_EQ(store, list.total, 0);
    f.labels.at = new;
    CHECK_EQ(store, cay_store_list(s, &f, &a, &list, &err), 0);
    CHECK_EQ(store, list.total, 1);
    CHECK_EQ(store, cay_store_remove(s, sb.id, CAY_NOW, &err), 0);
    CHECK_EQ(store, cay_store_list(s, &f, &a, &list, &err), 0);
    CHECK_EQ(store, list.total, 0);
}

TEST(store_labels_follow_their_sandbox)
{
    each_store(labels_follow);
}

static void across_accounts(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox_list list = {0};
    struct cay_sandbox due = make("local", "due", 1), later = make("other", "later", 2),
                       never = make("local", "never", 3), gone = make("local", "gone", 4);
    due.expires_at_ms = 100;
    later.expires_at_ms = 101;
    gone.expires_at_ms = 50;
    insert(s, &due);
    insert(s, &later);
    insert(s, &never);
    insert(s, &gone);
    terminate(s, &gone, 60);

    CHECK_EQ(store, cay_store_all(s, &a, &list, &err), 0);
    CHECK_EQ("all that live", list.count, 3);
    CHECK_EQ(store, cay_store_due(s, 99, &a, &list, &err), 0);
    CHECK_EQ("none yet", list.count, 0);
    CHECK_EQ(store, cay_store_due(s, 100, &a, &list, &err), 0);
    CHECK_EQ("one", list.count, 1);
    CHECK_STR("one", list.at[0].id, due.id);
    CHECK_EQ(store, cay_store_due(s, INT64_MAX, &a, &list, &err), 0);
    CHECK_EQ("both", list.count, 2);
}

TEST(store_all_and_due_look_across_accounts)
{
    each_store(across_accounts);
}

static void due_is_bounded(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox_list list = {0};
    for (int i = 0; i < CAY_STORE_DUE + 4; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        struct cay_sandbox sb = make("local", name, 1);
        sb.expires_at_ms = 1 + i;
        insert(s, &sb);
    }
    CHECK_EQ(store, cay_store_due(s, 10000, &a, &list, &err), 0);
    CHECK_EQ(store, list.count, CAY_STORE_DUE);
    CHECK_EQ("oldest first", list.at[0].expires_at_ms, 1);
}

TEST(store_due_is_bounded)
{
    each_store(due_is_bounded);
}

static void forgets(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox old = make("local", "n", 1), young = make("local", "m", 1),
                       living = make("local", "l", 1), got;
    insert(s, &old);
    insert(s, &young);
    insert(s, &living);
    terminate(s, &old, 100);
    terminate(s, &young, 200);
    CHECK_EQ(store, cay_store_forget(s, 200, &err), 0);
    CHECK_EQ(store, cay_store_get(s, "local", old.id, &a, &got, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ(store, cay_store_get(s, "local", young.id, &a, &got, &err), 0);
    CHECK_EQ(store, cay_store_get(s, "local", living.id, &a, &got, &err), 0);
}

TEST(store_forgets_the_long_gone)
{
    each_store(forgets);
}

static void unreadable_is_refused(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_pair twice[] = {{"K", "1"}, {"K", "2"}};
    struct cay_sandbox sb = make("local", "n", 1), got;
    sb.spec.env = (struct cay_pairs){.at = twice, .count = 2};
    CHECK_EQ(store, cay_store_insert(s, &sb, CAY_NOW, &err), CAY_ERR_INTERNAL);
    CHECK_EQ(store, cay_store_get(s, "local", sb.id, &a, &got, &err), CAY_ERR_NOT_FOUND);
}

TEST(store_refuses_what_it_could_not_read_back)
{
    each_store(unreadable_is_refused);
}

#define RACERS 8

struct racer {
    struct cay_store *store;
    pthread_barrier_t *gate;
    int result;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct cay_error err = {0};
    struct cay_sandbox sb = make("local", "wanted", 1);
    (void)pthread_barrier_wait(r->gate);
    r->result = cay_store_insert(r->store, &sb, CAY_NOW, &err);
    return NULL;
}

static void one_wins(struct cay_store *s, const char *store)
{
    pthread_barrier_t gate;
    pthread_t threads[RACERS];
    struct racer racers[RACERS];
    int won = 0, lost = 0;
    (void)pthread_barrier_init(&gate, NULL, RACERS);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){s, &gate, 1};
        CHECK_EQ(store, pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        (void)pthread_join(threads[i], NULL);
        won += racers[i].result == 0;
        lost += racers[i].result == CAY_ERR_CONFLICT;
    }
    (void)pthread_barrier_destroy(&gate);
    CHECK_EQ(store, won, 1);
    CHECK_EQ(store, lost, RACERS - 1);
}

TEST(store_one_of_many_wins_a_name)
{
    each_store(one_wins);
}

static void check_tells(struct cay_store *s, const char *store)
{
    struct cay_error err = {0};
    char version[32] = "";
    CHECK_EQ(store, cay_store_check(s, version, sizeof version, &err), 0);
    CHECK(store, version[0]);
}

TEST(store_check_names_a_version)
{
    each_store(check_tells);
}

TEST(store_unknown_is_refused)
{
    struct cay_error err = {0};
    struct cay_config cfg = {.data_fd = -1};
    struct cay_store *s = NULL;
    CHECK_EQ("name", cay_store_open("papyrus", &cfg, &s, &err), CAY_ERR_INVALID);
    cay_store_close(NULL);
}

TEST(store_fake_fails_at_the_call_it_was_told)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_store *s = open_store("fake");
    struct cay_sandbox one = make("local", "one", 1), two = make("local", "two", 1), got;
    cay_store_fake_fail_at(s, 2);
    CHECK_EQ("first", cay_store_insert(s, &one, CAY_NOW, &err), 0);
    CHECK_EQ("second", cay_store_insert(s, &two, CAY_NOW, &err), CAY_ERR_STORE);
    CHECK_STR("name", cay_error_name(&err), "DATABASE_ERROR");
    CHECK_EQ("did nothing", cay_store_get(s, "local", two.id, &a, &got, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ("works again", cay_store_insert(s, &two, CAY_NOW, &err), 0);
    cay_store_close(s);
}

static void syncs(struct cay_store *s, const char *store)
{
    struct cay_error err = {0};
    uint64_t first = cay_store_sync_begin(s), second = cay_store_sync_begin(s);
    CHECK_EQ(store, cay_store_sync_end(s, second, &err), 0);
    CHECK_EQ(store, cay_store_sync_end(s, first, &err), 0);
}

TEST(store_syncs_beside_its_callers)
{
    each_store(syncs);
}
