/* SPDX-License-Identifier: Apache-2.0 */
#include "core/share.h"
#include "tests/test.h"

/* In this order, of 16. */
static const struct {
    const char *name, *account;
    size_t amount;
    bool want;
} cases[] = {
    {"more than there is", "one", 17, false},
    {"some", "one", 4, true},
    {"half", "one", 4, true},
    {"not more than is left", "one", 1, false},
    {"another takes his own", "two", 4, true},
    {"and no more", "two", 1, false},
    {"who has none gets the rest", "three", 4, true},
    {"all is gone", "four", 1, false},
};

TEST(shares_leave_something_for_others)
{
    struct cay_shares s = {0};
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK_EQ(cases[i].name, cay_share_take(&s, cases[i].account, cases[i].amount, 16),
                 cases[i].want);
    for (size_t i = 0; i < COUNT(cases); i++)
        if (cases[i].want)
            cay_share_give(&s, cases[i].account, cases[i].amount);
    CHECK_EQ("all is given back", s.taken, 0);
    CHECK("nobody has any", !s.first);
}
