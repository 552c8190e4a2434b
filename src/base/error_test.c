/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/path.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

TEST(error_wrap_moves_the_sentence_below)
{
    struct cay_error err = {0};
    errno = EIO;
    CHECK_EQ("code", cay_fail_errno(&err, CAY_ERR_STORE, "cannot write %s", "f"), CAY_ERR_STORE);
    CHECK_STR("cause", err.cause, "Input/output error");
    CHECK_EQ("wrap", cay_wrap(&err, "on top: %s", err.msg), CAY_ERR_STORE);
    CHECK_STR("msg", err.msg, "on top: cannot write f");
    CHECK_STR("cause", err.cause, "cannot write f: Input/output error");
    CHECK_STR("name", cay_error_name(&err), "DATABASE_ERROR");
    CHECK_EQ("as", cay_fail_as(&err, CAY_ERR_CONFLICT, "NAME_TAKEN", "x"), CAY_ERR_CONFLICT);
    CHECK_STR("name", cay_error_name(&err), "NAME_TAKEN");
    CHECK_STR("the old cause is gone", err.cause, "");
}

TEST(error_tells_what_the_host_lacks)
{
    static const struct {
        int number;
        enum cay_err of, want;
    } cases[] = {
        {EAGAIN, CAY_ERR_PROVIDER, CAY_ERR_HOST_BUSY},
        {ENOMEM, CAY_ERR_INTERNAL, CAY_ERR_HOST_BUSY},
        {EMFILE, CAY_ERR_STORE, CAY_ERR_HOST_BUSY},
        {ENOSPC, CAY_ERR_STORE, CAY_ERR_HOST_FULL},
        {EDQUOT, CAY_ERR_PROVIDER, CAY_ERR_PROVIDER}, /* the sandbox's own */
        {EPERM, CAY_ERR_PROVIDER, CAY_ERR_PROVIDER},
        {ENOMEM, CAY_ERR_NOT_FOUND, CAY_ERR_NOT_FOUND}, /* whoever says that knows more */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_error err = {0};
        errno = cases[i].number;
        CHECK_EQ("code", cay_fail_errno(&err, cases[i].of, "no"), cases[i].want);
        CHECK_EQ("in the error too", err.code, cases[i].want);
        CHECK_EQ("errno is as it was", errno, cases[i].number);
    }
    struct cay_error err = {0};
    errno = ENOSPC;
    CHECK_EQ("a count", cay_fail_count(&err, "no"), CAY_ERR_HOST_BUSY);
    CHECK_STR("name", cay_error_name(&err), "HOST_BUSY");
    CHECK_STR("not a disk", err.cause, "Resource temporarily unavailable");
    errno = EPERM;
    CHECK_EQ("another fault", cay_fail_count(&err, "no"), CAY_ERR_PROVIDER);
}

TEST(error_long_sentences_are_cut_between_characters)
{
    struct cay_error err = {0};
    char text[400];
    memset(text, 'x', sizeof text);
    memcpy(text + 158, "\xE2\x82\xAC", 4);
    (void)cay_fail(&err, CAY_ERR_INVALID, "%s", text);
    CHECK_EQ("length", strlen(err.msg), 158);
    (void)cay_fail_field(&err, "a.b", "%s is wrong", "a.b");
    CHECK_STR("field", err.field, "a.b");
}

TEST(id_has_its_form_and_is_never_the_same)
{
    char a[CAY_ID_SIZE], b[CAY_ID_SIZE];
    for (int i = 0; i < 1000; i++) {
        cay_id_sandbox(a);
        cay_id_sandbox(b);
        CHECK("sandbox", cay_id_is_sandbox(a) && strcmp(a, b) != 0);
        cay_id_execution(a);
        CHECK("execution", cay_id_is_execution(a) && !cay_id_is_sandbox(a));
    }
    CHECK("short", !cay_id_is_sandbox("sb-abc"));
    CHECK("upper case", !cay_id_is_sandbox("sb-ABCDEFGHIJKLMNOPQRST"));
    CHECK("hex only", !cay_id_is_execution("exec_000000000000000g"));
}

TEST(clock_writes_iso_8601)
{
    static const struct {
        int64_t ms;
        const char *iso;
    } times[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {1709251199999, "2024-02-29T23:59:59.999Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
        {1794736080123, "2026-11-15T09:48:00.123Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {-1, "1970-01-01T00:00:00.000Z"},
    };
    for (size_t i = 0; i < COUNT(times); i++) {
        char out[CAY_ISO_SIZE];
        CHECK_STR("iso", cay_clock_iso(times[i].ms, out), times[i].iso);
        int64_t back = -1;
        CHECK("read", cay_clock_parse(out, &back));
        CHECK_STR("read back", cay_clock_iso(back, out), times[i].iso);
    }
    int64_t none;
    CHECK("no such day", !cay_clock_parse("2023-02-29T00:00:00.000Z", &none));
    CHECK("no such hour", !cay_clock_parse("2023-02-28T24:00:00.000Z", &none));
    CHECK("another form", !cay_clock_parse("2023-02-28T23:00:00Z", &none));
}

TEST(path_replaces_files_whole)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    char *text;
    size_t len;
    struct stat st;
    CAY_AUTO_FD int top = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTO_FD int dir = -1, again = -1;
    CHECK_EQ("made", cay_path_open_dir(top, "d", 0750, &dir, &err), 0);
    CHECK_EQ("there already", cay_path_open_dir(top, "d", 0750, &again, &err), 0);
    CHECK_EQ("missing", cay_path_read(dir, "f", 10, &a, &text, &len, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ("write", cay_path_replace(dir, "f", "one", 3, 0640, &err), 0);
    CHECK_EQ("replace", cay_path_replace(dir, "f", "second", 6, 0640, &err), 0);
    CHECK_EQ("read", cay_path_read(dir, "f", 10, &a, &text, &len, &err), 0);
    CHECK_STR("text", text, "second");
    CHECK_EQ("mode", fstatat(dir, "f", &st, 0) == 0 ? st.st_mode & 07777 : 0, 0640);
    CHECK_EQ("large", cay_path_read(dir, "f", 5, &a, &text, &len, &err), CAY_ERR_TOO_LARGE);
    CHECK_EQ("no file", cay_path_read(top, "d", 5, &a, &text, &len, &err), CAY_ERR_INTERNAL);
    CHECK_EQ("link", symlinkat("f", dir, "l"), 0);
    CHECK("not followed", cay_path_read(dir, "l", 10, &a, &text, &len, &err) < 0);
}
