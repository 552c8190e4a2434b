/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach, in any of the forms that it is asked for in. */
#pragma once
#include "base/fields.h"
#include "base/json.h"
#include "model/network.h"

struct cay_api_network {
    const struct cay_json *access, *policy, *allowlist, *denylist;
};
#define CAY_API_NETWORK_FIELDS(body)                                                               \
    CAY_FIELD_ANY(body, network.access, "networkAccess", .type = "boolean|null"),                  \
        CAY_FIELD_ANY(body, network.policy, "networkPolicy", .type = "NetworkPolicy|string|null"), \
        CAY_FIELD_ANY(body, network.allowlist, "networkAllowlist", .type = "[string]|null"),       \
        CAY_FIELD_ANY(body, network.denylist, "networkDenylist", .type = "[string]|null")
extern const struct cay_field cay_api_policy_fields[];
/* Nothing is written when nothing was said; given_out, unless NULL, tells. */
int cay_api_decode_network(struct cay_arena *a, const struct cay_api_network *asked,
                           struct cay_network *out, bool *given_out, struct cay_error *err);
/* networkAccess, networkPolicy and both lists, into the object that is open. */
void cay_api_shape_network(struct cay_json_writer *w, const struct cay_network *n);
void cay_api_shape_policy(struct cay_json_writer *w, const char *key, const struct cay_network *n);
