/* SPDX-License-Identifier: Apache-2.0 */
/* Files between here and a sandbox: the paths of the API, a bar that shows how far it is, and our
 * side's files by the same code that works inside (in a child, so that it may use stdin and
 * stdout): written whole or not at all, archives unpacked without being believed. */
#pragma once
#include "cli/remote.h"
#include "file/file.h"

/* "/api/v1/sandbox/ID/files" + what + "?path=…"; a path that is no text goes as base64. */
const char *cay_transfer_path(struct cay_cli *cli, const char *id, const char *what,
                              const char *path, const char *user);

struct cay_progress {
    const char *name;
    bool shown;           /* stderr is a terminal */
    uint64_t done, total; /* total 0: nobody knows */
    int64_t began_ms, drawn_ms;
    char note[160]; /* shown where nothing is counted; or empty */
};
void cay_progress_begin(struct cay_progress *p, const char *name, uint64_t total);
void cay_progress_add(struct cay_progress *p, size_t bytes);
void cay_progress_end(struct cay_progress *p);

/* Sends what comes from a descriptor. length -1: to its end. end_fd, or -1, has a byte when that
 * end was the real one. */
struct cay_upload_source {
    int fd, end_fd;
    int64_t length;
    const char *method; /* NULL: PUT */
};
int cay_transfer_put(struct cay_cli *cli, const char *path, const struct cay_upload_source *from,
                     struct cay_progress *progress, const struct cay_json **out,
                     struct cay_error *err);
/* Writes the answer's body to a descriptor as it comes. */
int cay_transfer_get(struct cay_cli *cli, const char *path, int to_fd,
                     struct cay_progress *progress, struct cay_error *err);

/* An operation on our own files. */
struct cay_local {
    pid_t pid;
    int in_fd, out_fd, end_fd; /* our ends, as struct cay_file_ends has them; -1 none */
};
int cay_local_begin(const struct cay_file_request *rq, struct cay_local *out,
                    struct cay_error *err);
/* Its reply, as an error where it is one: `name` is what it was about. */
int cay_local_reply(struct cay_local *l, const struct cay_file_request *rq, const char *name,
                    struct cay_error *err);
void cay_local_end(struct cay_local *l); /* whatever it does, it ends */
#define CAY_AUTO_LOCAL CAY_CLEANUP(cay_local_end)
