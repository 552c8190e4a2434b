/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a command begins with: each is in place before the next is looked at. They come on
 * stdin as struct cay_file_put, path, bytes; the request's count says how many, so that a sender
 * that vanishes between two is noticed too. */
#include "file/file.h"
#include <errno.h>

static enum cay_file_code early(void)
{
    return errno ? cay_file_code(errno) : CAY_FILE_INCOMPLETE;
}

static enum cay_file_code copy(struct cay_draft *d, uint64_t left)
{
    static char buf[CAY_FILE_CHUNK];
    while (left > 0) {
        size_t len = left < sizeof buf ? (size_t)left : sizeof buf;
        if (!cay_file_get(STDIN_FILENO, buf, len))
            return early();
        enum cay_file_code code = cay_draft_add(d, buf, len);
        if (code != CAY_FILE_OK)
            return code;
        left -= len;
    }
    return CAY_FILE_OK;
}

static enum cay_file_code put_one(struct cay_file_request rq, struct cay_file_reply *reply)
{
    CAY_AUTO_DRAFT struct cay_draft draft = {.fd = -1, .place.dir_fd = -1};
    char path[CAY_MAX_PATH + 1] = "";
    struct cay_file_put head;
    if (!cay_file_get(STDIN_FILENO, &head, sizeof head))
        return early();
    if (head.path_len < 1 || head.path_len > CAY_MAX_PATH)
        return CAY_FILE_BAD_REQUEST;
    if (!cay_file_get(STDIN_FILENO, path, head.path_len))
        return early();
    rq.size = head.len;
    enum cay_file_code code = cay_draft_begin(&rq, path, &draft);
    if (code == CAY_FILE_OK)
        code = copy(&draft, head.len);
    if (code == CAY_FILE_OK)
        code = cay_draft_finish(&rq, &draft, reply);
    return code;
}

enum cay_file_code cay_file_put_all(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    enum cay_file_code code = CAY_FILE_OK;
    if (rq->count > CAY_FILE_FORM_FILES)
        return CAY_FILE_TOO_MANY;
    while (code == CAY_FILE_OK && reply->count < rq->count) {
        reply->count++; /* also of one that fails: it is the last, and known by this */
        code = put_one(*rq, reply);
    }
    return code;
}
