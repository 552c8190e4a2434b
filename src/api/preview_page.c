/* SPDX-License-Identifier: Apache-2.0 */
/* What people see instead of a preview. Everything on it is ours: nothing of the request is
 * repeated. */
#include "api/dialect.h"
#include "api/preview.h"
#include <string.h>

static const struct {
    const char *name, *title, *hint;
} pages[] = {
    {"NOTHING_LISTENS", "Nothing listens here yet",
     "The sandbox runs, but no service listens on this port. Start one, and load this page again."},
    {"NO_ANSWER", "The service went away", "It ended the connection without an answer."},
    {"BAD_ANSWER", "The service cannot be understood",
     "What it answered is no HTTP that can be passed on."},
    {"PORT_NOT_EXPOSED", "This port is not exposed",
     "Whoever has the sandbox can expose it: POST /api/v1/sandbox/ID/ports."},
    {"SANDBOX_NOT_RUNNING", "The sandbox does not run",
     "It is stopped or paused. Start it, and load this page again."},
    {"PREVIEW_IS_PRIVATE", "This preview is private",
     "Ask whoever has the sandbox for a link to it."},
    {"BAD_LINK", "This link does not open the preview",
     "It is for another one, or its time is over. Ask for a new one."},
    {"NO_PREVIEW", "No such preview", "The name leads to no port of a sandbox."},
};

static void add_escaped(struct cay_buf *out, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            cay_buf_addf(out, "&#%d;", *text);
        else
            cay_buf_addc(out, *text);
}

/* What a sandbox's service does wrong is nothing for the server's log. */
static void answer_json(const struct cay_error *err, int status, struct cay_resp *resp)
{
    struct cay_json_writer *w = cay_resp_json(resp, status);
    cay_jw_object(w, NULL);
    cay_api_shape_error(w, err);
    cay_jw_str(w, "detail", err->msg);
    cay_jw_object_end(w);
}

void cay_preview_error(const struct cay_req *req, const struct cay_error *err,
                       struct cay_resp *resp)
{
    CAY_AUTO_BUF struct cay_buf page = {0};
    const char *title = "This preview cannot be shown", *hint = err->msg;
    int status = cay_api_status(err);
    if (err->code == CAY_ERR_UNAUTHORIZED)
        cay_resp_header(resp, "WWW-Authenticate", "Bearer");
    if (!cay_req_accepts(req, "text/html")) {
        answer_json(err, status, resp);
        return;
    }
    for (size_t i = 0; i < CAY_COUNT(pages); i++)
        if (strcmp(pages[i].name, cay_error_name(err)) == 0) {
            title = pages[i].title;
            hint = pages[i].hint;
        }
    cay_buf_addf(&page,
                 "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
                 "<meta name=\"viewport\" content=\"width=device-width\"><title>%s</title>"
                 "<style>body{font:16px/1.5 sans-serif;max-width:34em;margin:15vh auto;padding:0 "
                 "1em;color:#222}code{color:#777}</style><h1>%s</h1><p>",
                 title, title);
    add_escaped(&page, hint);
    cay_buf_addf(&page, "</p><p><code>%d %s</code></p></html>\n", status, cay_error_name(err));
    cay_resp_text(resp, status, "text/html; charset=utf-8", page.data, page.len);
    cay_resp_header(resp, "Cache-Control", "no-store");
    cay_resp_header(resp, "Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'");
}
