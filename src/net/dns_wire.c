/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dns_wire.h"
#include <assert.h>
#include <string.h>

bool cay_dns_take16(struct cay_dns_view *v, uint16_t *out)
{
    if (v->len - v->at < 2)
        return false;
    *out = (uint16_t)(v->bytes[v->at] << 8 | v->bytes[v->at + 1]);
    v->at += 2;
    return true;
}

bool cay_dns_take32(struct cay_dns_view *v, uint32_t *out)
{
    uint16_t high, low;
    if (!cay_dns_take16(v, &high) || !cay_dns_take16(v, &low))
        return false;
    *out = (uint32_t)high << 16 | low;
    return true;
}

bool cay_dns_take_head(struct cay_dns_view *v, struct cay_dns_head *out)
{
    return cay_dns_take16(v, &out->id) && cay_dns_take16(v, &out->flags) &&
           cay_dns_take16(v, &out->questions) && cay_dns_take16(v, &out->answers) &&
           cay_dns_take16(v, &out->authorities) && cay_dns_take16(v, &out->extras);
}

static char plain(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    bool host = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    return host ? (char)c : '!';
}

/* One label behind what is there; the whole stays within 253 bytes. */
static bool add_label(const uint8_t *label, size_t len, char *out, size_t *len_out)
{
    size_t dot = *len_out > 0;
    if (*len_out + dot + len > 253)
        return false;
    if (dot)
        out[(*len_out)++] = '.';
    for (size_t i = 0; i < len; i++)
        out[(*len_out)++] = plain(label[i]);
    return true;
}

/* A pointer leads to what stands before the name that has it, so each leads further back and none
 * can go round in a circle. */
bool cay_dns_take_name(struct cay_dns_view *v, bool compressed, char out[CAY_DNS_NAME_SIZE])
{
    size_t at = v->at, before = v->at, len = 0, end = 0;
    for (;;) {
        if (at >= v->len)
            return false;
        uint8_t byte = v->bytes[at++];
        if (byte == 0)
            break;
        if (byte < 64) {
            if (v->len - at < byte || !add_label(v->bytes + at, byte, out, &len))
                return false;
            at += byte;
            continue;
        }
        if (byte < 0xc0 || !compressed || at >= v->len)
            return false;
        size_t to = (size_t)(byte & 0x3f) << 8 | v->bytes[at++];
        if (end == 0)
            end = at;
        if (to < CAY_DNS_HEAD || to >= before)
            return false;
        at = before = to;
    }
    out[len] = '\0';
    v->at = end ? end : at;
    return true;
}

bool cay_dns_take_record(struct cay_dns_view *v, struct cay_dns_record *out)
{
    uint16_t size;
    if (!cay_dns_take_name(v, true, out->name) || !cay_dns_take16(v, &out->type) ||
        !cay_dns_take16(v, &out->class) || !cay_dns_take32(v, &out->ttl_s) ||
        !cay_dns_take16(v, &size) || v->len - v->at < size)
        return false;
    out->data = (struct cay_dns_view){v->bytes, v->at + size, v->at};
    v->at += size;
    return true;
}

void cay_dns_put(struct cay_dns_out *o, const void *data, size_t len)
{
    assert(len <= o->cap - o->len);
    memcpy(o->bytes + o->len, data, len);
    o->len += len;
}

void cay_dns_put16(struct cay_dns_out *o, uint16_t value)
{
    uint8_t bytes[] = {(uint8_t)(value >> 8), (uint8_t)value};
    cay_dns_put(o, bytes, sizeof bytes);
}

void cay_dns_put32(struct cay_dns_out *o, uint32_t value)
{
    cay_dns_put16(o, (uint16_t)(value >> 16));
    cay_dns_put16(o, (uint16_t)value);
}

void cay_dns_put_head(struct cay_dns_out *o, const struct cay_dns_head *head)
{
    cay_dns_put16(o, head->id);
    cay_dns_put16(o, head->flags);
    cay_dns_put16(o, head->questions);
    cay_dns_put16(o, head->answers);
    cay_dns_put16(o, head->authorities);
    cay_dns_put16(o, head->extras);
}
