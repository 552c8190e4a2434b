/* SPDX-License-Identifier: Apache-2.0 */
#include "core/source.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/network.h"
#include "core/source_run.h"
#include "core/source_url.h"
#include "log/files.h"
#include "log/reader.h"
#include <stdio.h>
#include <string.h>

#define RECORDS_MAX 65536 /* of the log, in one look */

/* ---- what may be asked for ---- */

static int bad(struct cay_error *err, const char *field, const char *why)
{
    int r = cay_fail_as(err, CAY_ERR_INVALID, "INVALID_SOURCE", "%s", why);
    cay_str_copy(err->field, sizeof err->field, field);
    return r;
}

/* As git has names, and then some less: nothing that is an option, a range or an expression. */
static bool is_revision(const char *s)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+-@";
    return s[0] && s[0] != '-' && s[0] != '/' && strlen(s) <= CAY_MAX_REVISION &&
           s[strspn(s, letters)] == '\0' && !strstr(s, "..") && !strstr(s, "//");
}

/* They become a header: one line of it. */
static bool is_credential(const char *s, bool is_name)
{
    for (const char *c = s; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127 || (is_name && *c == ':'))
            return false;
    return !s || strlen(s) <= CAY_MAX_CREDENTIAL;
}

static int check_git(const struct cay_spec_source *s, struct cay_error *err)
{
    if (s->revision && !is_revision(s->revision))
        return bad(err, "source.revision",
                   "source.revision must be a branch, a tag or a whole commit id");
    if (s->depth < 0 || s->depth > CAY_MAX_DEPTH)
        return bad(err, "source.depth", "source.depth must be from 1 to 1000000");
    if (!is_credential(s->username, true))
        return bad(err, "source.username", "source.username is no name: one line without a colon");
    if (!is_credential(s->password, false))
        return bad(err, "source.password", "source.password is no password: one line");
    return 0;
}

int cay_source_check(const struct cay_spec_source *s, struct cay_error *err)
{
    struct cay_source_url url;
    if (s->kind == CAY_SOURCE_NONE)
        return 0;
    if (!s->url)
        return bad(err, "source.url", "source.url is required");
    int r = cay_source_url_read(s->url, &url, err);
    if (r < 0)
        return r;
    if (s->timeout_ms < 1 || s->timeout_ms > CAY_MAX_SOURCE_MS)
        return cay_fail_field(err, "source.timeoutMs", "timeoutMs must be from 1 to %d",
                              CAY_MAX_SOURCE_MS);
    if (s->kind == CAY_SOURCE_GIT)
        return check_git(s, err);
    if (s->revision || s->depth || s->username || s->password)
        return bad(err, "source", "revision, depth, username and password are for git");
    return 0;
}

char *cay_source_login(const struct cay_spec_source *s)
{
    static const char head[] = "Authorization: Basic ";
    if (s->kind != CAY_SOURCE_GIT || (!s->username && !s->password))
        return NULL;
    const char *name = s->username ? s->username : "", *word = s->password ? s->password : "";
    size_t len = strlen(name) + 1 + strlen(word);
    char *both = malloc(len + 1), *login = malloc(sizeof head + 4 * ((len + 2) / 3) + 1);
    if (!both || !login)
        abort();
    (void)snprintf(both, len + 1, "%s:%s", name, word);
    memcpy(login, head, sizeof head);
    (void)cay_str_base64(both, len, login + sizeof head - 1);
    explicit_bzero(both, len);
    free(both);
    return login;
}

void cay_source_logout(char **login)
{
    if (*login)
        explicit_bzero(*login, strlen(*login));
    free(*login);
    *login = NULL;
}

/* ---- fetching ---- */

static int run(struct cay_core *core, const struct cay_sandbox *sb, const char *origin,
               const char *login, const char *exec_id, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int log_fd = -1;
    struct cay_exec_spec spec =
        cay_source_command(&a, &sb->spec.source, &sb->spec.env, origin, login);
    spec.cwd = sb->spec.workdir;
    spec.user = sb->spec.user;
    int r = cay_log_create(core->logs_fd, sb->id, exec_id, &spec, &log_fd, err);
    if (r == 0)
        r = cay_provider_exec(core->provider, sb->id, exec_id, &spec, log_fd, err);
    if (r < 0)
        cay_log_remove(core->logs_fd, sb->id, exec_id);
    return r;
}

/* As the spec calls it. */
static int cannot_run(int r, struct cay_error *err)
{
    if (strcmp(err->field, "cwd") == 0)
        cay_str_copy(err->field, sizeof err->field, "workdir");
    return r;
}

