/* SPDX-License-Identifier: Apache-2.0 */
/* What every route of /api/v1 shares: which form of an answer a client wants, and whether the
 * request came before. */
#include "api/v1/v1.h"
#include "base/sha256.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

enum cay_v1_form cay_v1_form_of(const struct cay_req *req)
{
    if (cay_req_accepts(req, "text/event-stream"))
        return CAY_V1_SSE;
    if (cay_req_accepts(req, "application/x-ndjson"))
        return CAY_V1_NDJSON;
    return CAY_V1_TEXT;
}

const char *cay_v1_form_type(enum cay_v1_form form)
{
    static const char *const types[] = {
        [CAY_V1_TEXT] = "text/plain; charset=utf-8",
        [CAY_V1_SSE] = "text/event-stream",
        [CAY_V1_NDJSON] = "application/x-ndjson",
    };
    return types[form];
}

int cay_v1_answer_stream(struct cay_resp *resp, const struct cay_execution *ex,
                         enum cay_v1_form form, struct cay_stream *stream)
{
    cay_resp_header(resp, "X-Execution-Id", ex->id);
    cay_resp_header(resp, "Cache-Control", "no-cache");
    cay_resp_header(resp, "X-Accel-Buffering", "no"); /* proxies that would hold back events */
    return cay_resp_stream(resp, 200, cay_v1_form_type(form), stream);
}

/* Two requests are the same when method, path, query and body are, byte for byte. The key, which is
 * kept nowhere, goes in as well: nobody can try out secrets of the body on what is kept. */
static void fingerprint(const struct cay_req *req, const char *key, char out[CAY_FINGERPRINT_SIZE])
{
    const char *const parts[] = {key, req->method, req->path, req->query};
    struct cay_sha256 s;
    uint8_t sum[32];
    cay_sha256_init(&s);
    for (size_t i = 0; i < CAY_COUNT(parts); i++)
        cay_sha256_add(&s, parts[i], strlen(parts[i]) + 1);
    if (req->body_len > 0)
        cay_sha256_add(&s, req->body, req->body_len);
    cay_sha256_done(&s, sum);
    for (size_t i = 0; i + 1 < CAY_FINGERPRINT_SIZE; i += 2)
        (void)snprintf(out + i, 3, "%02x", sum[i / 2]); /* two digits */
}

int cay_v1_once(struct cay_req *req, const char *key, const struct cay_once **out,
                struct cay_error *err)
{
    static const char name[] = "Idempotency-Key";
    const char *header = cay_req_header(req, "idempotency-key");
    *out = NULL;
    if (header)
        key = header;
    if (!key)
        return 0;
    size_t len = strlen(key);
    for (size_t i = 0; i < len; i++)
        if (key[i] < 0x20 || key[i] > 0x7e)
            return cay_fail_field(err, name, "%s must be printable ASCII", name);
    if (len == 0 || len > CAY_MAX_IDEMPOTENCY_KEY)
        return cay_fail_field(err, name, "%s must have 1 to %d characters", name,
                              CAY_MAX_IDEMPOTENCY_KEY);
    struct cay_once *once = cay_arena_alloc(req->arena, sizeof *once);
    once->key = key;
    fingerprint(req, key, once->fingerprint);
    *out = once;
    return 0;
}

bool cay_v1_answered(struct cay_resp *resp, int status, const struct cay_sandbox *made)
{
    const char *text = made->first_answer;
    if (!text)
        return false;
    cay_resp_header(resp, "Idempotent-Replayed", "true");
    cay_resp_text(resp, status, "application/json", text, strlen(text));
    return true;
}

void cay_v1_keep_answer(struct cay_req *req, const struct cay_resp *resp,
                        const struct cay_sandbox *made)
{
    cay_core_answered(req->core, made,
                      cay_arena_strndup(req->arena, resp->body.data, resp->body.len));
}
