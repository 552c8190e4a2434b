/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a request: written with another header it is still the same request, and has that
 * header once. Any bytes as chunks and trailers: never more than there is. */
#include "net/request.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned count_lines(const char *head, size_t len, const char *name)
{
    unsigned count = 0;
    for (size_t i = 0; i + strlen(name) < len; i++)
        count += head[i] == '\n' && strncasecmp(head + i + 1, name, strlen(name)) == 0;
    return count;
}

static void write_again(const uint8_t *data, const struct cay_request *r)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    const struct cay_header_rule token = {.name = "Authorization", .value = "secret"};
    const struct cay_header_rule *add[] = {&token};
    struct cay_request again;
    cay_request_write(data, r, true, add, 1, &out);
    if (cay_request_read(out.data, out.len, true, &again) != CAY_REQUEST_WHOLE ||
        again.len != out.len || strcmp(again.host, r->host) != 0 || again.length != r->length ||
        again.chunked != r->chunked || again.connects != r->connects ||
        again.websocket != r->websocket || count_lines(out.data, out.len, "authorization:") != 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_request r;
    size_t len = 0;
    uint64_t chunk = 0;
    uint8_t *copy = malloc(size + 1); /* so that a byte behind is seen by the sanitizer */
    if (!copy || !size) {
        free(copy);
        return 0;
    }
    uint8_t *at = realloc(copy, size);
    if (!at)
        abort();
    memcpy(at, data, size);
    if (cay_request_read(at, size, false, &r) == CAY_REQUEST_WHOLE) {
        if (r.len == 0 || r.len > size || (r.chunked && r.length))
            abort();
        write_again(at, &r);
    }
    for (int first = 0; first < 2; first++)
        if (cay_request_chunk(at, size, first, &len, &chunk) == CAY_REQUEST_WHOLE &&
            (len == 0 || len > size || chunk >> 60))
            abort();
    if (cay_request_trailer(at, size, &len) == CAY_REQUEST_WHOLE && (len == 0 || len > size))
        abort();
    free(at);
    return 0;
}
