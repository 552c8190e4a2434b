/* SPDX-License-Identifier: Apache-2.0 */
/* Files that come as multipart/form-data: `path` says where the next `file` goes. Each is in place
 * when its part has ended; the form's own end says that all have come. */
#include "file/file.h"
#include "file/multipart.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum part { NONE, OTHER, PATH, MODE, CONTENT };

struct form {
    struct cay_file_request rq;
    struct cay_multipart parser;
    enum part part;
    char path[CAY_MAX_PATH + 1]; /* "" none yet */
    char value[CAY_MAX_PATH + 1];
    size_t value_len;
    struct cay_draft draft;
    char draft_path[CAY_MAX_PATH + 1];
    struct cay_buf entries;
    struct cay_file_reply *reply;
    uint64_t bytes;
};

/* A path that ends in a slash is a directory: the file keeps its own name in there. */
static enum cay_file_code choose_path(struct form *f)
{
    const char *name = f->parser.file;
    for (const char *at = name; *at; at++)
        if (*at == '/' || *at == '\\')
            name = at + 1; /* some clients send the whole path of their side */
    size_t len = strlen(f->path);
    bool in_dir = len > 0 && f->path[len - 1] == '/';
    if (len == 0 || (in_dir && (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0))) {
        cay_file_tell(f->reply, "no path came before the file", 28);
        return CAY_FILE_BAD_FORM;
    }
    if (len + strlen(name) > CAY_MAX_PATH)
        return cay_file_code(ENAMETOOLONG);
    (void)snprintf(f->draft_path, sizeof f->draft_path, "%s%s", f->path, in_dir ? name : "");
    return CAY_FILE_OK;
}

static enum cay_file_code begin_part(struct form *f)
{
    static const struct {
        const char *name;
        enum part part;
    } parts[] = {{"path", PATH}, {"mode", MODE}, {"file", CONTENT}, {"files", CONTENT}};
    f->part = f->parser.file[0] ? CONTENT : OTHER;
    for (size_t i = 0; i < CAY_COUNT(parts); i++)
        if (strcmp(parts[i].name, f->parser.name) == 0)
            f->part = parts[i].part;
    f->value_len = 0;
    if (f->part != CONTENT)
        return CAY_FILE_OK;
    if (f->reply->count >= CAY_FILE_FORM_FILES)
        return CAY_FILE_TOO_MANY;
    enum cay_file_code code = choose_path(f);
    return code == CAY_FILE_OK ? cay_draft_begin(&f->rq, f->draft_path, &f->draft) : code;
}

static enum cay_file_code add_data(struct form *f)
{
    f->bytes += f->parser.len;
    if (f->rq.limit_bytes && f->bytes > f->rq.limit_bytes)
        return CAY_FILE_TOO_LARGE;
    if (f->part == CONTENT)
        return cay_draft_add(&f->draft, f->parser.data, f->parser.len);
    if (f->part != PATH && f->part != MODE)
        return CAY_FILE_OK;
    if (f->value_len + f->parser.len > CAY_MAX_PATH)
        return cay_file_code(ENAMETOOLONG);
    memcpy(f->value + f->value_len, f->parser.data, f->parser.len);
    f->value_len += f->parser.len;
    return CAY_FILE_OK;
}

static enum cay_file_code set_mode(struct form *f)
{
    uint64_t mode = 0;
    for (size_t i = 0; i < f->value_len; i++) {
        if (f->value[i] < '0' || f->value[i] > '7' || mode > 07777 / 8) {
            cay_file_tell(f->reply, "mode is no octal number", 23);
            return CAY_FILE_BAD_FORM;
        }
        mode = 8 * mode + (uint64_t)(f->value[i] - '0');
    }
    f->rq.mode = mode | CAY_FILE_MODE;
    return CAY_FILE_OK;
}

static enum cay_file_code end_part(struct form *f)
{
    f->value[f->value_len] = 0;
    if (f->part == MODE)
        return set_mode(f);
    if (f->part == PATH && memchr(f->value, 0, f->value_len))
        return cay_file_code(EINVAL);
    if (f->part == PATH)
        memcpy(f->path, f->value, f->value_len + 1);
    if (f->part != CONTENT)
        return CAY_FILE_OK;
    enum cay_file_code code = cay_draft_finish(&f->rq, &f->draft, f->reply);
    if (code != CAY_FILE_OK)
        return code;
    struct cay_file_entry e = {.info = f->reply->info, .path_len = (uint16_t)strlen(f->draft_path)};
    cay_draft_drop(&f->draft);
    cay_buf_add(&f->entries, &e, sizeof e);
    cay_buf_add(&f->entries, f->draft_path, e.path_len);
    f->reply->count++;
    return CAY_FILE_OK;
}

static enum cay_file_code take_event(struct form *f, enum cay_multipart_what what)
{
    switch (what) {
    case CAY_MULTIPART_PART:
        return begin_part(f);
    case CAY_MULTIPART_DATA:
        return add_data(f);
    case CAY_MULTIPART_PART_END:
        return end_part(f);
    case CAY_MULTIPART_NEED:
    case CAY_MULTIPART_END:
        return CAY_FILE_OK;
    case CAY_MULTIPART_BAD:
        break;
    }
    return CAY_FILE_BAD_FORM;
}

static enum cay_file_code read_form(struct form *f)
{
    static char buf[CAY_FILE_CHUNK];
    enum cay_multipart_what what = CAY_MULTIPART_NEED;
    while (what != CAY_MULTIPART_END) {
        ssize_t n = read(STDIN_FILENO, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? cay_file_code(errno) : CAY_FILE_INCOMPLETE;
        const char *at = buf;
        for (size_t left = (size_t)n; left > 0 && what != CAY_MULTIPART_END;) {
            what = cay_multipart_next(&f->parser, &at, &left);
            enum cay_file_code code = take_event(f, what);
            if (code != CAY_FILE_OK)
                return code;
        }
    }
    while (read(STDIN_FILENO, buf, sizeof buf) > 0)
        ; /* an epilogue; its sender would take a closed pipe for a failure */
    return CAY_FILE_OK;
}

enum cay_file_code cay_file_form(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    static struct form f;
    f = (struct form){.rq = *rq, .reply = reply, .draft = {.fd = -1, .place.dir_fd = -1}};
    f.rq.size = CAY_FILE_UNKNOWN;
    if (strcmp(rq->path, ".") != 0)
        (void)snprintf(f.path, sizeof f.path, "%s", rq->path);
    if (!cay_multipart_init(&f.parser, rq->boundary))
        return CAY_FILE_BAD_FORM;
    enum cay_file_code code = read_form(&f);
    cay_draft_drop(&f.draft);
    if (code == CAY_FILE_OK && reply->count == 0) {
        cay_file_tell(reply, "there is no file in it", 22);
        code = CAY_FILE_BAD_FORM;
    }
    if (code != CAY_FILE_OK)
        return code;
    cay_file_answer(reply, CAY_FILE_OK);
    (void)cay_write_all(STDOUT_FILENO, f.entries.data, f.entries.len); /* as above */
    return CAY_FILE_OK;
}
