/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what cay-file says. It runs in the sandbox, so every byte may be the tenant's. */
#include "file/proto.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool info_is_sound(const struct cay_file_info *info)
{
    return info->size <= INT64_MAX && info->mode <= 0177777 && info->uid <= 65535 &&
           info->gid <= 65535;
}

bool cay_file_reply_parse(const void *data, size_t len, const struct cay_file_request *rq,
                          struct cay_file_reply *out)
{
    struct cay_file_reply reply;
    if (len < sizeof reply)
        return false;
    memcpy(&reply, data, sizeof reply);
    reply.detail[sizeof reply.detail - 1] = 0;
    if (reply.version != CAY_FILE_VERSION || reply.code >= CAY_FILE_CODES || reply.error < 0 ||
        reply.error > 4095 || !info_is_sound(&reply.info) || !info_is_sound(&reply.target) ||
        reply.bytes > INT64_MAX)
        return false;
    bool sized = reply.length != CAY_FILE_UNKNOWN;
    if (rq->op == CAY_FILE_READ && reply.code == CAY_FILE_OK &&
        (reply.offset > INT64_MAX ||
         (sized && (reply.length > INT64_MAX || reply.offset + reply.length > reply.info.size))))
        return false;
    if (rq->op == CAY_FILE_STAT && reply.length > CAY_MAX_PATH)
        return false;
    if (rq->op == CAY_FILE_LIST && reply.count > CAY_FILE_PAGE)
        return false;
    if (rq->op == CAY_FILE_FORM && reply.count > CAY_FILE_FORM_FILES)
        return false;
    if (rq->op == CAY_FILE_PUT && reply.count > rq->count)
        return false;
    if (rq->op == CAY_FILE_PROCESSES &&
        reply.count > CAY_FILE_PAGE_BYTES / sizeof(struct cay_file_process) + 1)
        return false;
    *out = reply;
    return true;
}

int cay_file_entry_next(const char **at, size_t *len, struct cay_file_item *out)
{
    struct cay_file_entry e;
    if (*len < sizeof e)
        return 1;
    memcpy(&e, *at, sizeof e);
    if (!info_is_sound(&e.info) || e.path_len == 0 || e.path_len > CAY_MAX_PATH ||
        e.link_len > CAY_MAX_PATH)
        return -1;
    size_t whole = sizeof e + e.path_len + e.link_len;
    if (*len < whole)
        return 1;
    *out = (struct cay_file_item){.info = e.info,
                                  .path = *at + sizeof e,
                                  .link = *at + sizeof e + e.path_len,
                                  .path_len = e.path_len,
                                  .link_len = e.link_len};
    *at += whole;
    *len -= whole;
    return memchr(out->path, 0, out->path_len) || memchr(out->link, 0, out->link_len) ? -1 : 0;
}

int cay_file_event_next(const char **at, size_t *len, struct cay_file_news *out)
{
    struct cay_file_event e;
    if (*len < sizeof e)
        return 1;
    memcpy(&e, *at, sizeof e);
    if (e.kind == 0 || e.kind >= CAY_FILE_EVENTS || e.path_len > CAY_MAX_PATH ||
        e.to_len > CAY_MAX_PATH)
        return -1;
    size_t whole = sizeof e + e.path_len + e.to_len;
    if (*len < whole)
        return 1;
    *out = (struct cay_file_news){.kind = (enum cay_file_event_kind)e.kind,
                                  .is_dir = e.is_dir != 0,
                                  .path = *at + sizeof e,
                                  .to = *at + sizeof e + e.path_len,
                                  .path_len = e.path_len,
                                  .to_len = e.to_len};
    *at += whole;
    *len -= whole;
    return memchr(out->path, 0, out->path_len) || memchr(out->to, 0, out->to_len) ? -1 : 0;
}

static bool is_plain(const char *path, size_t len)
{
    for (size_t at = 0; at <= len;) {
        const char *part = path + at, *slash = memchr(part, '/', len - at);
        size_t n = slash ? (size_t)(slash - part) : len - at;
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && memcmp(part, "..", 2) == 0) ||
            (n == 4 && memcmp(part, ".git", 4) == 0))
            return false;
        at += n + 1;
    }
    return !memchr(path, 0, len);
}

int cay_file_seen_next(const char **at, size_t *len, struct cay_file_seen *out, const char **path)
{
    struct cay_file_seen s;
    if (*len < sizeof s)
        return 1;
    memcpy(&s, *at, sizeof s);
    if (s.whole)
        return 2;
    bool known = S_ISREG(s.mode) || S_ISLNK(s.mode);
    if (s.path_len == 0 || s.path_len > CAY_MAX_PATH || s.size > INT64_MAX || !known)
        return -1;
    if (*len < sizeof s + s.path_len)
        return 1;
    *out = s;
    *path = *at + sizeof s;
    *at += sizeof s + s.path_len;
    *len -= sizeof s + s.path_len;
    return is_plain(*path, s.path_len) ? 0 : -1;
}

int cay_file_process_next(const char **at, size_t *len, struct cay_file_task *out)
{
    struct cay_file_process p;
    if (*len < sizeof p)
        return 1;
    memcpy(&p, *at, sizeof p);
    p.execution[sizeof p.execution - 1] = 0;
    if (p.cpu_ms > INT64_MAX || p.memory_bytes > INT64_MAX || p.state < 'A' || p.state > 'z')
        return -1;
    size_t whole = sizeof p + p.user_len + p.command_len;
    if (*len < whole)
        return 1;
    *out = (struct cay_file_task){
        .info = p, .user = *at + sizeof p, .command = *at + sizeof p + p.user_len};
    *at += whole;
    *len -= whole;
    return 0;
}

void cay_file_etag(const struct cay_file_info *info, char out[CAY_FILE_ETAG_SIZE])
{
    (void)snprintf(out, CAY_FILE_ETAG_SIZE, "\"%llx-%llx-%llx\"", (unsigned long long)info->size,
                   (unsigned long long)info->mtime_ns, (unsigned long long)info->inode);
}
