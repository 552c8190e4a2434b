/* SPDX-License-Identifier: Apache-2.0 */
#include "api/visits.h"
#include "model/limits.h"
#include "tests/test.h"

TEST(visits_of_one_sandbox_are_bounded)
{
    for (int i = 0; i < CAY_PREVIEW_OPEN; i++)
        CHECK("enters", cay_visit_enter("sb-many"));
    CHECK("one too many", !cay_visit_enter("sb-many"));
    CHECK("another's", cay_visit_enter("sb-few"));
    cay_visit_leave("sb-many");
    CHECK("a place is free", cay_visit_enter("sb-many"));
    for (int i = 0; i < CAY_PREVIEW_OPEN; i++)
        cay_visit_leave("sb-many");
    cay_visit_leave("sb-few");
    CHECK("none is there", cay_visit_enter("sb-many"));
    cay_visit_leave("sb-many");
}

static const struct {
    const char *name;
    struct cay_visit_key asked;
    bool want;
} cases[] = {
    {"the same, a moment later", {{7}, 3, 1000 + CAY_PREVIEW_RECALL_MS - 1}, true},
    {"too old", {{7}, 3, 1000 + CAY_PREVIEW_RECALL_MS}, false},
    {"something was written", {{7}, 4, 1000}, false},
    {"another request", {{7, [31] = 1}, 3, 1000}, false},
    {"a request of another slot", {{8}, 3, 1000}, false},
};

TEST(visits_recall_what_was_decided)
{
    struct cay_visit_key key = {{7}, 3, 1000};
    struct cay_visit kept = {.sandbox_id = "sb-1", .port = 80}, found;
    cay_visit_keep(&key, &kept);
    for (size_t i = 0; i < COUNT(cases); i++) {
        found = (struct cay_visit){0};
        CHECK_EQ(cases[i].name, cay_visit_recall(&cases[i].asked, &found), cases[i].want);
        CHECK_EQ(cases[i].name, found.port, cases[i].want ? 80 : 0);
    }
}
