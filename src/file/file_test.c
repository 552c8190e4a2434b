/* SPDX-License-Identifier: Apache-2.0 */
/* cay-file on a directory of its own: every operation, good and bad. */
#include "file/file.h"
#include "file/try.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define TEXT(text)                                                                                 \
    &(struct try_input)                                                                            \
    {                                                                                              \
        .data = text, .len = strlen(text)                                                          \
    }
#define UNKNOWN CAY_FILE_UNKNOWN

static void make_tree(void)
{
    (void)mkdir(try_path("dir"), 0755);
    (void)mkdir(try_path("dir/sub"), 0755);
    try_put("file", "0123456789");
    try_put("dir/a", "a");
    try_put("dir/sub/b", "bb");
    (void)symlink("file", try_path("link"));
    (void)symlink("nowhere", try_path("dangling"));
    (void)symlink("dir", try_path("dirlink"));
    (void)symlink("loop", try_path("loop"));
    (void)mkfifo(try_path("pipe"), 0644);
}

static const struct {
    const char *what;
    struct cay_file_request rq;
    int code;
    const char *data;
} reads[] = {
    {"whole", {.path = "file", .length = UNKNOWN}, 0, "0123456789"},
    {"a range", {.path = "file", .offset = 2, .length = 3}, 0, "234"},
    {"cut at its end", {.path = "file", .offset = 8, .length = 30}, 0, "89"},
    {"its end", {.path = "file", .offset = UNKNOWN, .length = 2}, 0, "89"},
    {"its end and more", {.path = "file", .offset = UNKNOWN, .length = 20}, 0, "0123456789"},
    {"no end of it", {.path = "file", .offset = UNKNOWN, .length = 0}, CAY_FILE_BAD_RANGE, ""},
    {"of another", {.path = "file", .offset = 2, .length = 3, .match = "\"x\""}, 0, "0123456789"},
    {"behind its end", {.path = "file", .offset = 10, .length = 1}, CAY_FILE_BAD_RANGE, ""},
    {"by a link", {.path = "link", .length = UNKNOWN}, 0, "0123456789"},
    {"through dots", {.path = "dir/../file", .length = UNKNOWN}, 0, "0123456789"},
    {"a directory", {.path = "dir"}, CAY_FILE_IS_A_DIRECTORY, ""},
    {"a pipe", {.path = "pipe"}, CAY_FILE_NOT_A_FILE, ""},
    {"nothing", {.path = "no"}, CAY_FILE_NOT_FOUND, ""},
    {"below a file", {.path = "file/x"}, CAY_FILE_NOT_A_DIRECTORY, ""},
    {"a loop", {.path = "loop"}, CAY_FILE_LOOP, ""},
};

TEST(file_reads)
{
    make_tree();
    for (size_t i = 0; i < COUNT(reads); i++) {
        struct cay_file_request rq = reads[i].rq;
        rq.op = CAY_FILE_READ;
        AUTO_TRIED struct tried t = try_file(rq, NULL);
        CHECK_EQ(reads[i].what, t.reply.code, reads[i].code);
        CHECK_EQ(reads[i].what, t.data.len, strlen(reads[i].data));
        CHECK(reads[i].what, !t.data.len || memcmp(t.data.data, reads[i].data, t.data.len) == 0);
    }
    AUTO_TRIED struct tried t = try_file((struct cay_file_request){.op = CAY_FILE_READ,
                                                                   .path = "/proc/self/stat",
                                                                   .length = UNKNOWN},
                                         NULL);
    AUTO_TRIED struct tried page =
        try_file((struct cay_file_request){.op = CAY_FILE_READ,
                                           .path = "/sys/devices/system/cpu/online",
                                           .length = UNKNOWN,
                                           .flags = CAY_FILE_HASH},
                 NULL);
    CHECK("a file that says it is a page",
          page.reply.code != 0 || (page.reply.length == page.data.len && page.data.len < 4096));
    CHECK("a file that says it is empty", t.reply.length == t.data.len && t.data.len > 10);
}

