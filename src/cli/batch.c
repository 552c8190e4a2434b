/* SPDX-License-Identifier: Apache-2.0 */
/* cay batch: a batch as it stands in a file, its lines as they come. */
#include "cli/nuls.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define IDLE_MS 60000 /* a server that is well sends blank lines in between */

struct lines {
    struct cay_buf line; /* the one that is coming */
    bool ended;
    int64_t failed;
};

static int read_all(int fd, struct cay_buf *out, struct cay_error *err)
{
    for (;;) {
        ssize_t n = read(fd, cay_buf_room(out, 65536), 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail_errno(err, CAY_ERR_INVALID, "cannot read the batch");
        if (n == 0)
            return 0;
        out->len += (size_t)n;
        if (out->len > CAY_HTTP_JSON_MAX)
            return cay_fail(err, CAY_ERR_TOO_LARGE, "a batch has at most %lld bytes",
                            CAY_HTTP_JSON_MAX);
    }
}

static int read_file(const char *name, struct cay_buf *out, struct cay_error *err)
{
    if (strcmp(name, "-") == 0)
        return read_all(STDIN_FILENO, out, err);
    CAY_AUTO_FD int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot open %s", name);
    return read_all(fd, out, err);
}

static int take_line(struct lines *l, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const struct cay_json *root;
    if (l->line.len == 0)
        return 0; /* a sign of life */
    if (!cay_output_line(l->line.data, l->line.len) || fflush(stdout) != 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write the output");
    int r = cay_nuls_parse(&a, l->line.data, l->line.len, &root, err);
    if (r < 0)
        return cay_wrap(err, "the stream is not as agreed");
    if (strcmp(cay_json_get_str(root, "type", ""), "end") == 0) {
        l->ended = true;
        l->failed = cay_json_get_int(root, "failed", 0);
    }
    return 0;
}

static int take_bytes(void *arg, const char *data, size_t len, struct cay_error *err)
{
    struct lines *l = arg;
    int r = 0;
    while (len > 0 && r == 0) {
        const char *end = memchr(data, '\n', len);
        size_t part = end ? (size_t)(end - data) : len;
        cay_buf_add(&l->line, data, part);
        if (end) {
            r = take_line(l, err);
            l->line.len = 0;
        }
        data += part + (end != NULL);
        len -= part + (end != NULL);
    }
    return r;
}

static int batch(struct cay_cli *cli, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct lines l = {0};
    int r = read_file(cli->args.args.at[0], &body, err);
    struct cay_client_request req = {
        .method = "POST",
        .path = cay_remote_path(cli, "batch", (const char *)NULL),
        .accept = "application/x-ndjson",
        .body = body.data ? body.data : "",
        .body_len = body.len,
        .idle_ms = IDLE_MS,
        .on_data = take_bytes,
        .arg = &l,
    };
    if (r == 0)
        r = cay_client_call(cli->client, &req, &answer, err);
    if (r >= 0)
        r = cay_remote_check(cli, &answer, err);
    if (r >= 0 && !l.ended)
        r = cay_fail(err, CAY_ERR_UNAVAILABLE, "the stream ends without an end");
    cay_buf_done(&l.line);
    return r < 0 ? r : l.failed > 0 ? CAY_EXIT_FAILED : 0;
}

const struct cay_command cay_command_batch = {
    .name = "batch",
    .args = "FILE",
    .summary = "run many commands over many sandboxes",
    .notes = "FILE is the request as JSON, - our stdin; every line of the answer is printed as it\n"
             "comes. Exit status 1 when an item failed. An interrupted batch goes on.",
    .size = sizeof(struct cay_remote_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = batch,
};
