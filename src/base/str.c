/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include <string.h>

#define HIGH_BITS 0x8080808080808080ULL

bool cay_str_u64(const char *s, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (*s == 0 || (s[0] == '0' && s[1] != 0))
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        uint64_t digit = (uint64_t)(*s - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (value > max)
        return false;
    *out = value;
    return true;
}

bool cay_str_i64(const char *s, int64_t *out)
{
    uint64_t value;
    bool negative = *s == '-';
    if (!cay_str_u64(s + negative, (uint64_t)INT64_MAX + negative, &value))
        return false;
    if (negative && value == 0)
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* The bytes that may follow a lead byte: overlong forms, surrogates and what lies behind U+10FFFF
 * are kept out by the bounds of the second byte. */
static int sequence(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        *low = lead == 0xE0 ? 0xA0 : 0x80;
        *high = lead == 0xED ? 0x9F : 0xBF;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        *low = lead == 0xF0 ? 0x90 : 0x80;
        *high = lead == 0xF4 ? 0x8F : 0xBF;
        return 4;
    }
    return -1;
}

int cay_str_utf8_step(const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned char low, high;
    if (len == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    int want = sequence(p[0], &low, &high);
    for (int i = 1; i < want; i++) {
        if ((size_t)i >= len)
            return 0;
        if (p[i] < low || p[i] > high)
            return -1;
        low = 0x80;
        high = 0xBF;
    }
    return want;
}

bool cay_str_is_utf8(const char *s, size_t len)
{
    size_t at = 0;
    while (at < len) {
        uint64_t eight;
        if (len - at >= sizeof eight) {
            memcpy(&eight, s + at, sizeof eight);
            if (!(eight & HIGH_BITS)) {
                at += sizeof eight;
                continue;
            }
        }
        int step = cay_str_utf8_step(s + at, len - at);
        if (step <= 0)
            return false;
        at += (size_t)step;
    }
    return true;
}

size_t cay_str_utf8_whole(const char *s, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char)s[len - back];
        if (c < 0x80)
            return len;
        if (c >= 0xC0) /* the lead of the last character: is it all there? */
            return cay_str_utf8_step(s + len - back, back) == 0 ? len - back : len;
    }
    return len;
}

size_t cay_str_base64(const void *data, size_t len, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = data;
    char *at = out;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t bits = (uint32_t)in[i] << 16;
        bits |= left > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        bits |= left > 2 ? in[i + 2] : 0;
        *at++ = digits[bits >> 18];
        *at++ = digits[bits >> 12 & 63];
        *at++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[bits & 63] : '=';
    }
    *at = 0;
    return (size_t)(at - out);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int base64_value(char c)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(letters, c) : NULL;
    return at ? (int)(at - letters) : -1;
}

bool cay_str_unbase64_data(struct cay_arena *a, const char *s, const char **out, size_t *len_out)
{
    size_t len = strlen(s), pad = 0, n = 0;
    while (pad < 2 && pad < len && s[len - 1 - pad] == '=')
        pad++;
    char *text = cay_arena_alloc(a, len / 4 * 3 + 1);
    if (len % 4)
        return false;
    for (size_t i = 0; i < len; i += 4) {
        uint32_t group = 0;
        for (size_t k = 0; k < 4; k++) {
            int value = i + k >= len - pad ? 0 : base64_value(s[i + k]);
            if (value < 0)
                return false;
            group = group << 6 | (uint32_t)value;
        }
        for (int shift = 16; shift >= 0; shift -= 8)
            text[n++] = (char)(group >> shift);
    }
    n -= pad;
    text[n] = 0;
    *out = text;
    *len_out = n;
    return true;
}

bool cay_str_unbase64(struct cay_arena *a, const char *s, const char **out)
{
    const char *text;
    size_t len;
    if (!cay_str_unbase64_data(a, s, &text, &len) || strlen(text) != len)
        return false;
    *out = text;
    return true;
}

