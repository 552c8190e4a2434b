/* SPDX-License-Identifier: Apache-2.0 */
/* In each of the forms that clients know, and told in the form in which it came:
 *
 *     networkAccess     true or false
 *     networkPolicy     "allow-all", "deny-all", or an object with lists and headers
 *     networkAllowlist  or networkDenylist
 *
 * What a rule may say core knows. */
#include "api/network.h"
#include "api/body.h"
#include "model/limits.h"
#include <string.h>

struct policy_body {
    const char *mode;
    const struct cay_json *allow, *deny, *subnets_allow, *subnets_deny, *headers;
    bool observe;
};

#define BODY struct policy_body

static const char *const modes[] = {"allow-all", "deny-all", "custom", "observe", NULL};

static const struct cay_field subnet_fields[] = {
    CAY_FIELD_ANY(BODY, subnets_allow, "allow", .type = "[string]"),
    CAY_FIELD_ANY(BODY, subnets_deny, "deny", .type = "[string]"),
    CAY_FIELD_END,
};

const struct cay_field cay_api_policy_fields[] = {
    CAY_FIELD_STR(BODY, mode, "mode", .choices = modes),
    CAY_FIELD_ANY(BODY, allow, "allow", .type = "[string]|{[any]}"),
    CAY_FIELD_ANY(BODY, deny, "deny", .type = "[string]"),
    CAY_FIELD_SUB("subnets", subnet_fields),
    CAY_FIELD_ANY(BODY, headers, "headers", .type = "{{string|null}}"),
    CAY_FIELD_BOOL(BODY, observe, "observe"),
    CAY_FIELD_END,
};

static int check_list(const struct cay_json *v, enum cay_json_kind kind, const char *field,
                      struct cay_error *err)
{
    if (v->kind != kind)
        return cay_fail_field(err, field, "%s must be a list of strings", field);
    if (v->count > CAY_MAX_RULES)
        return cay_fail_field(err, field, "a policy has at most %d rules", CAY_MAX_RULES);
    return 0;
}

static int decode_list(struct cay_arena *a, const struct cay_json *v, const char *field,
                       struct cay_strs *out, struct cay_error *err)
{
    size_t i = 0;
    if (!v)
        return 0;
    int r = check_list(v, CAY_JSON_ARRAY, field, err);
    if (r < 0)
        return r;
    *out = cay_strs_room(a, v->count);
    for (const struct cay_json *item = v->first; item; item = item->next, i++) {
        if (item->kind != CAY_JSON_STRING)
            return cay_fail_field(err, cay_arena_printf(a, "%s[%zu]", field, i),
                                  "%s must be a list of strings", field);
        cay_strs_push(a, out, item->text);
    }
    return 0;
}

/* {name: value}: what requests for the host are given. null: the value that it has. */
static int decode_headers(struct cay_arena *a, const char *host, const struct cay_json *v,
                          struct cay_network *out, struct cay_error *err)
{
    const char *field = cay_arena_printf(a, "networkPolicy.headers.%s", host);
    if (v->kind != CAY_JSON_OBJECT)
        return cay_fail_field(err, field, "the headers of a host are an object of strings");
    for (const struct cay_json *one = v->first; one; one = one->next) {
        if (one->kind != CAY_JSON_STRING && one->kind != CAY_JSON_NULL)
            return cay_fail_field(err, field, "a header is a string, or null to keep it");
        cay_pairs_push(a, &out->new_headers, cay_arena_printf(a, "%s %s", host, one->key),
                       one->kind == CAY_JSON_STRING ? one->text : NULL);
    }
    return 0;
}

static int decode_all_headers(struct cay_arena *a, const struct cay_json *v,
                              struct cay_network *out, struct cay_error *err)
{
    int r = 0;
    if (!v || v->kind == CAY_JSON_NULL)
        return 0;
    if (v->kind != CAY_JSON_OBJECT)
        return cay_fail_field(err, "networkPolicy.headers", "headers must be an object of hosts");
    for (const struct cay_json *host = v->first; host && r == 0; host = host->next)
        r = decode_headers(a, host->key, host, out, err);
    return r;
}

/* Of [{"transform": [{"headers": {name: value}}]}]; nothing else is done to requests. */
static int decode_rules(struct cay_arena *a, const struct cay_json *rules, const char *at,
                        struct cay_network *out, struct cay_error *err)
{
    int r = 0;
    if (rules->kind != CAY_JSON_ARRAY)
        return cay_fail_field(err, at, "the rules of a domain must be a list");
    for (const struct cay_json *rule = rules->first; rule && r == 0; rule = rule->next) {
        const struct cay_json *all = cay_json_get(rule, "transform");
        if (rule->kind != CAY_JSON_OBJECT || rule->count != 1 || !all ||
            all->kind != CAY_JSON_ARRAY)
            return cay_api_refuse(rules, at, err);
        for (const struct cay_json *one = all->first; one && r == 0; one = one->next) {
            const struct cay_json *headers = cay_json_get(one, "headers");
            if (one->kind != CAY_JSON_OBJECT || one->count != 1 || !headers)
                return cay_api_refuse(rules, at, err);
            r = decode_headers(a, rules->key, headers, out, err);
        }
    }
    return r;
}

