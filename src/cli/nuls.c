/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/nuls.h"
#include <string.h>

#define ESCAPE 6 /* bytes of a control character in JSON, always */

/* Another escape in place of U+0000, and of U+0001. */
static void swap(struct cay_buf *out, const char *json, size_t len, const char *nul,
                 const char *one)
{
    for (size_t i = 0; i < len; i++) {
        bool is_nul = len - i >= ESCAPE && memcmp(json + i, "\\u0000", ESCAPE) == 0;
        bool is_one = len - i >= ESCAPE && memcmp(json + i, "\\u0001", ESCAPE) == 0;
        if (is_nul || is_one) {
            cay_buf_adds(out, is_nul ? nul : one);
            i += ESCAPE - 1;
            continue;
        }
        cay_buf_addc(out, json[i]);
        if (json[i] == '\\' && i + 1 < len) /* what is escaped begins no escape */
            cay_buf_addc(out, json[++i]);
    }
}

static bool has_nul(const char *json, size_t len)
{
    return len >= ESCAPE && memmem(json, len, "\\u0000", ESCAPE);
}

int cay_nuls_parse(struct cay_arena *a, const char *json, size_t len, const struct cay_json **out,
                   struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf masked = {0};
    if (!has_nul(json, len))
        return cay_json_parse(a, json, len, out, err);
    swap(&masked, json, len, "\\ufffd", "\\u0001");
    return cay_json_parse(a, masked.data, masked.len, out, err);
}

/* Both are told in pairs that begin with U+0001, so that they can be told apart again. */
int cay_nuls_parse_hidden(struct cay_arena *a, const char *json, size_t len,
                          const struct cay_json **out, bool *hidden_out, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf hidden = {0};
    *hidden_out = has_nul(json, len);
    if (!*hidden_out)
        return cay_json_parse(a, json, len, out, err);
    swap(&hidden, json, len, "\\u0001\\u0002", "\\u0001\\u0001");
    return cay_json_parse(a, hidden.data, hidden.len, out, err);
}

void cay_nuls_show(struct cay_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool pair = text[i] == 1 && i + 1 < len;
        cay_buf_addc(out, pair && text[i + 1] == 2 ? 0 : text[i]);
        i += pair ? 1 : 0;
    }
}
