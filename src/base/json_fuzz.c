/* SPDX-License-Identifier: Apache-2.0 */
/* What is read and written again must be read as the same. */
#include "base/json.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_value(struct cay_json_writer *w, const struct cay_json *v)
{
    switch (v->kind) {
    case CAY_JSON_NULL:
        cay_jw_null(w, v->key);
        break;
    case CAY_JSON_BOOL:
        cay_jw_bool(w, v->key, v->truth);
        break;
    case CAY_JSON_NUMBER:
        cay_jw_raw(w, v->key, v->text, v->len);
        break;
    case CAY_JSON_STRING:
        cay_jw_strn(w, v->key, v->text, v->len);
        break;
    case CAY_JSON_ARRAY:
    case CAY_JSON_OBJECT:
        v->kind == CAY_JSON_ARRAY ? cay_jw_array(w, v->key) : cay_jw_object(w, v->key);
        for (const struct cay_json *c = v->first; c; c = c->next)
            write_value(w, c);
        v->kind == CAY_JSON_ARRAY ? cay_jw_array_end(w) : cay_jw_object_end(w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf once = {0}, twice = {0};
    struct cay_json_writer w1 = {.buf = &once}, w2 = {.buf = &twice};
    struct cay_error err;
    const struct cay_json *v;
    int64_t whole;
    double real;

    if (cay_json_parse(&a, (const char *)data, size, &v, &err) < 0)
        return 0;
    (void)cay_json_int(v, &whole);
    (void)cay_json_real(v, &real);
    write_value(&w1, v);
    if (cay_json_parse(&a, once.data, once.len, &v, &err) < 0)
        abort();
    write_value(&w2, v);
    if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
        abort();
    return 0;
}