static const struct {
    const char *what, *target;
    int code;
} links[] = {
    {"to a file", "victim", 0},
    {"to nothing", "nowhere", 0},
    {"to a directory", "dir", 0},
    {"to itself", "l", 0},
    {"to a device", "/dev/null", CAY_FILE_NOT_A_FILE},
};

TEST(file_write_replaces_a_link)
{
    struct stat st = {0};
    (void)mkdir(try_path("dir"), 0755);
    for (size_t i = 0; i < COUNT(links); i++) {
        try_put("victim", "safe");
        (void)unlink(try_path("l"));
        (void)symlink(links[i].target, try_path("l"));
        AUTO_TRIED struct tried t = try_file(
            (struct cay_file_request){
                .op = CAY_FILE_WRITE, .path = "l", .size = 3, .flags = CAY_FILE_REPLACE},
            &(struct try_input){"new", 3, false});
        CHECK_EQ(links[i].what, t.reply.code, links[i].code);
        CHECK_STR(links[i].what, try_get("victim"), "safe");
        CHECK_EQ(links[i].what, lstat(try_path("l"), &st), 0);
        CHECK(links[i].what, links[i].code ? S_ISLNK(st.st_mode) : S_ISREG(st.st_mode));
    }
    CHECK_EQ("nothing else is there", try_count("."), 3);
}

static const struct {
    const char *what;
    struct cay_file_request rq;
    struct try_input in;
    int code;
    const char *name, *content; /* afterwards */
} writes[] = {
    {"a new one", {.path = "new", .size = 3}, {"abc", 3}, 0, "new", "abc"},
    {"over an old one", {.path = "file", .size = UNKNOWN}, {"abc", 3}, 0, "file", "abc"},
    {"an empty one", {.path = "empty", .size = 0}, {"", 0}, 0, "empty", ""},
    {"with parents", {.path = "x/y/z", .size = UNKNOWN}, {"abc", 3}, 0, "x/y/z", "abc"},
    {"hashed", {.path = "h", .size = 3, .flags = CAY_FILE_HASH}, {"abc", 3}, 0, "h", "abc"},
    {"too little", {.path = "few", .size = 4}, {"abc", 3}, CAY_FILE_INCOMPLETE, "few", NULL},
    {"too little, over one",
     {.path = "link", .size = 4},
     {"ab", 2},
     CAY_FILE_INCOMPLETE,
     "file",
     "abc"},
    {"not committed",
     {.path = "q/r/s", .size = UNKNOWN, .flags = CAY_FILE_COMMIT},
     {"abc", 3, true},
     CAY_FILE_INCOMPLETE,
     "q",
     NULL},
    {"committed",
     {.path = "c", .size = UNKNOWN, .flags = CAY_FILE_COMMIT},
     {"abc", 3},
     0,
     "c",
     "abc"},
    {"too much",
     {.path = "big", .size = UNKNOWN, .limit_bytes = 2},
     {"abc", 3},
     CAY_FILE_TOO_LARGE,
     "big",
     NULL},
    {"through a link", {.path = "link", .size = UNKNOWN}, {"via", 3}, 0, "file", "via"},
    {"through a link to nothing",
     {.path = "dangling", .size = UNKNOWN},
     {"n", 1},
     0,
     "nowhere",
     "n"},
    {"a loop", {.path = "loop", .size = UNKNOWN}, {"n", 1}, CAY_FILE_LOOP, "new", "abc"},
    {"a directory",
     {.path = "dir", .size = UNKNOWN},
     {"n", 1},
     CAY_FILE_IS_A_DIRECTORY,
     "new",
     "abc"},
    {"a slash", {.path = "new/", .size = UNKNOWN}, {"n", 1}, CAY_FILE_IS_A_DIRECTORY, "new", "abc"},
    {"a pipe", {.path = "pipe", .size = UNKNOWN}, {"n", 1}, CAY_FILE_NOT_A_FILE, "new", "abc"},
    {"below a file",
     {.path = "file/x", .size = UNKNOWN},
     {"n", 1},
     CAY_FILE_NOT_A_DIRECTORY,
     "file",
     "via"},
    {"only new, and is not",
     {.path = "new", .size = UNKNOWN, .flags = CAY_FILE_NEW},
     {"n", 1},
     CAY_FILE_EXISTS,
     "new",
     "abc"},
    {"of another state",
     {.path = "new", .size = UNKNOWN, .match = "\"1-2-3\""},
     {"n", 1},
     CAY_FILE_CHANGED,
     "new",
     "abc"},
    {"of any state", {.path = "new", .size = UNKNOWN, .match = "*"}, {"n", 1}, 0, "new", "n"},
    {"of any state, and is not there",
     {.path = "w/v", .size = UNKNOWN, .match = "*"},
     {"n", 1},
     CAY_FILE_CHANGED,
     "w",
     NULL},
};

