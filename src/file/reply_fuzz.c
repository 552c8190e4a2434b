/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may say in cay-file's place. */
#include "file/proto.h"
#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_file_request rq = {.op = size ? 1 + data[0] % (CAY_FILE_OPS - 1) : CAY_FILE_READ};
    struct cay_file_reply reply;
    struct cay_file_item item;
    struct cay_file_news news;
    char etag[CAY_FILE_ETAG_SIZE];
    const char *at = (const char *)data + (size > 0), *end = (const char *)data + size;
    if (cay_file_reply_parse(at, (size_t)(end - at), &rq, &reply)) {
        assert(reply.code < CAY_FILE_CODES && memchr(reply.detail, 0, sizeof reply.detail));
        cay_file_etag(&reply.info, etag);
        assert(strlen(etag) < sizeof etag);
    }
    const char *here = at;
    for (size_t left = (size_t)(end - at); cay_file_entry_next(&here, &left, &item) == 0;)
        assert(item.path >= at && item.link + item.link_len == here && here + left == end);
    here = at;
    for (size_t left = (size_t)(end - at); cay_file_event_next(&here, &left, &news) == 0;)
        assert(news.path >= at && news.to + news.to_len == here && news.kind < CAY_FILE_EVENTS);
    return 0;
}
