/* SPDX-License-Identifier: Apache-2.0 */
#include "model/reach.h"
#include <string.h>

static const char *const forms[] = {
    [CAY_NETWORK_ACCESS] = "access",
    [CAY_NETWORK_POLICY] = "policy",
    [CAY_NETWORK_LISTS] = "lists",
};

static const char *const modes[] = {
    [CAY_NETWORK_OPEN] = "allow-all",
    [CAY_NETWORK_OFF] = "deny-all",
    [CAY_NETWORK_LISTED] = "custom",
    [CAY_NETWORK_OBSERVE] = "observe",
};

static bool find(const char *const *names, size_t count, const char *name, size_t *out)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) {
            *out = i;
            return true;
        }
    return false;
}

const char *cay_network_form_name(enum cay_network_form form)
{
    return forms[form];
}

bool cay_network_form_parse(const char *name, enum cay_network_form *out)
{
    size_t i;
    bool found = find(forms, CAY_COUNT(forms), name, &i);
    if (found)
        *out = (enum cay_network_form)i;
    return found;
}

const char *cay_network_mode_name(enum cay_network_mode mode)
{
    return modes[mode];
}

bool cay_network_mode_parse(const char *name, enum cay_network_mode *out)
{
    size_t i;
    bool found = find(modes, CAY_COUNT(modes), name, &i);
    if (found)
        *out = (enum cay_network_mode)i;
    return found;
}

bool cay_network_leads_out(const struct cay_network *n)
{
    if (n->mode == CAY_NETWORK_LISTED)
        return n->allow.count > 0 || n->subnets_allow.count > 0;
    return n->mode != CAY_NETWORK_OFF;
}