/* A list, or {domain: [rule]}. */
static int decode_domains(struct cay_arena *a, const struct cay_json *v, const char *field,
                          struct cay_network *out, struct cay_error *err)
{
    size_t i = 0;
    if (!v || v->kind != CAY_JSON_OBJECT)
        return decode_list(a, v, field, &out->allow, err);
    int r = check_list(v, CAY_JSON_OBJECT, field, err);
    if (r < 0)
        return r;
    out->allow = cay_strs_room(a, v->count);
    for (const struct cay_json *item = v->first; item && r == 0; item = item->next, i++) {
        r = decode_rules(a, item, cay_arena_printf(a, "%s[%zu]", field, i), out, err);
        cay_strs_push(a, &out->allow, item->key);
    }
    return r;
}

static int decode_lists(struct cay_arena *a, const struct policy_body *body,
                        struct cay_network *out, struct cay_error *err)
{
    int r = decode_domains(a, body->allow, "networkPolicy.allow", out, err);
    if (r == 0)
        r = decode_list(a, body->deny, "networkPolicy.deny", &out->deny, err);
    if (r == 0)
        r = decode_list(a, body->subnets_allow, "networkPolicy.subnets.allow", &out->subnets_allow,
                        err);
    if (r == 0)
        r = decode_list(a, body->subnets_deny, "networkPolicy.subnets.deny", &out->subnets_deny,
                        err);
    if (r == 0)
        r = decode_all_headers(a, body->headers, out, err);
    return r;
}

/* Lists that the mode makes idle were meant otherwise. */
static int check_mode(const struct cay_network *n, struct cay_error *err)
{
    bool allows = n->allow.count > 0 || n->subnets_allow.count > 0;
    bool denies = n->deny.count > 0 || n->subnets_deny.count > 0 || n->new_headers.count > 0;
    if ((n->mode != CAY_NETWORK_LISTED && allows) || (n->mode == CAY_NETWORK_OFF && denies))
        return cay_fail_field(err, "networkPolicy.mode", "with mode %s these lists say nothing",
                              cay_network_mode_name(n->mode));
    return 0;
}

static int decode_object(struct cay_arena *a, const struct cay_json *v, struct cay_network *out,
                         struct cay_error *err)
{
    struct policy_body body = {0};
    int r = cay_fields_decode(a, cay_api_policy_fields, v, &body, err);
    if (r < 0)
        return cay_fail_inside(err, "networkPolicy");
    out->mode = body.observe ? CAY_NETWORK_OBSERVE : CAY_NETWORK_LISTED;
    if (body.mode)
        (void)cay_network_mode_parse(body.mode, &out->mode); /* one of the choices */
    if (body.observe && out->mode != CAY_NETWORK_OBSERVE && out->mode != CAY_NETWORK_OPEN)
        return cay_fail_field(err, "networkPolicy.observe", "who observes allows all");
    if (body.observe)
        out->mode = CAY_NETWORK_OBSERVE;
    r = decode_lists(a, &body, out, err);
    return r < 0 ? r : check_mode(out, err);
}

static int decode_policy(struct cay_arena *a, const struct cay_json *v, struct cay_network *out,
                         struct cay_error *err)
{
    *out = (struct cay_network){.form = CAY_NETWORK_POLICY, .generation = 1};
    if (v->kind == CAY_JSON_OBJECT)
        return decode_object(a, v, out, err);
    if (v->kind != CAY_JSON_STRING || !cay_network_mode_parse(v->text, &out->mode) ||
        out->mode == CAY_NETWORK_LISTED)
        return cay_fail_field(err, "networkPolicy",
                              "networkPolicy must be \"allow-all\", \"deny-all\", \"observe\" or "
                              "an object with lists");
    return 0;
}

static int decode_both(struct cay_arena *a, const struct cay_api_network *asked,
                       struct cay_network *out, struct cay_error *err)
{
    *out = (struct cay_network){.form = CAY_NETWORK_LISTS,
                                .mode = asked->allowlist ? CAY_NETWORK_LISTED : CAY_NETWORK_OPEN,
                                .generation = 1};
    if (asked->allowlist && asked->denylist)
        return cay_fail_field(err, "networkDenylist",
                              "a list of what is allowed, or one of what is not");
    int r = decode_list(a, asked->allowlist, "networkAllowlist", &out->allow, err);
    return r < 0 ? r : decode_list(a, asked->denylist, "networkDenylist", &out->deny, err);
}