bool cay_str_percent(struct cay_arena *a, const char *s, size_t len, const char **out)
{
    char *text = cay_arena_strndup(a, s, len), *at = text;
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)s[i];
        if (c == '%') {
            int high = len - i > 2 ? hex_digit(s[i + 1]) : -1;
            int low = len - i > 2 ? hex_digit(s[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = high << 4 | low;
            i += 2;
        }
        if (c == 0)
            return false;
        *at++ = (char)c;
    }
    *at = 0;
    *out = text;
    return true;
}

void cay_str_copy(char *dst, size_t size, const char *src)
{
    if (size == 0)
        return;
    size_t len = strnlen(src, size - 1);
    memmove(dst, src, len);
    dst[len] = 0;
}

bool cay_str_has_line(const char *text, const char *start)
{
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, start, strlen(start)) == 0)
            return true;
    }
    return false;
}

bool cay_str_ends(const char *s, const char *suffix)
{
    size_t len = strlen(s), tail = strlen(suffix);
    return len >= tail && memcmp(s + len - tail, suffix, tail) == 0;
}

struct cay_strs cay_strs_room(struct cay_arena *a, size_t cap)
{
    struct cay_strs list = {.cap = cap};
    if (cap > SIZE_MAX / sizeof *list.at)
        abort();
    if (cap > 0)
        list.at = cay_arena_alloc(a, cap * sizeof *list.at);
    return list;
}

struct cay_pairs cay_pairs_room(struct cay_arena *a, size_t cap)
{
    struct cay_pairs map = {.cap = cap};
    if (cap > SIZE_MAX / sizeof *map.at)
        abort();
    if (cap > 0)
        map.at = cay_arena_alloc(a, cap * sizeof *map.at);
    return map;
}

struct cay_strs cay_strs_dup(struct cay_arena *a, const struct cay_strs *from)
{
    struct cay_strs list = cay_strs_room(a, from->count);
    for (; list.count < from->count; list.count++)
        list.at[list.count] = cay_arena_strdup(a, from->at[list.count]);
    return list;
}

struct cay_pairs cay_pairs_dup(struct cay_arena *a, const struct cay_pairs *from)
{
    struct cay_pairs map = cay_pairs_room(a, from->count);
    for (; map.count < from->count; map.count++) {
        const struct cay_pair *pair = &from->at[map.count];
        map.at[map.count].key = cay_arena_strdup(a, pair->key);
        map.at[map.count].value = cay_arena_strdup(a, pair->value);
    }
    return map;
}

void cay_strs_push(struct cay_arena *a, struct cay_strs *list, const char *s)
{
    if (list->count >= list->cap) {
        struct cay_strs more = cay_strs_room(a, list->count < 4 ? 8 : 2 * list->count);
        if (list->count > 0)
            memcpy(more.at, list->at, list->count * sizeof *list->at);
        list->at = more.at;
        list->cap = more.cap;
    }
    list->at[list->count++] = s;
}

void cay_pairs_push(struct cay_arena *a, struct cay_pairs *map, const char *key, const char *value)
{
    if (map->count >= map->cap) {
        struct cay_pairs more = cay_pairs_room(a, map->count < 4 ? 8 : 2 * map->count);
        if (map->count > 0)
            memcpy(more.at, map->at, map->count * sizeof *map->at);
        map->at = more.at;
        map->cap = more.cap;
    }
    map->at[map->count++] = (struct cay_pair){key, value};
}

static struct cay_pair *find(const struct cay_pairs *map, const char *key)
{
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(map->at[i].key, key) == 0)
            return &map->at[i];
    return NULL;
}

void cay_pairs_set(struct cay_arena *a, struct cay_pairs *map, const char *key, const char *value)
{
    struct cay_pair *pair = find(map, key);
    if (pair)
        pair->value = value;
    else
        cay_pairs_push(a, map, key, value);
}

const char *cay_pairs_get(const struct cay_pairs *map, const char *key)
{
    const struct cay_pair *pair = find(map, key);
    return pair ? pair->value : NULL;
}
