/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a question and as an answer: what is read is within its bounds, and a question that
 * was understood is answered so that it is read back. */
#include "net/dns.h"
#include "net/policy.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer(const struct cay_dns_query *q)
{
    struct in6_addr addresses[] = {cay_address_of4(0xc0000201), {{{0x20, 1, 0xd, 0xb8}}}};
    struct cay_dns_reply reply = {.ttl_s = 60, .addresses = addresses, .address_count = 2};
    struct cay_dns_found found;
    uint8_t out[CAY_DNS_MESSAGE];
    size_t len = cay_dns_reply_write(q, &reply, out, sizeof out);
    bool asks = q->type == CAY_DNS_A || q->type == CAY_DNS_AAAA;
    if (len < 12 || len > sizeof out)
        abort();
    if (!q->name[0] || !asks)
        return;
    if (!cay_dns_reply_read(out, len, q->id, q->name, q->type, &found) || found.address_count != 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_dns_query q;
    struct cay_dns_found found;
    if (size >= 2 && cay_dns_reply_read(data, size, (uint16_t)(data[0] << 8 | data[1]), "a.b",
                                        CAY_DNS_A, &found)) {
        if (found.address_count > CAY_DNS_ADDRESSES || found.ttl_s > CAY_DNS_TTL_MAX)
            abort();
    }
    int code = cay_dns_query_read(data, size, &q);
    if (code >= 0 && (q.question_len > sizeof q.question || q.udp_bytes < 512))
        abort();
    if (code == CAY_DNS_OK)
        answer(&q);
    return 0;
}
