/* SPDX-License-Identifier: Apache-2.0 */
/* Archives and forms: there and back, and what they may not do. */
#include "file/file.h"
#include "file/multipart.h"
#include "file/tar.h"
#include "file/try.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <zlib.h>

#define LONG "long-long-long-long-long-long-long-long-long-long-long-long/long-long-long-long-long"

static void add(struct cay_buf *tar, char type, const char *path, const char *link,
                const char *data, uint32_t mode)
{
    static const char zeros[CAY_TAR_BLOCK];
    struct cay_tar_entry e = {.type = (enum cay_tar_type)type, .mode = mode, .mtime = 1000000000};
    (void)snprintf(e.path, sizeof e.path, "%s", path);
    (void)snprintf(e.link, sizeof e.link, "%s", link);
    e.size = strlen(data);
    cay_tar_write(&e, tar);
    cay_buf_add(tar, data, e.size);
    cay_buf_add(tar, zeros, (CAY_TAR_BLOCK - e.size % CAY_TAR_BLOCK) % CAY_TAR_BLOCK);
}

static void end(struct cay_buf *tar)
{
    static const char zeros[2 * CAY_TAR_BLOCK];
    cay_buf_add(tar, zeros, sizeof zeros);
}

static struct tried unpack(const struct cay_buf *tar, const char *into, uint64_t limit)
{
    return try_file(
        (struct cay_file_request){.op = CAY_FILE_UNPACK, .path = into, .limit_bytes = limit},
        &(struct try_input){tar->data, tar->len, false});
}

