/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* U+0080 to U+009F are C2 80 to C2 9F: terminals obey some of them. */
static bool is_c1(const char *text, size_t left)
{
    return left > 1 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0;
}

void cay_output_clean(struct cay_buf *to, const char *text)
{
    size_t len = strlen(text);
    bool utf8 = cay_str_is_utf8(text, len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool c1 = is_c1(text + i, len - i);
        if (c1)
            i++;
        cay_buf_addc(to, c < 0x20 || c == 0x7f || c1 || (c >= 0x80 && !utf8) ? '?' : (char)c);
    }
}

const char *cay_output_size(struct cay_arena *a, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    while (bytes >= 1024 && u + 1 < CAY_COUNT(units)) {
        bytes /= 1024;
        u++;
    }
    return cay_arena_printf(a, "%.3g %s", bytes, units[u]);
}

const char *cay_output_duration(struct cay_arena *a, int64_t ms)
{
    int64_t s = ms / 1000;
    if (ms < 1000)
        return cay_arena_printf(a, "%" PRId64 "ms", ms);
    if (s < 60)
        return cay_arena_printf(a, "%" PRId64 "s", s);
    if (s < 3600)
        return cay_arena_printf(a, "%" PRId64 "m %" PRId64 "s", s / 60, s % 60);
    if (s < 86400)
        return cay_arena_printf(a, "%" PRId64 "h %" PRId64 "m", s / 3600, s / 60 % 60);
    return cay_arena_printf(a, "%" PRId64 "d %" PRId64 "h", s / 86400, s / 3600 % 24);
}

const char *cay_output_age(struct cay_arena *a, const char *iso, int64_t now_ms)
{
    struct tm tm = {0};
    const char *rest = strptime(iso, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest || (*rest != '.' && *rest != 'Z'))
        return "-";
    int64_t age_ms = now_ms - (int64_t)timegm(&tm) * 1000;
    return cay_output_duration(a, age_ms > 0 ? age_ms / 1000 * 1000 : 0);
}

const char *cay_output_value(const struct cay_json *v)
{
    if (!v)
        return "-";
    switch (v->kind) {
    case CAY_JSON_BOOL:
        return v->truth ? "true" : "false";
    case CAY_JSON_NUMBER:
    case CAY_JSON_STRING:
        return v->text;
    default:
        return "-";
    }
}

/* Below U+0020 JSON holds nothing but white space between its values. */
void cay_output_tame(struct cay_buf *to, const char *json, size_t len)
{
    bool utf8 = cay_str_is_utf8(json, len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)json[i];
        if (utf8 && is_c1(json + i, len - i))
            cay_buf_addf(to, "\\u%04x", (unsigned char)json[++i]);
        else if (c == 0x7f || (c < 0x20 && !memchr("\t\n\r", c, 3)))
            cay_buf_addf(to, "\\u%04x", c);
        else
            cay_buf_addc(to, c == '\r' ? ' ' : c >= 0x80 && !utf8 ? '?' : (char)c);
    }
}

bool cay_output_line(const char *json, size_t len)
{
    CAY_AUTO_BUF struct cay_buf tame = {0};
    if (isatty(STDOUT_FILENO)) {
        cay_output_tame(&tame, json, len);
        json = tame.data;
        len = tame.len;
    }
    bool ends = len > 0 && json[len - 1] == '\n';
    return (len == 0 || fwrite(json, 1, len, stdout) == len) && (ends || putchar('\n') != EOF);
}

void cay_output_json(const char *raw)
{
    (void)cay_output_line(raw, strlen(raw));
}

void cay_table_init(struct cay_table *t, struct cay_arena *a, const char *const *headings)
{
    *t = (struct cay_table){.arena = a, .human = isatty(STDOUT_FILENO)};
    for (; headings[t->columns]; t->columns++)
        cay_strs_push(a, &t->cells, headings[t->columns]);
}

void cay_table_add(struct cay_table *t, const char *cell)
{
    CAY_AUTO_BUF struct cay_buf clean = {0};
    cay_output_clean(&clean, *cell ? cell : "-");
    cay_strs_push(t->arena, &t->cells, cay_arena_strndup(t->arena, clean.data, clean.len));
}

/* Characters, not bytes: continuation bytes take no room. */
static size_t width(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static size_t column_width(const struct cay_table *t, size_t column)
{
    size_t widest = 0;
    for (size_t i = column; i < t->cells.count; i += t->columns) {
        size_t w = width(t->cells.at[i]);
        widest = w > widest ? w : widest;
    }
    return widest;
}

void cay_table_print(const struct cay_table *t, FILE *to)
{
    size_t widths[16] = {0};
    for (size_t c = 0; t->human && c < t->columns && c < CAY_COUNT(widths); c++)
        widths[c] = column_width(t, c);
    for (size_t i = t->human ? 0 : t->columns; i < t->cells.count; i++) {
        size_t c = i % t->columns;
        bool last = c + 1 == t->columns;
        fputs(t->cells.at[i], to);
        if (!last && !t->human)
            fputc('\t', to);
        for (size_t w = width(t->cells.at[i]); !last && t->human && w < widths[c % 16] + 2; w++)
            fputc(' ', to);
        if (last)
            fputc('\n', to);
    }
}
