/* SPDX-License-Identifier: Apache-2.0 */
#include "api/docs.h"
#include "api/docs_html.h" /* made by tools/embed.py */
#include "base/sha256.h"
#include <stdio.h>
#include <string.h>

/* What stands between two tags of the page, as a policy names it. */
static void put_hash(char out[64], const char *open, const char *close)
{
    const char *begin = strstr(cay_docs_html, open), *end = strstr(cay_docs_html, close);
    struct cay_sha256 s;
    uint8_t sum[32];
    cay_sha256_init(&s);
    if (begin && end)
        cay_sha256_add(&s, begin + strlen(open), (size_t)(end - begin) - strlen(open));
    cay_sha256_done(&s, sum);
    out[cay_str_base64((const char *)sum, sizeof sum, out)] = 0;
}

int cay_docs_page(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    char script[64], style[64], policy[400];
    (void)req, (void)err;
    put_hash(script, "<script>", "</script>");
    put_hash(style, "<style>", "</style>");
    (void)snprintf(policy, sizeof policy,
                   "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; "
                   "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                   "frame-ancestors 'none'",
                   script, style); /* it fits */
    cay_resp_header(resp, "Content-Security-Policy", policy);
    cay_resp_header(resp, "Cache-Control", "no-cache");
    cay_resp_text(resp, 200, "text/html; charset=utf-8", cay_docs_html, sizeof cay_docs_html - 1);
    return 0;
}
