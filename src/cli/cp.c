/* SPDX-License-Identifier: Apache-2.0 */
/* cay cp: between here and a sandbox, as `cp -r` would. A directory goes as an archive. What is
 * there already as a directory is copied into; SRC/. copies what is in it. */
#include "cli/transfer.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct cp_options {
    struct cay_remote_options remote;
    const char *user;
};

struct remote {
    const char *id, *path;
};

/* ID:PATH; a name of ours that has a colon is written ./a:b. */
static bool is_remote(struct cay_cli *cli, const char *arg, struct remote *out)
{
    const char *colon = strchr(arg, ':');
    if (!colon || colon == arg || memchr(arg, '/', (size_t)(colon - arg)) || arg[0] == '.')
        return false;
    out->id = cay_arena_strndup(&cli->arena, arg, (size_t)(colon - arg));
    out->path = colon[1] ? colon + 1 : ".";
    return true;
}

static bool means_content(const char *path)
{
    return strcmp(path, ".") == 0 || cay_str_ends(path, "/.");
}

static const char *last_name(struct cay_cli *cli, const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t from = len;
    while (from > 0 && path[from - 1] != '/')
        from--;
    return cay_arena_strndup(&cli->arena, path + from, len - from);
}

/* Where the copy goes: below a directory that is there, or under the name that was given. */
static const char *target_of(struct cay_cli *cli, const char *src, const char *dst, bool dst_is_dir)
{
    if (means_content(src) || (!dst_is_dir && !cay_str_ends(dst, "/")))
        return dst;
    return cay_arena_printf(&cli->arena, "%s%s%s", dst, cay_str_ends(dst, "/") ? "" : "/",
                            last_name(cli, src));
}

/* type, mode and size of what is there; NULL when nothing is. */
static int look(struct cay_cli *cli, const struct remote *at, const struct cay_json **out,
                struct cay_error *err)
{
    const struct cp_options *o = cli->options;
    const char *path = cay_transfer_path(cli, at->id, "/stat", at->path, o->user);
    const struct cay_json *info;
    int r = cay_remote_call(cli, "GET", path, NULL, 0, &info, err);
    *out = NULL;
    if (r == CAY_ERR_NOT_FOUND && strcmp(err->field, "path") == 0) {
        cli->api_code[0] = 0;
        return 0;
    }
    if (r < 0)
        return r;
    const struct cay_json *target = cay_json_get(info, "target");
    *out = target ? target : info;
    return 0;
}

static bool is_dir(const struct cay_json *info)
{
    return info && strcmp(cay_json_get_str(info, "type", ""), "directory") == 0;
}

/* ---- up ---- */

static int send_file(struct cay_cli *cli, const char *src, int fd, const struct stat *st,
                     const struct remote *to, struct cay_error *err)
{
    const struct cp_options *o = cli->options;
    const struct cay_json *ignored;
    struct cay_progress progress;
    struct cay_upload_source from = {fd, -1, (int64_t)st->st_size};
    const char *path = cay_transfer_path(cli, to->id, "", to->path, o->user);
    path = cay_arena_printf(&cli->arena, "%s&mode=%04o", path, st->st_mode & 0777);
    cay_progress_begin(&progress, src, (uint64_t)st->st_size);
    return cay_transfer_put(cli, path, &from, &progress, &ignored, err);
}

static int send_tree(struct cay_cli *cli, const char *src, const struct remote *to,
                     struct cay_error *err)
{
    const struct cp_options *o = cli->options;
    const struct cay_file_request rq = {.op = CAY_FILE_PACK, .path = src};
    const struct cay_json *ignored;
    struct cay_progress progress;
    CAY_AUTO_LOCAL struct cay_local l = {.in_fd = -1, .out_fd = -1, .end_fd = -1};
    int r = cay_local_begin(&rq, &l, err);
    if (r == 0)
        r = cay_local_reply(&l, &rq, src, err);
    if (r < 0)
        return r;
    struct cay_upload_source from = {l.out_fd, l.end_fd, -1};
    cay_progress_begin(&progress, src, 0);
    return cay_transfer_put(cli, cay_transfer_path(cli, to->id, "/archive", to->path, o->user),
                            &from, &progress, &ignored, err);
}

