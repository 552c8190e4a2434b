/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach, as it was asked for. What the rules mean is known in net/. */
#pragma once
#include "base/str.h"

/* In which fields it was asked for: there it is answered, and there a fault is named. */
enum cay_network_form {
    CAY_NETWORK_ACCESS, /* networkAccess */
    CAY_NETWORK_POLICY, /* networkPolicy */
    CAY_NETWORK_LISTS,  /* networkAllowlist, networkDenylist */
};

enum cay_network_mode {
    CAY_NETWORK_OPEN,    /* all that is not denied */
    CAY_NETWORK_OFF,     /* nothing */
    CAY_NETWORK_LISTED,  /* what is listed */
    CAY_NETWORK_OBSERVE, /* all, to find out what a policy would need */
};

/* What a caller asked for, as he spelled it. */
struct cay_network {
    enum cay_network_form form;
    enum cay_network_mode mode;
    struct cay_strs allow, deny;                 /* names, addresses and nets, each with ports */
    struct cay_strs subnets_allow, subnets_deny; /* addresses and nets */
    struct cay_pairs headers; /* "HOST NAME", for requests on their way out; the values as
                                 core/seal.h keeps them */
    struct cay_pairs
        new_headers;     /* of the request, as they were said, NULL: as before; never kept */
    uint64_t generation; /* rises with each change; 1 at first */
};

/* "access", "policy", "lists"; "allow-all", "deny-all", "custom", "observe". */
const char *cay_network_form_name(enum cay_network_form form);
bool cay_network_form_parse(const char *name, enum cay_network_form *out);
const char *cay_network_mode_name(enum cay_network_mode mode);
bool cay_network_mode_parse(const char *name, enum cay_network_mode *out);
/* Is there anything that it may reach? */
bool cay_network_leads_out(const struct cay_network *n);
