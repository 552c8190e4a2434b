/* SPDX-License-Identifier: Apache-2.0 */
/* What a resolver answered. Records come in any order, so a chain of aliases is followed by looking
 * through all of them again for each; both numbers are bounded. */
#include "net/dns.h"
#include "net/dns_wire.h"
#include "net/policy.h"
#include <string.h>

struct answer {
    struct cay_dns_view view; /* behind the question */
    struct cay_dns_head head;
    uint16_t type;
};

static void lower_ttl(uint32_t *least, uint32_t ttl_s)
{
    if (ttl_s > INT32_MAX)
        ttl_s = 0; /* as RFC 2181 has it */
    if (ttl_s < *least)
        *least = ttl_s;
}

/* Is it the answer to this question? */
static bool read_head(struct answer *a, uint16_t id, const char *host)
{
    char asked[CAY_DNS_NAME_SIZE];
    uint16_t type, class;
    return cay_dns_take_head(&a->view, &a->head) && a->head.id == id &&
           a->head.flags & CAY_DNS_IS_REPLY && !(a->head.flags & CAY_DNS_OPCODE) &&
           a->head.questions == 1 && cay_dns_take_name(&a->view, false, asked) &&
           cay_dns_take16(&a->view, &type) && cay_dns_take16(&a->view, &class) && type == a->type &&
           class == CAY_DNS_IN && strcmp(asked, host) == 0;
}

/* All records must be whole, those that nobody asked for too. */
static bool check_records(const struct answer *a)
{
    struct cay_dns_view v = a->view;
    struct cay_dns_record record;
    unsigned count = a->head.answers + a->head.authorities + a->head.extras;
    if (count > CAY_DNS_RECORDS)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!cay_dns_take_record(&v, &record))
            return false;
    return v.at == v.len;
}

static bool read_address(const struct cay_dns_record *record, struct in6_addr *out)
{
    const uint8_t *data = record->data.bytes + record->data.at;
    size_t len = record->data.len - record->data.at;
    if (record->type == CAY_DNS_A && len == 4) {
        *out = cay_address_of4((uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 |
                               (uint32_t)data[2] << 8 | data[3]);
        return true;
    }
    if (record->type != CAY_DNS_AAAA || len != sizeof *out)
        return false;
    memcpy(out, data, sizeof *out);
    return true;
}

/* The addresses of this very name, or where it is an alias for. */
static bool look_through(const struct answer *a, const char *name, struct cay_dns_found *found,
                         char alias_out[CAY_DNS_NAME_SIZE])
{
    struct cay_dns_view v = a->view;
    struct cay_dns_record record;
    alias_out[0] = '\0';
    for (unsigned i = 0; i < a->head.answers && cay_dns_take_record(&v, &record); i++) {
        if (record.class != CAY_DNS_IN || strcmp(record.name, name) != 0)
            continue;
        if (record.type == CAY_DNS_CNAME && !alias_out[0]) {
            if (!cay_dns_take_name(&record.data, true, alias_out) ||
                record.data.at != record.data.len)
                return false;
            lower_ttl(&found->ttl_s, record.ttl_s);
        } else if (record.type == a->type) {
            struct in6_addr ip;
            if (!read_address(&record, &ip))
                return false;
            lower_ttl(&found->ttl_s, record.ttl_s);
            if (found->address_count < CAY_DNS_ADDRESSES)
                found->addresses[found->address_count++] = ip;
        }
    }
    return true;
}

/* How long "nothing there" holds: what the zone says, else not at all. */
static uint32_t nothing_ttl(const struct answer *a)
{
    struct cay_dns_view v = a->view;
    struct cay_dns_record record;
    char skipped[CAY_DNS_NAME_SIZE];
    for (unsigned i = 0; i < a->head.answers; i++)
        (void)cay_dns_take_record(&v, &record); /* checked before */
    for (unsigned i = 0; i < a->head.authorities && cay_dns_take_record(&v, &record); i++) {
        struct cay_dns_view data = record.data;
        uint32_t numbers[5], ttl_s = CAY_DNS_TTL_MAX;
        if (record.type != CAY_DNS_SOA || !cay_dns_take_name(&data, true, skipped) ||
            !cay_dns_take_name(&data, true, skipped))
            continue;
        for (size_t k = 0; k < 5; k++)
            if (!cay_dns_take32(&data, &numbers[k]))
                return 0;
        lower_ttl(&ttl_s, record.ttl_s);
        lower_ttl(&ttl_s, numbers[4]);
        return ttl_s;
    }
    return 0;
}

static bool follow(const struct answer *a, const char *host, struct cay_dns_found *found)
{
    char name[CAY_DNS_NAME_SIZE], alias[CAY_DNS_NAME_SIZE];
    memcpy(name, host, strlen(host) + 1);
    for (size_t i = 0; i <= CAY_DNS_CHAIN; i++) {
        if (!look_through(a, name, found, alias))
            return false;
        if (found->address_count > 0 || !alias[0])
            return true;
        memcpy(name, alias, sizeof name);
    }
    return false; /* longer than anyone's, or a circle */
}

bool cay_dns_reply_read(const void *msg, size_t len, uint16_t id, const char *name, uint16_t type,
                        struct cay_dns_found *out)
{
    struct answer a = {.view = {msg, len, 0}, .type = type};
    struct cay_dns_found found = {.ttl_s = CAY_DNS_TTL_MAX};
    char host[CAY_HOST_SIZE];
    if (len > CAY_DNS_MESSAGE || !cay_host_read(name, strlen(name), host) ||
        !read_head(&a, id, host))
        return false;
    found.code = (enum cay_dns_code)(a.head.flags & CAY_DNS_CODE);
    found.cut = a.head.flags & CAY_DNS_IS_CUT;
    if (!found.cut &&
        (!check_records(&a) || (found.code == CAY_DNS_OK && !follow(&a, host, &found))))
        return false;
    if (found.address_count == 0)
        found.ttl_s = found.cut ? 0 : nothing_ttl(&a);
    *out = found;
    return true;
}
