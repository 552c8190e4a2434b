/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that DNS messages are made of. Reading: each take holds what it reads against the
 * message's end and returns false behind it. Writing: the caller has checked that there is room. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAY_DNS_HEAD 12
#define CAY_DNS_OPT_LEN 11
#define CAY_DNS_IN 1
#define CAY_DNS_IS_REPLY 0x8000
#define CAY_DNS_OPCODE 0x7800
#define CAY_DNS_IS_CUT 0x0200
#define CAY_DNS_RECURSE 0x0100
#define CAY_DNS_CAN_RECURSE 0x0080
#define CAY_DNS_CODE 0x000f
#define CAY_DNS_NAME_SIZE 256 /* of a name as text: labels with dots between */

struct cay_dns_view {
    const uint8_t *bytes;
    size_t len, at;
};

struct cay_dns_head {
    uint16_t id, flags, questions, answers, authorities, extras;
};

struct cay_dns_record {
    char name[CAY_DNS_NAME_SIZE];
    uint16_t type, class;
    uint32_t ttl_s;
    struct cay_dns_view data; /* `at` its beginning and `len` its end, in the whole message */
};

bool cay_dns_take16(struct cay_dns_view *v, uint16_t *out);
bool cay_dns_take32(struct cay_dns_view *v, uint32_t *out);
bool cay_dns_take_head(struct cay_dns_view *v, struct cay_dns_head *out);
/* Lower case, without a final dot; the root is empty. A label with a dot, a NUL or other bytes that
 * are no part of a host's name has '!' for them, so that it is no name of a host. */
bool cay_dns_take_name(struct cay_dns_view *v, bool compressed, char out[CAY_DNS_NAME_SIZE]);
bool cay_dns_take_record(struct cay_dns_view *v, struct cay_dns_record *out);

struct cay_dns_out {
    uint8_t *bytes;
    size_t len, cap;
};

void cay_dns_put(struct cay_dns_out *o, const void *data, size_t len);
void cay_dns_put16(struct cay_dns_out *o, uint16_t value);
void cay_dns_put32(struct cay_dns_out *o, uint32_t value);
void cay_dns_put_head(struct cay_dns_out *o, const struct cay_dns_head *head);
