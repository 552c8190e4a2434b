/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of files, for the routes of /api/v1 that do. */
#pragma once
#include "api/file.h"
#include "api/v1/v1.h"

/* A path that may be no text: then `key` has what can be shown of it, keyBase64 all. */
void cay_v1_file_path(struct cay_json_writer *w, const char *key, const char *path, size_t len);
/* type, size, mode, uid, gid, mtime, etag, into the object that is open. */
void cay_v1_file_info(struct cay_json_writer *w, const struct cay_file_info *info);
/* sha256 where the reply has one. */
void cay_v1_file_hash(struct cay_json_writer *w, const struct cay_file_reply *reply);
const char *cay_v1_file_hex(const uint8_t sha256[32], char out[65]);

/* file_watch.c */
extern const struct cay_field cay_v1_watch_fields[];
int cay_v1_file_watch(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
