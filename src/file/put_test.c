/* SPDX-License-Identifier: Apache-2.0 */
#include "file/try.h"
#include "tests/test.h"
#include <string.h>
#include <sys/stat.h>

static void add(struct cay_buf *out, const char *path, const char *data, size_t len)
{
    struct cay_file_put head = {.len = len, .path_len = (uint32_t)strlen(path)};
    cay_buf_add(out, &head, sizeof head);
    cay_buf_adds(out, path);
    cay_buf_add(out, data, len);
}

static struct tried put(const struct cay_buf *frames, uint64_t count)
{
    const struct try_input in = {.data = frames->data, .len = frames->len};
    return try_file((struct cay_file_request){.op = CAY_FILE_PUT, .path = ".", .count = count},
                    &in);
}

/* What a sandbox may say of its files, and what is believed. */
TEST(seen_by_a_stranger)
{
    static const struct {
        const char *name, *path;
        uint32_t len, mode;
        uint64_t size;
        int want;
    } cases[] = {
        {"plain", "a/b", 3, 0100644, 1, 0},
        {"a link", "a", 1, 0120777, 1, 0},
        {"no name", "", 0, 0100644, 1, -1},
        {"too long a name", "a", CAY_MAX_PATH + 1, 0100644, 1, -1},
        {"a directory", "a", 1, 0040755, 1, -1},
        {"no kind", "a", 1, 0, 1, -1},
        {"a size beyond", "a", 1, 0100644, UINT64_MAX, -1},
        {"absolute", "/a", 2, 0100644, 1, -1},
        {"upwards", "a/../b", 6, 0100644, 1, -1},
        {"here", "./a", 3, 0100644, 1, -1},
        {"twice", "a//b", 4, 0100644, 1, -1},
        {"a zero in it", "a\0b", 3, 0100644, 1, -1},
        {"a repository", ".git/x", 6, 0100644, 1, -1},
        {"not all of it", "a", 2, 0100644, 1, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_file_seen out,
            s = {.path_len = cases[i].len, .mode = cases[i].mode, .size = cases[i].size};
        char bytes[sizeof s + 8] = {0};
        const char *at = bytes, *path;
        size_t given = cases[i].want == 1 ? 1 : cases[i].len, len = sizeof s;
        memcpy(bytes, &s, sizeof s);
        if (given <= 8) {
            memcpy(bytes + sizeof s, cases[i].path, given);
            len += given;
        }
        CHECK_EQ(cases[i].name, cay_file_seen_next(&at, &len, &out, &path), cases[i].want);
    }
}

TEST(put_writes_files_with_their_parents)
{
    CAY_AUTO_BUF struct cay_buf frames = {0};
    char large[200000];
    struct stat st;
    memset(large, 'x', sizeof large);
    add(&frames, "put/a/b.txt", "hello", 5);
    add(&frames, "put/empty", "", 0);
    add(&frames, "put/large", large, sizeof large);
    add(&frames, "put/a/b.txt", "again", 5);
    AUTO_TRIED struct tried t = put(&frames, 4);
    CHECK_EQ("all went well", t.reply.code, CAY_FILE_OK);
    CHECK_EQ("all of them", t.reply.count, 4);
    CHECK_STR("the later wins", try_get("put/a/b.txt"), "again");
    CHECK_STR("an empty one", try_get("put/empty"), "");
    CHECK("a large one", stat(try_path("put/large"), &st) == 0 && st.st_size == sizeof large);
    CHECK_EQ("nothing else", try_count("put/a"), 1);
}

TEST(put_stops_at_the_first_that_fails)
{
    CAY_AUTO_BUF struct cay_buf frames = {0};
    add(&frames, "stop/file", "1", 1);
    add(&frames, "stop/file/below", "2", 1);
    add(&frames, "stop/later", "3", 1);
    AUTO_TRIED struct tried t = put(&frames, 3);
    CHECK_EQ("its code", t.reply.code, CAY_FILE_NOT_A_DIRECTORY);
    CHECK_EQ("which one", t.reply.count, 2);
    CHECK_STR("the one before is there", try_get("stop/file"), "1");
    CHECK("the one behind is not", try_get("stop/later") == NULL);
}

TEST(put_takes_no_half_files)
{
    CAY_AUTO_BUF struct cay_buf frames = {0};
    add(&frames, "half/whole", "1", 1);
    add(&frames, "half/cut", "0123456789", 10);
    frames.len -= 5;
    AUTO_TRIED struct tried t = put(&frames, 2);
    CHECK_EQ("said so", t.reply.code, CAY_FILE_INCOMPLETE);
    CHECK("not there", try_get("half/cut") == NULL);
    CHECK_EQ("nothing of it", try_count("half"), 1);
    frames.len = 0;
    add(&frames, "half/whole", "2", 1);
    AUTO_TRIED struct tried missing = put(&frames, 2);
    CHECK_EQ("a sender that vanished", missing.reply.code, CAY_FILE_INCOMPLETE);
}

TEST(put_needs_its_directory)
{
    CAY_AUTO_BUF struct cay_buf frames = {0};
    add(&frames, "x", "1", 1);
    const struct try_input in = {.data = frames.data, .len = frames.len};
    AUTO_TRIED struct tried t = try_file(
        (struct cay_file_request){.op = CAY_FILE_PUT, .path = ".", .cwd = "/none", .count = 1},
        &in);
    CHECK_EQ("no such directory", t.reply.code, CAY_FILE_NOT_FOUND);
    CHECK_EQ("before any file", t.reply.count, 0);
}