static int up(struct cay_cli *cli, const char *src, struct remote to, struct cay_error *err)
{
    const struct cay_json *there;
    struct stat st;
    CAY_AUTO_FD int fd = open(src, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot read %s", src);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return cay_fail(err, CAY_ERR_INVALID, "%s is neither a file nor a directory", src);
    int r = look(cli, &to, &there, err);
    if (r < 0)
        return r;
    to.path = target_of(cli, src, to.path, is_dir(there));
    return S_ISDIR(st.st_mode) ? send_tree(cli, src, &to, err)
                               : send_file(cli, src, fd, &st, &to, err);
}

/* ---- down ---- */

static int fetch(struct cay_cli *cli, const char *path, const struct cay_file_request *rq,
                 uint64_t size, struct cay_error *err)
{
    struct cay_progress progress;
    struct cay_error mine;
    CAY_AUTO_LOCAL struct cay_local l = {.in_fd = -1, .out_fd = -1, .end_fd = -1};
    int r = cay_local_begin(rq, &l, err);
    if (r < 0)
        return r;
    cay_progress_begin(&progress, rq->path, size);
    r = cay_transfer_get(cli, path, l.in_fd, &progress, err);
    if (r == 0)
        (void)!write(l.end_fd, "1", 1); /* all of it came */
    cay_close_fd(&l.end_fd);
    cay_close_fd(&l.in_fd);
    int said = cay_local_reply(&l, rq, rq->path, &mine);
    /* a write that failed here is why the transfer did */
    if (said < 0 && (r == 0 || err->code == CAY_ERR_INTERNAL)) {
        *err = mine;
        return said;
    }
    return r;
}

/* A link where the copy goes may be the sandbox's, from a copy before, so it is replaced. But who
 * gives a link as the directory to copy into means where it leads. */
static uint64_t how(bool tree, bool named)
{
    if (!tree)
        return CAY_FILE_COMMIT | CAY_FILE_LOOSE | CAY_FILE_REPLACE;
    return CAY_FILE_PLAIN | (named ? 0 : CAY_FILE_REPLACE);
}

static int down(struct cay_cli *cli, const struct remote *from, const char *dst,
                struct cay_error *err)
{
    const struct cp_options *o = cli->options;
    const struct cay_json *there;
    struct stat st;
    uint64_t mode = 0;
    int r = look(cli, from, &there, err);
    if (r < 0)
        return r;
    if (!there)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "%s:%s: no such file or directory", from->id,
                        from->path);
    bool tree = is_dir(there);
    bool into = stat(dst, &st) == 0 && S_ISDIR(st.st_mode);
    for (const char *at = cay_json_get_str(there, "mode", "0644"); *at >= '0' && *at <= '7'; at++)
        mode = 8 * mode + (uint64_t)(*at - '0');
    const char *target = target_of(cli, from->path, dst, into);
    struct cay_file_request rq = {.op = tree ? CAY_FILE_UNPACK : CAY_FILE_WRITE,
                                  .path = target,
                                  .size = CAY_FILE_UNKNOWN,
                                  .mode = CAY_FILE_MODE | (mode & 0777),
                                  .flags = how(tree, target == dst)};
    return fetch(cli, cay_transfer_path(cli, from->id, tree ? "/archive" : "", from->path, o->user),
                 &rq, tree ? 0 : (uint64_t)cay_json_get_int(there, "size", 0), err);
}

static int cp(struct cay_cli *cli, struct cay_error *err)
{
    const char *src = cli->args.args.at[0], *dst = cli->args.args.at[1];
    struct remote from, to;
    bool is_down = is_remote(cli, src, &from), is_up = is_remote(cli, dst, &to);
    if (is_down == is_up)
        return cay_fail(err, CAY_ERR_INVALID,
                        is_up ? "between two sandboxes: copy by way of here"
                              : "one of the two must be ID:PATH");
    return is_up ? up(cli, src, to, err) : down(cli, &from, dst, err);
}

static const struct cay_option cp_table[] = {
    {CAY_OPTION_STRING, "user", offsetof(struct cp_options, user), 'u', .arg = "USER",
     .help = "whose rights count in the sandbox, and who owns what is made there"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_cp = {
    .name = "cp",
    .args = "SRC DST",
    .summary = "copy files and directories into a sandbox, or out of one",
    .notes = "One of the two is ID:PATH; relative paths are relative to the sandbox's working\n"
             "directory. A DST that is a directory is copied into; SRC/. is what SRC holds.\n"
             "A link of yours where a copy out of a sandbox goes is replaced, not followed.",
    .options = cp_table,
    .size = sizeof(struct cp_options),
    .args_min = 2,
    .args_max = 2,
    .remote = true,
    .run = cp,
};