TEST(file_writes)
{
    make_tree();
    for (size_t i = 0; i < COUNT(writes); i++) {
        struct cay_file_request rq = writes[i].rq;
        rq.op = CAY_FILE_WRITE;
        AUTO_TRIED struct tried t = try_file(rq, &writes[i].in);
        CHECK_EQ(writes[i].what, t.reply.code, writes[i].code);
        CHECK_STR(writes[i].what, try_get(writes[i].name), writes[i].content);
        if (t.reply.code == 0)
            CHECK_EQ(writes[i].what, t.reply.info.size, writes[i].in.len);
        if (rq.flags & CAY_FILE_HASH)
            CHECK_EQ(writes[i].what, t.reply.sha256[0], 0xba); /* sha256("abc") */
    }
    struct stat st;
    CHECK("the link is still one", lstat(try_path("link"), &st) == 0 && S_ISLNK(st.st_mode));
    CHECK_EQ("nothing else is left", try_count("."), 13);
}

TEST(file_writes_modes)
{
    static const struct {
        const char *what;
        uint64_t given;
        int before, after;
    } cases[] = {{"usual", 0, -1, 0644},
                 {"given", CAY_FILE_MODE | 0600, -1, 0600},
                 {"kept", 0, 0751, 0751},
                 {"given over", CAY_FILE_MODE | 0444, 0751, 0444}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct stat st = {0};
        (void)unlink(try_path("f"));
        if (cases[i].before >= 0) {
            try_put("f", "x");
            (void)chmod(try_path("f"), (mode_t)cases[i].before);
        }
        AUTO_TRIED struct tried t = try_file(
            (struct cay_file_request){
                .op = CAY_FILE_WRITE, .path = "f", .size = 1, .mode = cases[i].given},
            TEXT("y"));
        CHECK_EQ(cases[i].what, t.reply.code, 0);
        (void)stat(try_path("f"), &st);
        CHECK_EQ(cases[i].what, st.st_mode & 07777, cases[i].after);
    }
}

