/* SPDX-License-Identifier: Apache-2.0 */
/* Files in a sandbox: who may ask, within which bounds, and what an answer from inside means. The
 * host itself resolves no path; that happens inside, with the rights of a user there. */
#include "core/core.h"
#include "core/state.h"
#include "core/validate.h"
#include "model/limits.h"
#include <fcntl.h>
#include <string.h>

/* ---- what is asked ---- */

/* A relative path that climbs out of the working directory is a mistake or worse. By an absolute
 * one everything can be named that the user may see. */
static bool climbs(const char *path)
{
    int depth = 0;
    for (const char *at = path; *at && path[0] != '/';) {
        size_t len = strcspn(at, "/");
        bool up = len == 2 && at[0] == '.' && at[1] == '.';
        bool here = len == 0 || (len == 1 && at[0] == '.');
        depth += up ? -1 : here ? 0 : 1;
        if (depth < 0)
            return true;
        at += len + strspn(at + len, "/");
    }
    return false;
}

static int bad_path(struct cay_error *err, const char *field, const char *why)
{
    (void)cay_fail_as(err, CAY_ERR_INVALID, "INVALID_PATH", "%s", why);
    cay_str_copy(err->field, sizeof err->field, field);
    return CAY_ERR_INVALID;
}

int cay_core_check_path(const char *path, const char *field, struct cay_error *err)
{
    if (!path)
        return cay_fail_field(err, field, "%s is missing", field);
    if (!path[0])
        return bad_path(err, field, "a path may not be empty");
    if (strlen(path) > CAY_MAX_PATH)
        return bad_path(err, field, "a path has at most 4095 bytes");
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        if (len > 255)
            return bad_path(err, field, "a name has at most 255 bytes");
        at += len + strspn(at + len, "/");
    }
    return climbs(path)
               ? bad_path(err, field, "a relative path may not leave the working directory")
               : 0;
}

static int check_filters(const struct cay_strs *list, const char *field, struct cay_error *err)
{
    size_t bytes = 0;
    if (list->count > CAY_FILE_FILTERS)
        return cay_fail_field(err, field, "at most %d of them", CAY_FILE_FILTERS);
    for (size_t i = 0; i < list->count; i++)
        bytes += strlen(list->at[i]) + sizeof "except=";
    if (bytes > CAY_FILE_FILTER_BYTES)
        return cay_fail_field(err, field, "at most %d bytes of them", CAY_FILE_FILTER_BYTES);
    return 0;
}

static bool takes_data(enum cay_file_op op)
{
    return op == CAY_FILE_WRITE || op == CAY_FILE_APPEND || op == CAY_FILE_FORM ||
           op == CAY_FILE_UNPACK || op == CAY_FILE_PUT || op == CAY_FILE_SCAN ||
           op == CAY_FILE_FETCH;
}

static bool gives_data(enum cay_file_op op)
{
    return op == CAY_FILE_READ || op == CAY_FILE_PACK || op == CAY_FILE_WATCH ||
           op == CAY_FILE_SCAN || op == CAY_FILE_FETCH;
}

static bool is_about_processes(enum cay_file_op op)
{
    return op == CAY_FILE_PROCESSES || op == CAY_FILE_SIGNAL;
}

/* Root inside, who may signal everybody in there. pid 1 is ours and goes with the sandbox. */
static int check_process(struct cay_file_request *rq, struct cay_error *err)
{
    rq->path = "/proc";
    rq->user = "root";
    if (rq->op == CAY_FILE_SIGNAL && rq->pid == 0)
        return cay_fail_field(err, "pid", "pid must be a number above 1");
    if (rq->op == CAY_FILE_SIGNAL && rq->pid == 1)
        return cay_fail_field(err, "pid", "pid 1 holds the sandbox: stop or delete that");
    return 0;
}