static void make_tree(void)
{
    (void)mkdir(try_path("t"), 0755);
    (void)mkdir(try_path("t/d"), 0750);
    (void)mkdir(try_path("t/closed"), 0755);
    (void)mkdir(try_path("t/" LONG), 0755);
    try_put("t/a", "content of a");
    try_put("t/d/empty", "");
    try_put("t/closed/in", "in");
    (void)link(try_path("t/a"), try_path("t/same"));
    (void)symlink("../a", try_path("t/d/link"));
    (void)chmod(try_path("t/a"), 0640);
    (void)chmod(try_path("t/closed"), 0555);
    char deep[512];
    (void)snprintf(deep, sizeof deep, "t/%.60s", LONG);
    (void)mkdir(try_path(deep), 0755);
    (void)snprintf(deep, sizeof deep, "t/%s", LONG);
    (void)mkdir(try_path(deep), 0755);
    (void)snprintf(deep, sizeof deep, "t/%s/%s", LONG,
                   "name-that-needs-a-pax-header-because-of-us");
    try_put(deep, "long");
    CAY_AUTO_FD int fd = open(try_path("t/sparse"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)!pwrite(fd, "end", 3, 10 * CAY_MIB);
}

static void check_tree(const char *what, const char *top, bool holes)
{
    char path[600];
    struct stat st = {0}, other = {0};
    const struct {
        const char *name, *content;
    } files[] = {{"a", "content of a"},
                 {"d/empty", ""},
                 {"closed/in", "in"},
                 {"d/link", "content of a"},
                 {LONG "/name-that-needs-a-pax-header-because-of-us", "long"}};
    for (size_t i = 0; i < COUNT(files); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", top, files[i].name);
        CHECK_STR(what, try_get(path), files[i].content);
    }
    (void)snprintf(path, sizeof path, "%s/a", top);
    CHECK(what, stat(try_path(path), &st) == 0 && (st.st_mode & 07777) == 0640);
    (void)snprintf(path, sizeof path, "%s/same", top);
    CHECK(what, stat(try_path(path), &other) == 0 && st.st_ino == other.st_ino);
    (void)snprintf(path, sizeof path, "%s/closed", top);
    CHECK(what, stat(try_path(path), &st) == 0 && (st.st_mode & 07777) == 0555);
    (void)snprintf(path, sizeof path, "%s/d", top);
    CHECK(what, stat(try_path(path), &st) == 0 && (st.st_mode & 07777) == 0750);
    (void)snprintf(path, sizeof path, "%s/sparse", top);
    CHECK(what, stat(try_path(path), &st) == 0 && st.st_size == 10 * CAY_MIB + 3);
    CHECK(what, !holes || st.st_blocks < 2048);
}

TEST(archive_there_and_back)
{
    static const struct {
        const char *what, *into;
        uint64_t flags;
    } cases[] = {{"tar", "plain", 0}, {"tar.gz", "squeezed", CAY_FILE_GZIP}};
    make_tree();
    for (size_t i = 0; i < COUNT(cases); i++) {
        AUTO_TRIED struct tried packed = try_file(
            (struct cay_file_request){.op = CAY_FILE_PACK, .path = "t", .flags = cases[i].flags},
            NULL);
        CHECK_EQ(cases[i].what, packed.reply.code, 0);
        AUTO_TRIED struct tried t = unpack(&packed.data, cases[i].into, 0);
        CHECK_EQ(cases[i].what, t.reply.code, 0);
        CHECK_STR(cases[i].what, t.reply.detail, "");
        check_tree(cases[i].what, cases[i].into, true);
        AUTO_TRIED struct tried again = unpack(&packed.data, cases[i].into, 0);
        CHECK_EQ("over what is there", again.reply.code, 0);
        for (size_t cut = 600; cut < packed.data.len; cut += packed.data.len / 5) {
            struct cay_buf part = {packed.data.data, cut, 0};
            AUTO_TRIED struct tried half = unpack(&part, "half", 0);
            CHECK_EQ("cut", half.reply.code, CAY_FILE_BAD_ARCHIVE);
        }
    }
}

TEST(archive_is_read_by_others)
{
    make_tree();
    AUTO_TRIED struct tried packed = try_file(
        (struct cay_file_request){.op = CAY_FILE_PACK, .path = "t", .flags = CAY_FILE_GZIP}, NULL);
    CAY_AUTO_FD int fd = open(try_path("x.tgz"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK("written", write(fd, packed.data.data, packed.data.len) == (ssize_t)packed.data.len);
    char line[600];
    (void)snprintf(line, sizeof line,
                   "cd %s && mkdir o && tar -C o -xSpzf x.tgz && tar -C t -cf y.tar . && "
                   "tar --format=gnu -C t -cf z.tar . && tar --format=ustar -C t -cf u.tar .",
                   test_dir());
    CHECK_EQ("tar reads it", system(line), 0);
    check_tree("unpacked by tar", "o", false);
    static const char *const theirs[] = {"y.tar", "z.tar", "u.tar"};
    for (size_t i = 0; i < COUNT(theirs); i++) {
        CAY_AUTO_BUF struct cay_buf b = {0};
        CAY_AUTO_FD int in = open(try_path(theirs[i]), O_RDONLY | O_CLOEXEC);
        struct stat st;
        (void)fstat(in, &st);
        b.len = (size_t)read(in, cay_buf_room(&b, (size_t)st.st_size), (size_t)st.st_size);
        AUTO_TRIED struct tried t = unpack(&b,
                                           theirs[i][0] == 'y'   ? "py"
                                           : theirs[i][0] == 'z' ? "pz"
                                                                 : "pu",
                                           0);
        CHECK_EQ(theirs[i], t.reply.code, 0);
    }
    check_tree("made by tar", "pz", true);
    check_tree("made by tar, ustar", "pu", true);
}

TEST(archive_leaves_out)
{
    make_tree();
    const char *only[] = {"d", "closed/in"}, *except[] = {"*.o", "empty"};
    AUTO_TRIED struct tried packed =
        try_file((struct cay_file_request){.op = CAY_FILE_PACK,
                                           .path = "t",
                                           .only = {.at = only, .count = 2},
                                           .except = {.at = except, .count = 2}},
                 NULL);
    AUTO_TRIED struct tried t = unpack(&packed.data, "o", 0);
    CHECK_EQ("unpacked", t.reply.count, 3);
    CHECK("what was wanted", try_get("o/closed/in") && access(try_path("o/d"), F_OK) == 0);
    CHECK("and nothing else", !try_get("o/d/empty") && !try_get("o/a"));
}

struct member {
    char type;
    const char *path, *link, *data;
};

static const struct {
    const char *what;
    struct member members[3];
    int code;
} hostile[] = {
    {"absolute", {{'0', "/abs", "", "x"}}, 0},
    {"dots", {{'0', "../out", "", "x"}}, CAY_FILE_BAD_ARCHIVE},
    {"dots inside", {{'0', "a/../../out", "", "x"}}, CAY_FILE_BAD_ARCHIVE},
    {"through a link", {{'2', "l", "..", ""}, {'0', "l/out", "", "x"}}, CAY_FILE_BAD_ARCHIVE},
    {"through an absolute link",
     {{'2', "l", "/tmp", ""}, {'0', "l/out", "", "x"}},
     CAY_FILE_BAD_ARCHIVE},
    {"over a link", {{'2', "l", "../victim", ""}, {'0', "l", "", "x"}}, 0},
    {"a directory over a link",
     {{'2', "l", "..", ""}, {'5', "l", "", ""}, {'0', "l/out", "", "x"}},
     0},
    {"a directory below a link",
     {{'2', "l", "..", ""}, {'5', "l/out", "", ""}},
     CAY_FILE_BAD_ARCHIVE},
    {"a hard link out", {{'1', "h", "../victim", ""}}, CAY_FILE_BAD_ARCHIVE},
    {"a hard link out, absolute", {{'1', "h", "/etc/hostname", ""}}, CAY_FILE_BAD_ARCHIVE},
    {"a hard link through a link",
     {{'2', "l", "..", ""}, {'1', "h", "l/victim", ""}},
     CAY_FILE_BAD_ARCHIVE},
    {"a hard link to a link, then over it",
     {{'2', "l", "../victim", ""}, {'1', "h", "l", ""}, {'0', "h", "", "x"}},
     0},
    {"a device", {{'3', "dev", "", ""}, {'6', "fifo", "", ""}}, 0},
    {"sparse", {{'S', "s", "", ""}}, CAY_FILE_BAD_ARCHIVE},
    {"no name", {{'0', "./", "", ""}}, 0},
    {"a name that is a file",
     {{'0', "f", "", "x"}, {'0', "f/g", "", "x"}},
     CAY_FILE_NOT_A_DIRECTORY},
};

TEST(archive_stays_inside)
{
    for (size_t i = 0; i < COUNT(hostile); i++) {
        CAY_AUTO_BUF struct cay_buf tar = {0};
        char into[32];
        try_put("victim", "safe");
        for (size_t k = 0; k < 3 && hostile[i].members[k].type; k++)
            add(&tar, hostile[i].members[k].type, hostile[i].members[k].path,
                hostile[i].members[k].link, hostile[i].members[k].data, 0644);
        end(&tar);
        (void)snprintf(into, sizeof into, "into-%zu", i);
        AUTO_TRIED struct tried t = unpack(&tar, into, 0);
        CHECK_EQ(hostile[i].what, t.reply.code, hostile[i].code);
        CHECK(hostile[i].what, access(try_path("out"), F_OK) < 0);
        CHECK_STR(hostile[i].what, try_get("victim"), "safe");
    }
    CHECK_STR("an absolute name is one inside", try_get("into-0/abs"), "x");
    CHECK("no device, no pipe",
          access(try_path("into-12/dev"), F_OK) < 0 && access(try_path("into-12/fifo"), F_OK) < 0);
}

/* A directory's mode is set at the end, when a link on the way to it leads to another one. */
static const struct {
    const char *what, *there; /* y/d: a link to, or NULL: a directory that was there before */
} swapped[] = {
    {"to a link to a file outside", "../../victim"},
    {"to a link to a directory outside", "../../outside"},
    {"to a directory that was there", NULL},
};

TEST(archive_changes_no_mode_of_others)
{
    struct stat st = {0};
    try_put("victim", "safe");
    CHECK_EQ("outside", mkdir(try_path("outside"), 0700), 0);
    (void)chmod(try_path("victim"), 0600);
    for (size_t i = 0; i < COUNT(swapped); i++) {
        CAY_AUTO_BUF struct cay_buf tar = {0};
        char into[32], inner[64];
        (void)snprintf(into, sizeof into, "swap-%zu", i);
        (void)mkdir(try_path(into), 0755);
        (void)snprintf(inner, sizeof inner, "%s/y", into);
        (void)mkdir(try_path(inner), 0755);
        (void)snprintf(inner, sizeof inner, "%s/y/d", into);
        if (!swapped[i].there)
            (void)mkdir(try_path(inner), 0700);
        add(&tar, '5', "x/", "", "", 0755);
        add(&tar, '5', "b/", "", "", 0755);
        add(&tar, '2', "b/l", "../x", "", 0777);
        add(&tar, '2', "a", "b/l", "", 0777);
        add(&tar, '5', "a/d/", "", "", 0666);
        if (swapped[i].there)
            add(&tar, '2', "y/d", swapped[i].there, "", 0777);
        add(&tar, '2', "b/l", "../y", "", 0777);
        end(&tar);
        AUTO_TRIED struct tried t = unpack(&tar, into, 0);
        CHECK_EQ(swapped[i].what, t.reply.code, 0);
        CHECK_EQ(swapped[i].what, stat(try_path(inner), &st), 0);
        CHECK_EQ(swapped[i].what, st.st_mode & 07777, S_ISDIR(st.st_mode) ? 0700 : 0600);
    }
}

/* Whatever the umask, and whoever it is: modes come out as the archive has them. */
TEST(archive_sets_modes_of_directories)
{
    static const mode_t masks[] = {022, 077, 0777};
    static const uint32_t modes[] = {0755, 0555, 0311, 0, 01777, 02750};
    for (size_t i = 0; i < COUNT(masks); i++) {
        CAY_AUTO_BUF struct cay_buf tar = {0};
        char path[64];
        struct stat st = {0};
        for (size_t k = 0; k < COUNT(modes); k++) {
            (void)snprintf(path, sizeof path, "up/%04o/", modes[k]);
            add(&tar, '5', path, "", "", modes[k]);
            (void)snprintf(path, sizeof path, "up/%04o/sub/", modes[k]);
            add(&tar, '5', path, "", "", 0500);
        }
        end(&tar);
        (void)snprintf(path, sizeof path, "modes-%zu", i);
        mode_t before = umask(masks[i]);
        AUTO_TRIED struct tried t = unpack(&tar, path, 0);
        (void)umask(before);
        CHECK_EQ("unpacked", t.reply.code, 0);
        for (size_t k = 0; k < COUNT(modes); k++) {
            (void)snprintf(path, sizeof path, "modes-%zu/up/%04o", i, modes[k]);
            CHECK_EQ(path, stat(try_path(path), &st), 0);
            CHECK_EQ(path, st.st_mode & 07777, modes[k]);
        }
    }
}

TEST(archive_replaces_a_link)
{
    for (int replace = 0; replace < 2; replace++) {
        CAY_AUTO_BUF struct cay_buf tar = {0};
        struct stat st = {0};
        (void)mkdir(try_path("elsewhere"), 0755);
        (void)symlink("elsewhere", try_path("l"));
        add(&tar, '0', replace ? "in" : "through", "", "x", 0644);
        end(&tar);
        AUTO_TRIED struct tried t = try_file(
            (struct cay_file_request){
                .op = CAY_FILE_UNPACK, .path = "l", .flags = replace ? CAY_FILE_REPLACE : 0},
            &(struct try_input){tar.data, tar.len, false});
        CHECK_EQ("unpacked", t.reply.code, 0);
        CHECK_EQ("there", lstat(try_path("l"), &st), 0);
        CHECK("a link, or what replaced it", S_ISDIR(st.st_mode) == replace);
    }
    CHECK_STR("in its place", try_get("l/in"), "x");
    CHECK_EQ("only what went through", try_count("elsewhere"), 1);
}

TEST(archive_owns_nothing_when_it_is_plain)
{
    CAY_AUTO_BUF struct cay_buf tar = {0};
    struct stat st = {0};
    add(&tar, '0', "suid", "", "x", 06755);
    end(&tar);
    for (int plain = 0; plain < 2; plain++) {
        AUTO_TRIED struct tried t =
            try_file((struct cay_file_request){.op = CAY_FILE_UNPACK,
                                               .path = plain ? "p" : "q",
                                               .flags = plain ? CAY_FILE_PLAIN : 0},
                     &(struct try_input){tar.data, tar.len, false});
        CHECK_EQ("unpacked", t.reply.code, 0);
        CHECK_EQ("there", stat(try_path(plain ? "p/suid" : "q/suid"), &st), 0);
        CHECK_EQ("its mode", st.st_mode & 07777, plain ? 0755 : 06755);
    }
}

TEST(archive_is_bounded)
{
    CAY_AUTO_BUF struct cay_buf tar = {0};
    struct cay_tar_entry e = {.type = CAY_TAR_FILE, .path = "big", .size = 1ULL << 40};
    cay_tar_write(&e, &tar);
    AUTO_TRIED struct tried t = unpack(&tar, "o", CAY_MIB);
    CHECK_EQ("a terabyte", t.reply.code, CAY_FILE_TOO_LARGE);
    /* 16 MiB of zeros in a few bytes */
    static char zeros[16 * CAY_MIB], squeezed[64 * 1024];
    z_stream z = {0};
    (void)deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
    struct cay_buf bomb = {.data = squeezed};
    CAY_AUTO_BUF struct cay_buf head = {0};
    e.size = sizeof zeros;
    cay_tar_write(&e, &head);
    z.next_in = (void *)head.data, z.avail_in = (unsigned)head.len;
    z.next_out = (void *)squeezed, z.avail_out = sizeof squeezed;
    (void)deflate(&z, Z_NO_FLUSH);
    z.next_in = (void *)zeros, z.avail_in = sizeof zeros;
    (void)deflate(&z, Z_FINISH);
    bomb.len = sizeof squeezed - z.avail_out;
    (void)deflateEnd(&z);
    AUTO_TRIED struct tried b = unpack(&bomb, "o", CAY_MIB);
    CHECK_EQ("a bomb", b.reply.code, CAY_FILE_TOO_LARGE);
    AUTO_TRIED struct tried noise = unpack(&(struct cay_buf){zeros, 4, 0}, "o", 0);
    CHECK_EQ("no archive", noise.reply.code, CAY_FILE_BAD_ARCHIVE);
    CHECK("nothing is left of it", access(try_path("o/big"), F_OK) < 0);
}

#define PART(head, body) "--XX\r\nContent-Disposition: form-data; " head "\r\n\r\n" body "\r\n"

static const struct {
    const char *what, *body;
    int code;
    const char *name, *content;
} forms[] = {
    {"path, then file",
     PART("name=\"path\"", "one") PART("name=\"file\"; filename=\"x\"", "1") "--XX--\r\n", 0, "one",
     "1"},
    {"a name in a directory",
     PART("name=\"path\"", "d/") PART("name=\"file\"; filename=\"/a/b\\\"c\"", "2") "--XX--", 0,
     "d/b\"c", "2"},
    {"nearly the boundary",
     PART("name=path", "three") PART("name=\"file\"; filename=f", "\r\n--X\r\r\n--XY") "--XX--", 0,
     "three", "\r\n--X\r\r\n--XY"},
    {"two files",
     "preamble\r\n" PART("name=\"path\"", "f1") PART("name=\"file\"", "a")
         PART("name=\"path\"", "f2") PART("name=\"mode\"", "600")
             PART("name=\"file\"", "b") "--XX-- more",
     0, "f2", "b"},
    {"no path", PART("name=\"file\"; filename=\"x\"", "1") "--XX--", CAY_FILE_BAD_FORM, "x", NULL},
    {"no end", PART("name=\"path\"", "half") PART("name=\"file\"", "1"), CAY_FILE_INCOMPLETE,
     "half", NULL},
    {"no end of a part",
     PART("name=\"path\"",
          "part") "--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n123",
     CAY_FILE_INCOMPLETE, "part", NULL},
    {"no head", "--XX\r\n\r\nx\r\n--XX--", CAY_FILE_BAD_FORM, "x", NULL},
    {"nothing", "--XX--", CAY_FILE_BAD_FORM, "x", NULL},
    {"no form", "hello", CAY_FILE_INCOMPLETE, "x", NULL},
    {"a bad mode", PART("name=mode", "9") "--XX--", CAY_FILE_BAD_FORM, "x", NULL},
};

TEST(form_puts_files)
{
    for (size_t i = 0; i < COUNT(forms); i++) {
        AUTO_TRIED struct tried t =
            try_file((struct cay_file_request){.op = CAY_FILE_FORM, .path = ".", .boundary = "XX"},
                     &(struct try_input){forms[i].body, strlen(forms[i].body), false});
        CHECK_EQ(forms[i].what, t.reply.code, forms[i].code);
        CHECK_STR(forms[i].what, try_get(forms[i].name), forms[i].content);
    }
    struct stat st;
    CHECK("a mode", stat(try_path("f2"), &st) == 0 && (st.st_mode & 07777) == 0600);
    CHECK_EQ("nothing else is left", try_count("."), 5);
}

/* However it is cut, the same comes out. */
TEST(multipart_in_pieces)
{
    const char *body = forms[2].body;
    size_t len = strlen(body);
    for (size_t step = 1; step <= len; step++) {
        struct cay_multipart m;
        char data[256];
        size_t have = 0, parts = 0;
        enum cay_multipart_what what = CAY_MULTIPART_NEED;
        CHECK("a boundary", cay_multipart_init(&m, "XX"));
        for (size_t at = 0; at < len; at += step) {
            const char *in = body + at;
            size_t left = len - at < step ? len - at : step;
            while (left > 0 && what != CAY_MULTIPART_END && what != CAY_MULTIPART_BAD) {
                what = cay_multipart_next(&m, &in, &left);
                parts += what == CAY_MULTIPART_PART;
                if (what == CAY_MULTIPART_DATA && parts == 2 && have + m.len < sizeof data) {
                    memcpy(data + have, m.data, m.len);
                    have += m.len;
                }
            }
        }
        CHECK_EQ("its end", what, CAY_MULTIPART_END);
        CHECK("its data", have == 12 && memcmp(data, forms[2].content, 12) == 0);
    }
    struct cay_multipart m;
    CHECK("no boundary", !cay_multipart_init(&m, "") && !cay_multipart_init(&m, "a\r\nb"));
}
