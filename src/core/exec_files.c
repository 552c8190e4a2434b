/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a command begins with: written inside, by cay-file, with the command's own user and
 * from its own directory. The caller waits, with a bound: a command is not begun without them. */
#include "core/core.h"
#include "core/exchange.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void frame(const struct cay_exec_spec *spec, struct cay_buf *out)
{
    for (size_t i = 0; i < spec->file_count; i++) {
        const struct cay_exec_file *f = &spec->files[i];
        struct cay_file_put head = {.len = f->len, .path_len = (uint32_t)strlen(f->path)};
        cay_buf_add(out, &head, sizeof head);
        cay_buf_add(out, f->path, head.path_len);
        cay_buf_add(out, f->data, f->len);
    }
}

/* The error, with the field that a caller of an execution knows. */
static int judge(const struct cay_exec_spec *spec, const struct cay_file_request *rq,
                 const struct cay_file_reply *reply, struct cay_error *err)
{
    int r = cay_core_file_verdict(rq, reply, err);
    if (r == 0 && reply->count != spec->file_count)
        r = cay_core_file_verdict(rq, NULL, err);
    if (r == 0 || !reply)
        return r;
    if (reply->count >= 1 && reply->count <= spec->file_count)
        (void)snprintf(err->field, sizeof err->field, "files.%s",
                       spec->files[reply->count - 1].path); /* as much as fits */
    else if (strcmp(err->field, "path") == 0)               /* as pid 1 would have said it */
        r = cay_fail_field(err, "cwd", "cannot enter the directory");
    return r;
}

static int put(struct cay_core *core, const struct cay_sandbox *sb,
               const struct cay_exec_spec *spec, struct cay_error *err)
{
    struct cay_file_request rq = {.op = CAY_FILE_PUT,
                                  .user = spec->user,
                                  .cwd = spec->cwd,
                                  .path = ".",
                                  .size = CAY_FILE_UNKNOWN,
                                  .count = spec->file_count};
    CAY_AUTO_EXCHANGE struct cay_exchange x = {.rq = &rq};
    int r = cay_exchange_begin(core, sb, &x, CAY_EXEC_FILES_MS, err);
    frame(spec, &x.in);
    if (r == 0)
        r = cay_exchange_finish(&x, err);
    return r < 0 ? r : judge(spec, &rq, x.has_reply ? &x.reply : NULL, err);
}

int cay_core_put_files(struct cay_core *core, const struct cay_sandbox *sb,
                       const struct cay_exec_spec *spec, struct cay_error *err)
{
    int r = 0;
    if (spec->file_count == 0)
        return 0;
    if (atomic_fetch_add(&core->slow, 1) >= CAY_SLOW_MAX)
        r = cay_fail(err, CAY_ERR_UNAVAILABLE, "too many commands wait for their files at once");
    else
        r = put(core, sb, spec, err);
    atomic_fetch_sub(&core->slow, 1);
    return r;
}

int cay_core_check_files(const struct cay_exec_spec *spec, struct cay_error *err)
{
    int r = 0;
    if (spec->file_count > CAY_FILE_FORM_FILES)
        return cay_fail_field(err, "files", "at most %d files", CAY_FILE_FORM_FILES);
    for (size_t i = 0; i < spec->file_count && r == 0; i++) {
        char field[sizeof err->field];
        (void)snprintf(field, sizeof field, "files.%s", spec->files[i].path); /* as above */
        r = cay_core_check_path(spec->files[i].path, field, err);
    }
    return r;
}