static int check(struct cay_file_request *rq, const struct cay_sandbox *sb, struct cay_error *err)
{
    if (is_about_processes(rq->op))
        return check_process(rq, err);
    int r = cay_core_check_path(rq->path, "path", err);
    if (r == 0 && (rq->to || rq->op == CAY_FILE_MOVE))
        r = cay_core_check_path(rq->to, "to", err);
    if (r == 0)
        r = check_filters(&rq->only, "include", err);
    if (r == 0)
        r = check_filters(&rq->except, "exclude", err);
    if (r == 0 && rq->match && strlen(rq->match) > CAY_FILE_MATCH_BYTES)
        r = cay_fail_field(err, "If-Match", "If-Match and If-Range have at most %d bytes",
                           CAY_FILE_MATCH_BYTES);
    if (r == 0 && rq->user)
        r = cay_validate_user(rq->user, err);
    if (r < 0)
        return r;
    if (!rq->user)
        rq->user = sb->spec.user;
    if (!rq->cwd)
        rq->cwd = sb->spec.workdir;
    if (!takes_data(rq->op) || gives_data(rq->op)) /* paths: the others write */
        return 0;
    rq->limit_bytes = sb->spec.disk_bytes;
    if (rq->op == CAY_FILE_WRITE || rq->op == CAY_FILE_APPEND)
        rq->flags |= CAY_FILE_COMMIT;
    if (rq->size != CAY_FILE_UNKNOWN && rq->size > rq->limit_bytes)
        return cay_fail_as(err, CAY_ERR_TOO_LARGE, "TOO_LARGE",
                           "the sandbox's disk has only %llu bytes",
                           (unsigned long long)rq->limit_bytes);
    return 0;
}

/* ---- asking ---- */

