/* SPDX-License-Identifier: Apache-2.0 */
/* Questions read and answers written. In a question a name is never compressed, so one that is, is
 * refused. */
#include "net/dns.h"
#include "net/dns_wire.h"
#include <string.h>

#define UDP_LEAST 512

static int read_question(struct cay_dns_view *v, struct cay_dns_query *q)
{
    char name[CAY_DNS_NAME_SIZE];
    uint16_t class;
    size_t begin = v->at;
    if (!cay_dns_take_name(v, false, name) || !cay_dns_take16(v, &q->type) ||
        !cay_dns_take16(v, &class))
        return CAY_DNS_FORMAT;
    q->question_len = v->at - begin;
    memcpy(q->question, v->bytes + begin, q->question_len);
    if (!cay_host_read(name, strlen(name), q->name))
        q->name[0] = '\0';
    return class == CAY_DNS_IN ? CAY_DNS_OK : CAY_DNS_REFUSED;
}

/* Behind the question there may be one OPT record, and nothing else that we know. */
static int read_extra(struct cay_dns_view *v, unsigned count, struct cay_dns_query *q)
{
    struct cay_dns_record record;
    for (unsigned i = 0; i < count; i++) {
        if (!cay_dns_take_record(v, &record))
            return CAY_DNS_FORMAT;
        if (record.type != CAY_DNS_OPT)
            continue;
        if (q->edns || record.name[0])
            return CAY_DNS_FORMAT;
        q->edns = true;
        q->udp_bytes = record.class > UDP_LEAST ? record.class : UDP_LEAST;
    }
    return v->at == v->len ? CAY_DNS_OK : CAY_DNS_FORMAT;
}

int cay_dns_query_read(const void *msg, size_t len, struct cay_dns_query *out)
{
    struct cay_dns_view v = {msg, len, 0};
    struct cay_dns_head head;
    if (!cay_dns_take_head(&v, &head) || head.flags & CAY_DNS_IS_REPLY)
        return -1;
    *out = (struct cay_dns_query){
        .id = head.id, .recursion = head.flags & CAY_DNS_RECURSE, .udp_bytes = UDP_LEAST};
    if (head.flags & CAY_DNS_OPCODE)
        return CAY_DNS_NOT_DONE;
    if (head.questions != 1 || head.answers != 0 || head.authorities != 0 || head.extras > 4 ||
        len > CAY_DNS_MESSAGE)
        return CAY_DNS_FORMAT;
    int code = read_question(&v, out);
    if (code == CAY_DNS_FORMAT || read_extra(&v, head.extras, out) == CAY_DNS_FORMAT)
        return CAY_DNS_FORMAT;
    return code;
}

static bool fits_type(const struct cay_dns_query *q, const struct in6_addr *ip)
{
    bool is4 = IN6_IS_ADDR_V4MAPPED(ip);
    return q->type == (is4 ? CAY_DNS_A : CAY_DNS_AAAA);
}

/* Its name is that of the question, by a pointer to it. */
static bool put_address(struct cay_dns_out *o, const struct in6_addr *ip, uint32_t ttl_s)
{
    bool is4 = IN6_IS_ADDR_V4MAPPED(ip);
    uint16_t size = is4 ? 4 : 16;
    if (o->cap - o->len < 12U + size)
        return false;
    cay_dns_put16(o, 0xc000 | CAY_DNS_HEAD);
    cay_dns_put16(o, is4 ? CAY_DNS_A : CAY_DNS_AAAA);
    cay_dns_put16(o, CAY_DNS_IN);
    cay_dns_put32(o, ttl_s);
    cay_dns_put16(o, size);
    cay_dns_put(o, &ip->s6_addr[16 - size], size);
    return true;
}

static void put_opt(struct cay_dns_out *o)
{
    static const uint8_t opt[CAY_DNS_OPT_LEN] = {
        0, 0, CAY_DNS_OPT, CAY_DNS_UDP >> 8, CAY_DNS_UDP & 255, 0, 0, 0, 0, 0, 0};
    cay_dns_put(o, opt, sizeof opt);
}

size_t cay_dns_reply_write(const struct cay_dns_query *q, const struct cay_dns_reply *reply,
                           void *out, size_t cap)
{
    size_t opt = q->edns ? CAY_DNS_OPT_LEN : 0;
    struct cay_dns_out o = {.bytes = out, .cap = cap};
    struct cay_dns_head head = {.id = q->id, .questions = q->question_len > 0, .extras = q->edns};
    if (cap < CAY_DNS_HEAD + q->question_len + opt)
        return 0;
    o.cap -= opt;
    o.len = CAY_DNS_HEAD;
    cay_dns_put(&o, q->question, q->question_len);
    bool cut = false;
    for (size_t i = 0; reply->code == CAY_DNS_OK && i < reply->address_count && !cut; i++) {
        if (!fits_type(q, &reply->addresses[i]))
            continue;
        cut = head.answers == CAY_DNS_ADDRESSES ||
              !put_address(&o, &reply->addresses[i], reply->ttl_s);
        head.answers += !cut;
    }
    o.cap += opt;
    if (q->edns)
        put_opt(&o);
    head.flags = (uint16_t)(CAY_DNS_IS_REPLY | CAY_DNS_CAN_RECURSE | reply->code |
                            (q->recursion ? CAY_DNS_RECURSE : 0) | (cut ? CAY_DNS_IS_CUT : 0));
    size_t len = o.len;
    o.len = 0;
    cay_dns_put_head(&o, &head);
    return len;
}

size_t cay_dns_query_write(uint16_t id, const char *name, uint16_t type, void *out, size_t cap)
{
    struct cay_dns_out o = {.bytes = out, .cap = cap};
    struct cay_dns_head head = {.id = id, .flags = CAY_DNS_RECURSE, .questions = 1, .extras = 1};
    char host[CAY_HOST_SIZE];
    if (!cay_host_read(name, strlen(name), host) ||
        cap < CAY_DNS_HEAD + CAY_DNS_QUESTION + CAY_DNS_OPT_LEN)
        return 0;
    cay_dns_put_head(&o, &head);
    for (const char *label = host; *label;) {
        size_t len = strcspn(label, ".");
        uint8_t byte = (uint8_t)len;
        cay_dns_put(&o, &byte, 1);
        cay_dns_put(&o, label, len);
        label += len + (label[len] == '.');
    }
    cay_dns_put(&o, "", 1);
    cay_dns_put16(&o, type);
    cay_dns_put16(&o, CAY_DNS_IN);
    put_opt(&o);
    return o.len;
}
