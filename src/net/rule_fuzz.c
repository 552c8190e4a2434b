/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a rule: what is taken is written back as a text that means the same. */
#include "net/rule.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_rule rule, again;
    const char *text = cay_arena_strndup(&a, (const char *)data, size);
    if (cay_rule_read(&a, text, &rule, &err) < 0)
        return 0;
    const char *back = cay_rule_text(&a, &rule);
    if (cay_rule_read(&a, back, &again, &err) < 0 || again.is_net != rule.is_net)
        abort();
    if (strcmp(back, cay_rule_text(&a, &again)) != 0)
        abort();
    return 0;
}
