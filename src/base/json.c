/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON. Recursion is bounded by the depth, memory by the number of values. */
#include "base/json.h"
#include "base/str.h"
#include "model/limits.h"
#include <math.h>
#include <string.h>

#define FEW_KEYS 48 /* up to here each key is compared with all before it */

struct reader {
    struct cay_arena *arena;
    const char *start, *at, *end;
    unsigned depth;
    long long values;
    struct cay_error *err;
};

static int parse_value(struct reader *r, struct cay_json *out);

static int broken(struct reader *r, const char *why)
{
    return cay_fail_as(r->err, CAY_ERR_INVALID, "INVALID_JSON", "invalid JSON at byte %zu: %s",
                       (size_t)(r->at - r->start), why);
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

static bool peek_is(struct reader *r, char c)
{
    return r->at < r->end && *r->at == c;
}

static bool take(struct reader *r, char c)
{
    if (!peek_is(r, c))
        return false;
    r->at++;
    return true;
}

static bool take_word(struct reader *r, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return false;
    r->at += len;
    return true;
}

static bool hex4(const char *s, const char *end, unsigned *out)
{
    unsigned value = 0;
    if (end - s < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = s[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return false;
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xC0 | c >> 6);
        *to++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *to++ = (char)(0xE0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    } else {
        *to++ = (char)(0xF0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 63));
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    }
    return to;
}

/* \uXXXX with at on the first digit; a pair of surrogates is one character. */
static int parse_unicode(struct reader *r, char **to)
{
    unsigned c, low;
    if (!hex4(r->at, r->end, &c))
        return broken(r, "a broken \\u escape");
    if (c == 0)
        return broken(r, "NUL in a string");
    r->at += 4;
    if (c >= 0xD800 && c <= 0xDFFF) {
        if (c > 0xDBFF || !take_word(r, "\\u") || !hex4(r->at, r->end, &low) || low < 0xDC00 ||
            low > 0xDFFF)
            return broken(r, "a lone surrogate");
        r->at += 4;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    *to = put_utf8(*to, c);
    return 0;
}

static int parse_escape(struct reader *r, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (take(r, 'u'))
        return parse_unicode(r, to);
    const char *known = r->at < r->end && *r->at ? strchr(from, *r->at) : NULL;
    if (!known)
        return broken(r, "an unknown escape");
    *(*to)++ = into[known - from];
    r->at++;
    return 0;
}

/* Where the string that begins at `at` ends: the quote that no backslash precedes. */
static const char *find_quote(struct reader *r)
{
    const char *p = r->at;
    while (p < r->end && *p != '"')
        p += *p == '\\' && r->end - p > 1 ? 2 : 1;
    return p < r->end ? p : NULL;
}

/* With at behind the opening quote. Decoding never makes a string longer. */
static int parse_string(struct reader *r, const char **text_out, size_t *len_out)
{
    const char *close = find_quote(r);
    if (!close)
        return broken(r, "a string without end");
    char *text = cay_arena_strndup(r->arena, r->at, (size_t)(close - r->at)), *to = text;
    while (r->at < close) {
        unsigned char c = (unsigned char)*r->at;
        if (c >= 0x20 && c < 0x80 && c != '\\') {
            *to++ = *r->at++;
        } else if (c == '\\') {
            r->at++;
            int e = parse_escape(r, &to);
            if (e < 0)
                return e;
        } else if (c < 0x20) {
            return broken(r, "a control character in a string");
        } else {
            int step = cay_str_utf8_step(r->at, (size_t)(close - r->at));
            if (step <= 0)
                return broken(r, "a string that is not UTF-8");
            memcpy(to, r->at, (size_t)step);
            to += step;
            r->at += step;
        }
    }
    *to = 0;
    r->at = close + 1;
    *text_out = text;
    *len_out = (size_t)(to - text);
    return 0;
}

static bool take_digits(struct reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return r->at > from;
}

static int parse_number(struct reader *r, struct cay_json *out)
{
    const char *from = r->at;
    (void)take(r, '-'); /* an optional sign */
    if (!take_word(r, "Infinity") && !(from == r->at && take_word(r, "NaN"))) {
        if (!take(r, '0') && !take_digits(r))
            return broken(r, "a value is missing");
        if (take(r, '.') && !take_digits(r))
            return broken(r, "a number without digits");
        if (take(r, 'e') || take(r, 'E')) {
            if (!take(r, '+'))
                (void)take(r, '-');
            if (!take_digits(r))
                return broken(r, "a number without digits");
        }
    }
    out->kind = CAY_JSON_NUMBER;
    out->len = (size_t)(r->at - from);
    out->text = cay_arena_strndup(r->arena, from, out->len);
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Large objects are checked once, when they are whole, by sorting. */
static int check_keys(struct reader *r, const struct cay_json *object)
{
    size_t n = 0;
    CAY_AUTO_FREE const char **keys = calloc(object->count, sizeof *keys);
    if (!keys)
        abort();
    for (const struct cay_json *v = object->first; v; v = v->next)
        keys[n++] = v->key;
    qsort(keys, n, sizeof *keys, by_key);
    for (size_t i = 1; i < n; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            return broken(r, "a key that occurs twice");
    return 0;
}

static int parse_key(struct reader *r, const struct cay_json *object, struct cay_json *out)
{
    size_t len;
    if (!take(r, '"'))
        return broken(r, "a key is missing");
    int e = parse_string(r, &out->key, &len);
    if (e < 0)
        return e;
    if (object->count < FEW_KEYS && cay_json_get(object, out->key))
        return broken(r, "a key that occurs twice");
    skip_blanks(r);
    if (!take(r, ':'))
        return broken(r, "a colon is missing");
    return 0;
}

/* Arrays and objects, with at behind the opening bracket. */
static int parse_members(struct reader *r, struct cay_json *out, char close)
{
    const struct cay_json **link = &out->first;
    skip_blanks(r);
    if (take(r, close))
        return 0;
    do {
        struct cay_json *v = cay_arena_alloc(r->arena, sizeof *v);
        skip_blanks(r);
        int e = out->kind == CAY_JSON_OBJECT ? parse_key(r, out, v) : 0;
        if (e == 0)
            e = parse_value(r, v);
        if (e < 0)
            return e;
        *link = v;
        link = (const struct cay_json **)&v->next;
        out->count++;
        skip_blanks(r);
    } while (take(r, ','));
    if (!take(r, close))
        return broken(r, "a comma or a closing bracket is missing");
    return out->kind == CAY_JSON_OBJECT && out->count > FEW_KEYS ? check_keys(r, out) : 0;
}

static int parse_nested(struct reader *r, struct cay_json *out)
{
    if (++r->depth > CAY_JSON_DEPTH)
        return broken(r, "nested too deep");
    out->kind = *r->at == '{' ? CAY_JSON_OBJECT : CAY_JSON_ARRAY;
    r->at++;
    int e = parse_members(r, out, out->kind == CAY_JSON_OBJECT ? '}' : ']');
    r->depth--;
    return e;
}

static int parse_value(struct reader *r, struct cay_json *out)
{
    skip_blanks(r);
    if (++r->values > CAY_JSON_VALUES)
        return broken(r, "too many values");
    if (peek_is(r, '{') || peek_is(r, '['))
        return parse_nested(r, out);
    if (take(r, '"')) {
        out->kind = CAY_JSON_STRING;
        return parse_string(r, &out->text, &out->len);
    }
    if (take_word(r, "null")) {
        out->kind = CAY_JSON_NULL;
        return 0;
    }
    if (take_word(r, "true") || take_word(r, "false")) {
        out->kind = CAY_JSON_BOOL;
        out->truth = r->at[-2] == 'u';
        return 0;
    }
    return parse_number(r, out);
}

int cay_json_parse(struct cay_arena *a, const char *text, size_t len, const struct cay_json **out,
                   struct cay_error *err)
{
    struct reader r = {a, text, text, text + len, 0, 0, err};
    struct cay_json *v = cay_arena_alloc(a, sizeof *v);
    int e = parse_value(&r, v);
    if (e < 0)
        return e;
    skip_blanks(&r);
    if (r.at < r.end)
        return broken(&r, "something follows the value");
    *out = v;
    return 0;
}

const struct cay_json *cay_json_get(const struct cay_json *object, const char *key)
{
    if (!object || object->kind != CAY_JSON_OBJECT)
        return NULL;
    for (const struct cay_json *v = object->first; v; v = v->next)
        if (v->key[0] == key[0] && strcmp(v->key, key) == 0) /* most differ at once */
            return v;
    return NULL;
}

const char *cay_json_get_str(const struct cay_json *object, const char *key, const char *otherwise)
{
    const struct cay_json *v = cay_json_get(object, key);
    return v && v->kind == CAY_JSON_STRING ? v->text : otherwise;
}

int64_t cay_json_get_int(const struct cay_json *object, const char *key, int64_t otherwise)
{
    int64_t value;
    return cay_json_int(cay_json_get(object, key), &value) ? value : otherwise;
}

bool cay_json_get_bool(const struct cay_json *object, const char *key, bool otherwise)
{
    const struct cay_json *v = cay_json_get(object, key);
    return v && v->kind == CAY_JSON_BOOL ? v->truth : otherwise;
}

/* The exponent behind the mantissa, held within what can still matter. */
static int64_t exponent(const char *s)
{
    int64_t value = 0;
    bool negative = *s == '-';
    if (*s == '-' || *s == '+')
        s++;
    for (; *s && value < INT32_MAX; s++)
        value = value * 10 + (*s - '0');
    return negative ? -value : value;
}

/* Digits and a power of ten; exact, where a double would round. */
bool cay_json_int(const struct cay_json *v, int64_t *out)
{
    if (!v || v->kind != CAY_JSON_NUMBER)
        return false;
    bool negative = v->text[0] == '-', point = false;
    uint64_t value = 0, most = (uint64_t)INT64_MAX + negative;
    int64_t zeros = 0, power = 0; /* zeros are those that wait for a digit behind them */
    const char *s = v->text + negative;
    if (*s == 'I' || *s == 'N')
        return false;
    for (; *s && *s != 'e' && *s != 'E'; s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        power -= point;
        zeros++;
        if (*s == '0')
            continue;
        for (; value > 0 && zeros > 0; zeros--)
            if (__builtin_mul_overflow(value, 10, &value))
                return false;
        zeros = 0;
        if (__builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
            return false;
    }
    if (value == 0) {
        *out = negative ? *out : 0;
        return !negative;
    }
    power += zeros + (*s ? exponent(s + 1) : 0);
    if (power < 0)
        return false;
    for (; power > 0; power--)
        if (__builtin_mul_overflow(value, 10, &value))
            return false;
    if (value > most)
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool cay_json_real(const struct cay_json *v, double *out)
{
    if (!v || v->kind != CAY_JSON_NUMBER)
        return false;
    double value = strtod(v->text, NULL);
    if (!isfinite(value) || (value == 0 && v->text[0] == '-'))
        return false;
    *out = value;
    return true;
}
