/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ports.h"
#include "core/service.h"
#include "tests/fixture.h"
#include <malloc.h>
#include <stdio.h>

#define ROWS (CAY_MAX_PER_PAGE + 100) /* more than are read at once */
#define GONE_EVERY 10
#define TAG_EVERY 7
#define PORT_EVERY 50
#define MEMORY_MAX                                                                                 \
    (256 * CAY_KIB) /* that an answer of a few rows may take; all of them have 2 MiB */

static char names[ROWS][16];

/* The oldest first: row N is the Nth from the end of a list. */
static void fill(struct fixture *f)
{
    static char long_value[2048];
    static struct cay_pair env[] = {{"LONG", long_value}}, tags[] = {{"k", "v"}};
    memset(long_value, 'x', sizeof long_value - 1);
    for (int i = 0; i < ROWS; i++) {
        struct cay_error err = {0};
        struct cay_sandbox sb = {.account_id = CAY_LOCAL_ACCOUNT,
                                 .spec = cay_spec_default(),
                                 .state = i % GONE_EVERY ? CAY_RUNNING : CAY_TERMINATED,
                                 .created_at_ms = 1000 + i,
                                 .deleted_at_ms = i % GONE_EVERY ? 0 : 5000};
        cay_id_sandbox(sb.id);
        (void)snprintf(names[i], sizeof names[i], "row-%d", i);
        sb.spec.name = names[i];
        sb.spec.env = (struct cay_pairs){.at = env, .count = 1};
        sb.spec.tags = (struct cay_pairs){.at = tags, .count = i % TAG_EVERY == 0};
        sb.spec.port_count = i % PORT_EVERY == 1;
        sb.spec.ports[0].port = 80;
        CHECK_EQ("a row", cay_store_insert(f->store, &sb, CAY_SOON, &err), 0);
    }
}

static size_t in_use(void)
{
    struct mallinfo2 m = mallinfo2(); /* all 0 under a sanitizer */
    return m.uordblks + m.hblkhd;
}

/* How many fit, and the names of those on the page, newest first. */
static int64_t expected(bool gone_too, int64_t first, int64_t per_page, const char **want)
{
    int64_t total = 0;
    for (int i = ROWS - 1; i >= 0; i--) {
        if (i % TAG_EVERY || (!gone_too && i % GONE_EVERY == 0))
            continue;
        if (total >= first && total < first + per_page)
            want[total - first] = names[i];
        total++;
    }
    return total;
}

static void check_page(struct fixture *f, bool gone_too, int64_t page, int64_t per_page)
{
    static const char *tag[] = {"k:v"};
    static const char *want[CAY_MAX_PER_PAGE];
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox_list got = {0};
    struct cay_core_filter filter = {
        .row = {.page = page, .per_page = per_page, .include_terminated = gone_too},
        .tags = {.at = tag, .count = 1}};
    int64_t first = (page - 1) * per_page;
    int64_t total = expected(gone_too, first, per_page, want), left = total - first;
    int64_t count = left < 0 ? 0 : left < per_page ? left : per_page;
    size_t before = in_use();
    CHECK_EQ("list", cay_core_list(f->core, &f->me, &filter, &a, &got, &err), 0);
    CHECK("only what is told is kept", per_page > 10 || in_use() < before + MEMORY_MAX);
    CHECK_EQ("all of them", got.total, total);
    CHECK_EQ("on this page", got.count, count);
    for (size_t i = 0; i < got.count; i++)
        CHECK_STR("in their order", got.at[i].spec.name, want[i]);
}

TEST(list_filtered_keeps_what_it_tells)
{
    static const int64_t pages[][2] = {{1, 5}, {2, 5}, {3, 60}, {1, CAY_MAX_PER_PAGE}, {99, 5}};
    struct fixture f;
    fixture_open(&f);
    fill(&f);
    check_page(&f, true, 1, 60); /* so that the store has what it keeps for itself */
    for (size_t i = 0; i < COUNT(pages); i++) {
        check_page(&f, false, pages[i][0], pages[i][1]);
        check_page(&f, true, pages[i][0], pages[i][1]);
    }
    fixture_close(&f);
}

TEST(list_of_exposed_ports_keeps_what_it_tells)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_exposed_list got = {0};
    fixture_open(&f);
    fill(&f);
    check_page(&f, true, 1, 60);
    size_t before = in_use();
    CHECK_EQ("exposed", cay_core_exposed(f.core, &f.me, NULL, &f.a, &got, &err), 0);
    CHECK("no rows are kept", in_use() < before + MEMORY_MAX);
    CHECK_EQ("all of them", got.count, ROWS / PORT_EVERY);
    CHECK_EQ("their ports", got.at[got.count - 1].count, 1);
    CHECK_EQ("which", got.at[got.count - 1].ports[0].port, 80);
    fixture_close(&f);
}