int cay_source_begin(struct cay_core *core, const struct cay_sandbox *sb, const char *login,
                     struct cay_bringing *out, struct cay_error *err)
{
    const struct cay_spec_source *s = &sb->spec.source;
    struct cay_source_url url;
    struct cay_bringing f = {.kind = s->kind,
                             .timeout_ms = s->timeout_ms,
                             .until_ms = cay_clock_mono_ms() + s->timeout_ms + CAY_SOURCE_SLACK_MS,
                             .max_bytes = sb->spec.disk_bytes < CAY_SOURCE_BYTES
                                              ? sb->spec.disk_bytes
                                              : CAY_SOURCE_BYTES};
    cay_id_execution(f.exec_id);
    int r = cay_source_url_read(s->url, &url, err);
    if (r == 0)
        r = cay_network_up_with(core, sb, url.rule, err);
    if (r == 0)
        r = run(core, sb, url.origin, login, f.exec_id, err);
    if (r < 0)
        return cannot_run(r, err);
    *out = f;
    return 0;
}

/* The last line that is not empty; what no terminal should get is left out. */
static void hear(struct cay_bringing *f, const char *data, size_t len)
{
    size_t have = strlen(f->next);
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\n' || data[i] == '\r') {
            if (have)
                memcpy(f->line, f->next, sizeof f->line);
            memset(f->next, 0, sizeof f->next);
            have = 0;
        } else if (have < CAY_SOURCE_LINE) {
            bool shown = data[i] >= ' ' && data[i] <= '~';
            f->next[have++] = shown ? data[i] : '?';
        }
    }
}

static bool read_log(struct cay_core *core, const char *id, struct cay_bringing *f,
                     struct cay_record_exit *end)
{
    struct cay_reader reader;
    struct cay_record rec;
    struct cay_error ignored; /* a log that cannot be read has no end */
    bool ended = false;
    int fd;
    if (cay_log_open(core->logs_fd, id, f->exec_id, &fd, &ignored) < 0)
        return false;
    cay_reader_init(&reader, fd, f->offset);
    for (int i = 0; i < RECORDS_MAX && !ended; i++) {
        if (cay_reader_next(&reader, &rec, &ignored) != CAY_READ_RECORD)
            break;
        f->offset = rec.next;
        if (rec.kind == CAY_RECORD_STDERR)
            hear(f, rec.data, rec.len);
        ended = rec.kind == CAY_RECORD_EXIT && cay_record_exit_read(rec.data, rec.len, end);
    }
    cay_reader_done(&reader);
    return ended;
}

static int failed(struct cay_error *err, const struct cay_bringing *f, const char *name,
                  const char *why)
{
    bool archive = strcmp(name, "BAD_ARCHIVE") == 0; /* as for one that is uploaded */
    int r = cay_fail_as(err, archive ? CAY_ERR_INVALID : CAY_ERR_UNPROCESSABLE, name, "%s", why);
    cay_str_copy(err->field, sizeof err->field, "source.url");
    cay_str_copy(err->cause, sizeof err->cause, f->next[0] ? f->next : f->line);
    return r;
}

static int too_late(struct cay_error *err, const struct cay_bringing *f)
{
    char why[80];
    (void)snprintf(why, sizeof why, "the source was not there within %lld ms",
                   (long long)f->timeout_ms); /* it fits */
    return failed(err, f, "SOURCE_FAILED", why);
}

static int verdict(const struct cay_bringing *f, const struct cay_record_exit *end,
                   struct cay_error *err)
{
    if (end->reason == CAY_REASON_TIMEOUT)
        return too_late(err, f);
    if (end->exit_code == 0 && end->signal == 0)
        return 1;
    if (end->exit_code == CAY_FETCH_NO_TOOL)
        return failed(err, f, "SOURCE_FAILED", "the image has nothing to fetch this source with");
    if (f->kind == CAY_SOURCE_TARBALL && end->exit_code == CAY_FETCH_BAD_ARCHIVE)
        return failed(err, f, "BAD_ARCHIVE", "what source.url leads to is no whole tar archive");
    return failed(err, f, "SOURCE_FAILED", "the source could not be fetched");
}

int cay_source_look(struct cay_core *core, const char *sandbox_id, struct cay_bringing *f,
                    struct cay_error *err)
{
    struct cay_record_exit end;
    uint64_t sent, received;
    bool ended = read_log(core, sandbox_id, f, &end);
    cay_network_moved(core, sandbox_id, &sent, &received);
    if (sent + received > f->max_bytes)
        return failed(err, f, "SOURCE_FAILED", "the source has more bytes than it may have");
    if (ended)
        return verdict(f, &end, err);
    return cay_clock_mono_ms() < f->until_ms ? 0 : too_late(err, f);
}

int cay_source_end(struct cay_core *core, const struct cay_sandbox *sb, struct cay_bringing *f,
                   struct cay_error *err)
{
    cay_log_remove(core->logs_fd, sb->id, f->exec_id);
    f->exec_id[0] = 0;
    return cay_network_settle(core, sb, err);
}