int cay_api_decode_network(struct cay_arena *a, const struct cay_api_network *asked,
                           struct cay_network *out, bool *given_out, struct cay_error *err)
{
    bool lists = asked->allowlist || asked->denylist;
    struct cay_network n = {.form = CAY_NETWORK_ACCESS, .generation = 1};
    int r = 0;
    if (asked->access && asked->access->kind != CAY_JSON_BOOL)
        return cay_fail_field(err, asked->access->key, "%s must be true or false",
                              asked->access->key);
    if (asked->policy && lists)
        return cay_fail_field(err, asked->policy->key, "networkPolicy, or a list beside it");
    if (asked->access)
        n.mode = asked->access->truth ? CAY_NETWORK_OPEN : CAY_NETWORK_OFF;
    if (asked->policy)
        r = decode_policy(a, asked->policy, &n, err);
    else if (lists)
        r = decode_both(a, asked, &n, err);
    if (r < 0)
        return r;
    if (asked->access && !asked->access->truth && cay_network_leads_out(&n))
        return cay_fail_field(err, asked->access->key, "without access no rule says anything");
    if (asked->access || asked->policy || lists)
        *out = n;
    if (given_out)
        *given_out = asked->access || asked->policy || lists;
    return 0;
}

static void shape_list(struct cay_json_writer *w, const char *key, const struct cay_strs *list)
{
    cay_jw_array(w, key);
    for (size_t i = 0; i < list->count; i++)
        cay_jw_str(w, NULL, list->at[i]);
    cay_jw_array_end(w);
}

static bool is_same_host(const struct cay_pair *one, const struct cay_pair *other)
{
    size_t len = strcspn(one->key, " ");
    return strncmp(one->key, other->key, len + 1) == 0;
}

/* Their names: the values are nobody's to read. Sent back, they stay what they are. */
static void shape_headers(struct cay_json_writer *w, const struct cay_pairs *all)
{
    cay_jw_object(w, "headers");
    for (size_t i = 0; i < all->count; i++) {
        char host[CAY_MAX_RULE + 1];
        size_t len = strcspn(all->at[i].key, " "), k = 0;
        while (!is_same_host(&all->at[k], &all->at[i]))
            k++;
        if (k < i || len >= sizeof host)
            continue; /* told already */
        memcpy(host, all->at[i].key, len);
        host[len] = 0;
        cay_jw_object(w, host);
        for (; k < all->count; k++)
            if (is_same_host(&all->at[i], &all->at[k]))
                cay_jw_null(w, all->at[k].key + len + 1);
        cay_jw_object_end(w);
    }
    cay_jw_object_end(w);
}

void cay_api_shape_policy(struct cay_json_writer *w, const char *key, const struct cay_network *n)
{
    bool subnets = n->subnets_allow.count > 0 || n->subnets_deny.count > 0;
    bool plain = n->mode == CAY_NETWORK_OPEN || n->mode == CAY_NETWORK_OFF;
    if (plain && n->deny.count == 0 && !subnets && n->headers.count == 0) {
        cay_jw_str(w, key, cay_network_mode_name(n->mode));
        return;
    }
    cay_jw_object(w, key);
    cay_jw_str(w, "mode", cay_network_mode_name(n->mode));
    if (n->mode == CAY_NETWORK_LISTED)
        shape_list(w, "allow", &n->allow);
    if (n->deny.count > 0)
        shape_list(w, "deny", &n->deny);
    if (subnets) {
        cay_jw_object(w, "subnets");
        shape_list(w, "allow", &n->subnets_allow);
        shape_list(w, "deny", &n->subnets_deny);
        cay_jw_object_end(w);
    }
    if (n->headers.count > 0)
        shape_headers(w, &n->headers);
    cay_jw_object_end(w);
}

static void shape_lists(struct cay_json_writer *w, const char *allow, const char *deny,
                        const struct cay_network *n)
{
    bool lists = n->form == CAY_NETWORK_LISTS, allows = n->mode == CAY_NETWORK_LISTED;
    if (lists && allows)
        shape_list(w, allow, &n->allow);
    else
        cay_jw_null(w, allow);
    if (lists && !allows)
        shape_list(w, deny, &n->deny);
    else
        cay_jw_null(w, deny);
}

void cay_api_shape_network(struct cay_json_writer *w, const struct cay_network *n)
{
    cay_jw_bool(w, "networkAccess", cay_network_leads_out(n));
    cay_api_shape_policy(w, "networkPolicy", n);
    shape_lists(w, "networkAllowlist", "networkDenylist", n);
}