TEST(file_appends)
{
    static const struct {
        const char *what, *path;
        uint64_t size;
        bool uncommitted;
        int code;
        const char *content;
    } cases[] = {
        {"new", "log", UNKNOWN, false, 0, "x"},
        {"again", "log", 1, false, 0, "xx"},
        {"incomplete", "log", 5, false, CAY_FILE_INCOMPLETE, "xx"},
        {"uncommitted", "log", UNKNOWN, true, CAY_FILE_INCOMPLETE, "xx"},
        {"uncommitted new", "n/log", UNKNOWN, true, CAY_FILE_INCOMPLETE, NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct try_input in = {"x", 1, cases[i].uncommitted};
        AUTO_TRIED struct tried t = try_file((struct cay_file_request){.op = CAY_FILE_APPEND,
                                                                       .path = cases[i].path,
                                                                       .size = cases[i].size,
                                                                       .flags = CAY_FILE_COMMIT},
                                             &in);
        CHECK_EQ(cases[i].what, t.reply.code, cases[i].code);
        CHECK_STR(cases[i].what, try_get(cases[i].path), cases[i].content);
    }
    CHECK_EQ("nothing is left", try_count("."), 1);
}

TEST(file_stats)
{
    make_tree();
    AUTO_TRIED struct tried file = try_file(
        (struct cay_file_request){.op = CAY_FILE_STAT, .path = "file", .flags = CAY_FILE_HASH},
        NULL);
    CHECK("a file", S_ISREG(file.reply.info.mode) && file.reply.info.size == 10);
    CHECK_EQ("hash", file.reply.sha256[0], 0x84); /* sha256("0123456789") */
    AUTO_TRIED struct tried link =
        try_file((struct cay_file_request){.op = CAY_FILE_STAT, .path = "dirlink"}, NULL);
    CHECK("a link", S_ISLNK(link.reply.info.mode) && (link.reply.flags & CAY_FILE_HAS_TARGET));
    CHECK("to a directory", S_ISDIR(link.reply.target.mode));
    CHECK("its target", link.data.len == 3 && memcmp(link.data.data, "dir", 3) == 0);
    AUTO_TRIED struct tried dangling =
        try_file((struct cay_file_request){.op = CAY_FILE_STAT, .path = "dangling"}, NULL);
    CHECK("to nothing", !(dangling.reply.flags & CAY_FILE_HAS_TARGET));
}

/* Pages of `page` entries, joined by blanks. */
static const char *list(uint64_t depth, uint64_t page, char *out, size_t size)
{
    char after[256] = "";
    size_t len = 0;
    for (bool more = true; more;) {
        AUTO_TRIED struct tried t = try_file(
            (struct cay_file_request){
                .op = CAY_FILE_LIST, .path = "top", .depth = depth, .count = page, .after = after},
            NULL);
        const char *at = t.data.data;
        size_t left = t.data.len;
        struct cay_file_item item;
        CHECK_EQ("listed", t.reply.code, 0);
        for (uint32_t i = 0; i < t.reply.count; i++) {
            if (cay_file_entry_next(&at, &left, &item) != 0) {
                test_failed(__FILE__, __LINE__, "a broken entry");
                return "";
            }
            len += (size_t)snprintf(out + len, size - len, "%.*s ", (int)item.path_len, item.path);
            (void)snprintf(after, sizeof after, "%.*s", (int)item.path_len, item.path);
        }
        CHECK_EQ("no more than told", left, 0);
        more = t.reply.flags & CAY_FILE_MORE;
    }
    return out;
}

TEST(file_lists_in_order_and_in_pages)
{
    static const char want[] = "a a.b b b/x b/x/1 b/x/2 b/y c ";
    char out[4096];
    static const char *const dirs[] = {"top", "top/a", "top/b", "top/b/x"};
    for (size_t i = 0; i < COUNT(dirs); i++)
        (void)mkdir(try_path(dirs[i]), 0755);
    static const char *const files[] = {"top/a.b", "top/b/x/1", "top/b/x/2", "top/b/y", "top/c"};
    for (size_t i = 0; i < COUNT(files); i++)
        try_put(files[i], "");
    for (uint64_t page = 1; page < 10; page++)
        CHECK_STR("all", list(64, page, out, sizeof out), want);
    CHECK_STR("one level", list(1, 2, out, sizeof out), "a a.b b c ");
    CHECK_STR("two levels", list(2, 3, out, sizeof out), "a a.b b b/x b/y c ");
    AUTO_TRIED struct tried t =
        try_file((struct cay_file_request){.op = CAY_FILE_LIST, .path = "top/c"}, NULL);
    CHECK_EQ("no directory", t.reply.code, CAY_FILE_NOT_A_DIRECTORY);
}

TEST(file_lists_many)
{
    char name[64], out[65536], last[64] = "";
    size_t count = 0;
    (void)mkdir(try_path("top"), 0755);
    for (int i = 0; i < 2500; i++) {
        (void)snprintf(name, sizeof name, "top/f%d", i * 7919 % 2500);
        try_put(name, "");
    }
    char *at = out;
    (void)list(1, 0, out, sizeof out);
    for (char *word; (word = strsep(&at, " ")) && *word; count++) {
        CHECK("in order", strcmp(last, word) < 0);
        (void)snprintf(last, sizeof last, "%s", word);
    }
    CHECK_EQ("all of them", count, 2500);
}

static const struct {
    const char *what;
    struct cay_file_request rq;
    int code;
    const char *there, *gone;
} changes[] = {
    {"mkdir", {.op = CAY_FILE_MKDIR, .path = "m"}, 0, "m", NULL},
    {"mkdir again", {.op = CAY_FILE_MKDIR, .path = "m"}, CAY_FILE_EXISTS, "m", NULL},
    {"mkdir, no parents", {.op = CAY_FILE_MKDIR, .path = "n/o"}, CAY_FILE_NOT_FOUND, "m", "n"},
    {"mkdir, parents",
     {.op = CAY_FILE_MKDIR, .path = "n/o/", .flags = CAY_FILE_PARENTS},
     0,
     "n/o",
     NULL},
    {"mkdir -p again",
     {.op = CAY_FILE_MKDIR, .path = "n/o", .flags = CAY_FILE_PARENTS},
     0,
     "n/o",
     NULL},
    {"mkdir over a file",
     {.op = CAY_FILE_MKDIR, .path = "file", .flags = CAY_FILE_PARENTS},
     CAY_FILE_EXISTS,
     "file",
     NULL},
    {"mkdir below a file",
     {.op = CAY_FILE_MKDIR, .path = "file/x", .flags = CAY_FILE_PARENTS},
     CAY_FILE_NOT_A_DIRECTORY,
     "file",
     NULL},
    {"move", {.op = CAY_FILE_MOVE, .path = "file", .to = "p/moved"}, 0, "p/moved", "file"},
    {"move nothing",
     {.op = CAY_FILE_MOVE, .path = "file", .to = "z/x"},
     CAY_FILE_NOT_FOUND,
     "m",
     "z"},
    {"move a link", {.op = CAY_FILE_MOVE, .path = "dangling", .to = "l2"}, 0, NULL, "dangling"},
    {"move over, refused",
     {.op = CAY_FILE_MOVE, .path = "p/moved", .to = "dir/a", .flags = CAY_FILE_NEW},
     CAY_FILE_EXISTS,
     "p/moved",
     NULL},
    {"move over", {.op = CAY_FILE_MOVE, .path = "p/moved", .to = "dir/a"}, 0, "dir/a", "p/moved"},
    {"move to a directory",
     {.op = CAY_FILE_MOVE, .path = "dir/a", .to = "n"},
     CAY_FILE_IS_A_DIRECTORY,
     "dir/a",
     NULL},
    {"move into itself",
     {.op = CAY_FILE_MOVE, .path = "dir", .to = "dir/sub/x"},
     CAY_FILE_INVALID_PATH,
     "dir/sub",
     "dir/sub/x"},
    {"remove", {.op = CAY_FILE_REMOVE, .path = "dir/a"}, 0, "dir", "dir/a"},
    {"remove nothing", {.op = CAY_FILE_REMOVE, .path = "dir/a"}, CAY_FILE_NOT_FOUND, "dir", NULL},
    {"remove what is full",
     {.op = CAY_FILE_REMOVE, .path = "dir"},
     CAY_FILE_NOT_EMPTY,
     "dir/sub/b",
     NULL},
    {"remove a link to it",
     {.op = CAY_FILE_REMOVE, .path = "dirlink", .flags = CAY_FILE_RECURSIVE},
     0,
     "dir/sub/b",
     "dirlink"},
    {"remove dots",
     {.op = CAY_FILE_REMOVE, .path = "dir/.", .flags = CAY_FILE_RECURSIVE},
     CAY_FILE_INVALID_PATH,
     "dir/sub/b",
     NULL},
    {"remove all of it",
     {.op = CAY_FILE_REMOVE, .path = "dir", .flags = CAY_FILE_RECURSIVE},
     0,
     "m",
     "dir"},
    {"remove what is empty", {.op = CAY_FILE_REMOVE, .path = "m"}, 0, "n", "m"},
};

TEST(file_changes_names)
{
    make_tree();
    for (size_t i = 0; i < COUNT(changes); i++) {
        AUTO_TRIED struct tried t = try_file(changes[i].rq, NULL);
        CHECK_EQ(changes[i].what, t.reply.code, changes[i].code);
        if (changes[i].there)
            CHECK(changes[i].what, access(try_path(changes[i].there), F_OK) == 0);
        if (changes[i].gone)
            CHECK(changes[i].what, access(try_path(changes[i].gone), F_OK) < 0);
    }
}

/* Deeper than any path, with links to what must stay. */
TEST(file_removes_any_depth)
{
    (void)mkdir(try_path("deep"), 0755);
    try_put("stays", "x");
    CAY_AUTO_FD int fd = open(try_path("deep"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 1000; i++) {
        (void)mkdirat(fd, "0123456789", 0755);
        (void)symlinkat("/tmp", fd, "link");
        int next = openat(fd, "0123456789", O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)close(fd);
        fd = next;
    }
    AUTO_TRIED struct tried t = try_file((struct cay_file_request){.op = CAY_FILE_REMOVE,
                                                                   .path = "deep",
                                                                   .flags = CAY_FILE_RECURSIVE},
                                         NULL);
    CHECK_EQ("removed", t.reply.code, 0);
    CHECK("gone", access(try_path("deep"), F_OK) < 0 && try_get("stays"));
}

TEST(file_args_come_back)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    const char *only[] = {"a", "b=c"}, *lists[CAY_FILE_LISTS];
    struct cay_file_request rq = {.op = CAY_FILE_PACK,
                                  .path = "p=q",
                                  .mode = CAY_FILE_MODE,
                                  .size = UNKNOWN,
                                  .only = {.at = only, .count = 2}},
                            back;
    char *argv[16];
    uint32_t argc = cay_file_encode(&rq, &b);
    char *at = b.data;
    for (uint32_t i = 0; i < argc; i++, at += strlen(at) + 1)
        argv[i] = at;
    CHECK("decoded", cay_file_decode((int)argc, argv, &back, lists, COUNT(lists)));
    CHECK_STR("path", back.path, "p=q");
    CHECK("size", back.size == UNKNOWN && back.mode == CAY_FILE_MODE);
    CHECK("list", back.only.count == 2 && strcmp(back.only.at[1], "b=c") == 0);
    CHECK("unknown keys are refused",
          !cay_file_decode(3, (char *[]){(char *)"cay-file", (char *)"read", (char *)"x=1"}, &back,
                           lists, COUNT(lists)));
}

TEST(sha256_knows_its_answers)
{
    static const struct {
        const char *what;
        size_t len; /* of so many 'a' */
        uint8_t first[4];
    } cases[] = {
        {"nothing", 0, {0xe3, 0xb0, 0xc4, 0x42}},
        {"55", 55, {0x9f, 0x43, 0x90, 0xf8}},
        {"56", 56, {0xb3, 0x54, 0x39, 0xa4}},
        {"64", 64, {0xff, 0xe0, 0x54, 0xfe}},
        {"a million", 1000000, {0xcd, 0xc7, 0x6e, 0x5c}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_sha256 s;
        uint8_t out[32];
        cay_sha256_init(&s);
        for (size_t left = cases[i].len, step = 1; left > 0; step = step % 97 + 1) {
            char as[100];
            size_t n = step < left ? step : left;
            memset(as, 'a', n);
            cay_sha256_add(&s, as, n);
            left -= n;
        }
        cay_sha256_done(&s, out);
        CHECK(cases[i].what, memcmp(out, cases[i].first, 4) == 0);
    }
}