/* Our end does not block, theirs does. */
static int make_pipe(bool ours_writes, int *ours, int *theirs, struct cay_error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a pipe");
    *ours = fds[ours_writes];
    *theirs = fds[!ours_writes];
    if (fcntl(*ours, F_SETFL, O_NONBLOCK) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot set up a pipe");
    return 0;
}

static void close_pipes(struct cay_file_pipes *p)
{
    cay_close_fd(&p->out);
    cay_close_fd(&p->in);
    cay_close_fd(&p->end);
}

static void close_ends(struct cay_file_ends *e)
{
    cay_close_fd(&e->out_fd);
    cay_close_fd(&e->in_fd);
    cay_close_fd(&e->end_fd);
}

int cay_core_file(struct cay_core *core, const struct cay_account *owner, const char *id,
                  struct cay_file_request *rq, struct cay_arena *a, struct cay_file_ends *out,
                  struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_find(core, owner, id, a, &sb, err);
    return r < 0 ? r : cay_core_file_in(core, &sb, rq, out, err);
}

int cay_core_file_in(struct cay_core *core, const struct cay_sandbox *sb,
                     struct cay_file_request *rq, struct cay_file_ends *out, struct cay_error *err)
{
    CAY_CLEANUP(close_pipes) struct cay_file_pipes theirs = {-1, -1, -1};
    CAY_CLEANUP(close_ends) struct cay_file_ends ours = {-1, -1, -1};
    enum cay_state state = sb->state;
    int r = check(rq, sb, err);
    if (r == 0)
        r = cay_state_apply(&state, CAY_EXEC, err);
    if (r == 0)
        r = make_pipe(false, &ours.out_fd, &theirs.out, err);
    if (r == 0 && takes_data(rq->op))
        r = make_pipe(true, &ours.in_fd, &theirs.in, err);
    if (r == 0 && (rq->flags & CAY_FILE_COMMIT))
        r = make_pipe(true, &ours.end_fd, &theirs.end, err);
    if (r == 0 && rq->op == CAY_FILE_PACK)
        r = make_pipe(false, &ours.end_fd, &theirs.end, err);
    if (r < 0)
        return r;
    bool lasts = takes_data(rq->op) || gives_data(rq->op);
    if (lasts) /* fewer, longer turns for both sides; where it is refused they are as usual */
        (void)fcntl(gives_data(rq->op) ? ours.out_fd : ours.in_fd, F_SETPIPE_SZ,
                    CAY_FILE_PIPE_BYTES);
    r = cay_provider_file(core->provider, sb->id, rq, &theirs,
                          lasts ? CAY_FILE_DATA_MS : CAY_FILE_CALL_MS, err);
    if (r < 0)
        return r;
    *out = (struct cay_file_ends){cay_take_fd(&ours.out_fd), cay_take_fd(&ours.in_fd),
                                  cay_take_fd(&ours.end_fd)};
    return 0;
}

/* ---- what comes back ---- */

static const struct {
    enum cay_err code;
    const char *name, *field, *what;
} verdicts[CAY_FILE_CODES] = {
    [CAY_FILE_NOT_FOUND] = {CAY_ERR_NOT_FOUND, "NOT_FOUND", "path", "no such file or directory"},
    [CAY_FILE_IS_A_DIRECTORY] = {CAY_ERR_INVALID, "IS_A_DIRECTORY", "path", "this is a directory"},
    [CAY_FILE_NOT_A_DIRECTORY] = {CAY_ERR_INVALID, "NOT_A_DIRECTORY", "path",
                                  "this, or a part of the path, is not a directory"},
    [CAY_FILE_NOT_A_FILE] = {CAY_ERR_INVALID, "NOT_A_FILE", "path",
                             "this is a pipe, a socket or a device, not a file"},
    [CAY_FILE_PERMISSION] = {CAY_ERR_FORBIDDEN, "PERMISSION_DENIED", "path",
                             "the sandbox's user may not do this"},
    [CAY_FILE_READ_ONLY] = {CAY_ERR_FORBIDDEN, "READ_ONLY", "path", "this cannot be written to"},
    [CAY_FILE_EXISTS] = {CAY_ERR_CONFLICT, "EXISTS", "path", "there is something already"},
    [CAY_FILE_NOT_EMPTY] = {CAY_ERR_CONFLICT, "NOT_EMPTY", "path", "the directory is not empty"},
    [CAY_FILE_NO_SPACE] = {CAY_ERR_CONFLICT, "NO_SPACE", "", "the sandbox's disk is full"},
    [CAY_FILE_TOO_LARGE] = {CAY_ERR_TOO_LARGE, "TOO_LARGE", "",
                            "this is more than the sandbox may hold"},
    [CAY_FILE_LOOP] = {CAY_ERR_INVALID, "LOOP", "path", "too many links lead in a circle"},
    [CAY_FILE_INVALID_PATH] = {CAY_ERR_INVALID, "INVALID_PATH", "path",
                               "this cannot be done to this path"},
    [CAY_FILE_CHANGED] = {CAY_ERR_CONFLICT, "CHANGED", "path", "the file is not the one you know"},
    [CAY_FILE_BUSY] = {CAY_ERR_CONFLICT, "BUSY", "path",
                       "this is in use, or others are mounted on it"},
    [CAY_FILE_CROSS_DEVICE] = {CAY_ERR_CONFLICT, "CROSS_DEVICE", "to",
                               "a directory cannot be moved to another file system: copy it"},
    [CAY_FILE_BAD_ARCHIVE] = {CAY_ERR_INVALID, "BAD_ARCHIVE", "", "the archive cannot be unpacked"},
    [CAY_FILE_BAD_FORM] = {CAY_ERR_INVALID, "BAD_FORM", "", "the form cannot be used"},
    [CAY_FILE_BAD_RANGE] = {CAY_ERR_INVALID, "RANGE_NOT_SATISFIABLE", "range",
                            "the file has nothing in this range"},
    [CAY_FILE_INCOMPLETE] = {CAY_ERR_INVALID, "INCOMPLETE", "", "the data ended too early"},
    [CAY_FILE_TOO_MANY] = {CAY_ERR_TOO_LARGE, "TOO_MANY_ENTRIES", "path",
                           "this is too deep, or has too many entries"},
    [CAY_FILE_NO_USER] = {CAY_ERR_INVALID, "VALIDATION_ERROR", "user",
                          "no such user in the sandbox"},
    [CAY_FILE_BAD_REQUEST] = {CAY_ERR_UNSUPPORTED, "RESTART_NEEDED", "",
                              "the sandbox began with another version: stop and start it first"},
    [CAY_FILE_FAILED] = {CAY_ERR_PROVIDER, "FILE_ERROR", "", "the operation failed in the sandbox"},
};

int cay_core_file_verdict(const struct cay_file_request *rq, const struct cay_file_reply *reply,
                          struct cay_error *err)
{
    if (!reply)
        return cay_fail_as(err, CAY_ERR_PROVIDER, "FILE_OPERATION_LOST",
                           "the operation was ended in the sandbox before it could answer");
    enum cay_file_code code = (enum cay_file_code)reply->code;
    if (code == CAY_FILE_OK)
        return 0;
    if (rq->op == CAY_FILE_SIGNAL && code == CAY_FILE_NOT_FOUND)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "PROCESS_NOT_FOUND", "process not found");
    (void)cay_fail_as(err, verdicts[code].code, verdicts[code].name, "%s", verdicts[code].what);
    bool at_target = rq->op == CAY_FILE_MOVE && code == CAY_FILE_EXISTS;
    cay_str_copy(err->field, sizeof err->field, at_target ? "to" : verdicts[code].field);
    if (reply->detail[0])
        cay_str_copy(err->cause, sizeof err->cause, reply->detail);
    else if (code == CAY_FILE_FAILED && reply->error)
        cay_str_copy(err->cause, sizeof err->cause, strerror(reply->error));
    return err->code;
}
