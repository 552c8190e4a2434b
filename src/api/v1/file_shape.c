/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a file, wherever it is told. */
#include "api/v1/file.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void cay_v1_file_path(struct cay_json_writer *w, const char *key, const char *path, size_t len)
{
    char name[32], text[4 * ((CAY_MAX_PATH * 2 + 4) / 3) + 1];
    cay_jw_strn(w, key, path, len);
    if (cay_str_is_utf8(path, len) || len > 2 * CAY_MAX_PATH)
        return;
    (void)snprintf(name, sizeof name, "%sBase64", key);
    cay_jw_strn(w, name, text, cay_str_base64(path, len, text));
}

static const char *type_of(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "directory";
    case S_IFLNK:
        return "symlink";
    case S_IFIFO:
        return "fifo";
    case S_IFSOCK:
        return "socket";
    default:
        return "device";
    }
}

void cay_v1_file_info(struct cay_json_writer *w, const struct cay_file_info *info)
{
    char mode[8], etag[CAY_FILE_ETAG_SIZE];
    (void)snprintf(mode, sizeof mode, "%04o", info->mode & 07777);
    cay_file_etag(info, etag);
    cay_jw_str(w, "type", type_of(info->mode));
    cay_jw_int(w, "size", (int64_t)info->size);
    cay_jw_str(w, "mode", mode);
    cay_jw_int(w, "uid", info->uid);
    cay_jw_int(w, "gid", info->gid);
    cay_jw_time(w, "mtime", info->mtime_ns / 1000000);
    cay_jw_str(w, "etag", etag);
}

const char *cay_v1_file_hex(const uint8_t sha256[32], char out[65])
{
    for (int i = 0; i < 32; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", sha256[i]);
    return out;
}

void cay_v1_file_hash(struct cay_json_writer *w, const struct cay_file_reply *reply)
{
    char hex[65];
    if (reply->flags & CAY_FILE_HAS_SHA256)
        cay_jw_str(w, "sha256", cay_v1_file_hex(reply->sha256, hex));
}
