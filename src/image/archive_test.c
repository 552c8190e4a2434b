/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"
#include "file/tar.h"
#include "image/archive.h"
#include "tests/test.h"
#include <stdio.h>
#include <sys/mman.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CONFIG                                                                                     \
    "{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"sha256:" HEX "\"]}}"
#define ARM                                                                                        \
    "{\"os\":\"linux\",\"architecture\":\"arm64\",\"rootfs\":{\"diff_ids\":[\"sha256:" HEX "\"]}}"

struct member {
    const char *path, *data, *link;
};

static void add(struct cay_buf *tar, const struct member *m)
{
    static const char zeros[CAY_TAR_BLOCK];
    struct cay_tar_entry e = {.type = m->link ? CAY_TAR_LINK : CAY_TAR_FILE, .mode = 0644};
    size_t len = m->data ? strlen(m->data) : 0;
    e.size = len;
    (void)snprintf(e.path, sizeof e.path, "%s", m->path);
    (void)snprintf(e.link, sizeof e.link, "%s", m->link ? m->link : "");
    cay_tar_write(&e, tar);
    cay_buf_add(tar, m->data ? m->data : "", len);
    cay_buf_add(tar, zeros, (CAY_TAR_BLOCK - len % CAY_TAR_BLOCK) % CAY_TAR_BLOCK);
}

static int read_back(struct cay_arena *a, const struct member *members, size_t count,
                     struct cay_archive_images *out, struct cay_error *err)
{
    static const char end[2 * CAY_TAR_BLOCK];
    CAY_AUTO_BUF struct cay_buf tar = {0};
    CAY_AUTO_FD int fd = memfd_create("archive", MFD_CLOEXEC);
    struct cay_archive archive;
    for (size_t i = 0; i < count && members[i].path; i++)
        add(&tar, &members[i]);
    cay_buf_add(&tar, end, sizeof end);
    CHECK("written", write(fd, tar.data, tar.len) == (ssize_t)tar.len);
    int r = cay_archive_open(a, fd, &archive, err);
    return r < 0 ? r : cay_archive_images(&archive, "amd64", out, err);
}

static const struct {
    const char *name;
    struct member members[4];
    int want;
    const char *code;
} cases[] = {
    {"docker save",
     {{"manifest.json",
       "[{\"Config\":\"c.json\",\"RepoTags\":[\"x:1\"],\"Layers\":[\"a/layer.tar\"]}]", NULL},
      {"c.json", CONFIG, NULL},
      {"a/layer.tar", "data", NULL}},
     0,
     NULL},
    {"a layer that is a link to another",
     {{"manifest.json",
       "[{\"Config\":\"c.json\",\"RepoTags\":[\"x:1\"],\"Layers\":[\"a/layer.tar\"]}]", NULL},
      {"c.json", CONFIG, NULL},
      {"a/layer.tar", NULL, "../b/layer.tar"},
      {"b/layer.tar", "data", NULL}},
     0,
     NULL},
    {"links in a circle",
     {{"manifest.json", "[{\"Config\":\"c.json\",\"Layers\":[\"a\"]}]", NULL},
      {"c.json", CONFIG, NULL},
      {"a", NULL, "b"},
      {"b", NULL, "a"}},
     CAY_ERR_UNPROCESSABLE,
     "BAD_ARCHIVE"},
    {"a link that leads out",
     {{"manifest.json", "[{\"Config\":\"c.json\",\"Layers\":[\"a\"]}]", NULL},
      {"c.json", CONFIG, NULL},
      {"a", NULL, "../../../../etc/passwd"}},
     CAY_ERR_UNPROCESSABLE,
     "BAD_ARCHIVE"},
    {"a config that is not what its name says",
     {{"manifest.json", "[{\"Config\":\"" HEX ".json\",\"Layers\":[\"a\"]}]", NULL},
      {HEX ".json", CONFIG, NULL},
      {"a", "data", NULL}},
     CAY_ERR_UNPROCESSABLE,
     "DIGEST_MISMATCH"},
    {"another number of layers",
     {{"manifest.json", "[{\"Config\":\"c.json\",\"Layers\":[\"a\",\"a\"]}]", NULL},
      {"c.json", CONFIG, NULL},
      {"a", "data", NULL}},
     CAY_ERR_UNPROCESSABLE,
     "BAD_IMAGE"},
    {"for another machine",
     {{"manifest.json", "[{\"Config\":\"c.json\",\"Layers\":[\"a\"]}]", NULL},
      {"c.json", ARM, NULL},
      {"a", "data", NULL}},
     CAY_ERR_NOT_FOUND,
     "PLATFORM_NOT_FOUND"},
    {"an index whose manifest is missing",
     {{"index.json",
       "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"application/vnd.oci.image."
       "manifest.v1+json\",\"digest\":\"sha256:" HEX "\",\"size\":2}]}",
       NULL}},
     CAY_ERR_UNPROCESSABLE,
     "BAD_ARCHIVE"},
    {"an index that lists itself",
     {{"index.json",
       "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"application/vnd.oci.image."
       "index.v1+json\",\"digest\":\"sha256:" HEX "\",\"size\":2}]}",
       NULL},
      {"blobs/sha256/" HEX, NULL, "../../index.json"}},
     CAY_ERR_UNPROCESSABLE,
     "DIGEST_MISMATCH"},
    {"something else", {{"hello", "x", NULL}}, CAY_ERR_UNPROCESSABLE, "BAD_ARCHIVE"},
};

TEST(archives_of_images_are_read_strictly)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_archive_images images = {0};
        const char *name = cases[i].name;
        int r = read_back(&a, cases[i].members, COUNT(cases[i].members), &images, &err);
        CHECK_EQ(name, r, cases[i].want);
        CHECK_STR(name, err.name, cases[i].code);
        if (r < 0)
            continue;
        CHECK_EQ(name, images.count, 1);
        CHECK_STR(name, images.at[0].names.at[0], "x:1");
        CHECK_STR(name, images.at[0].layers[0].diff_id, HEX);
        CHECK_EQ(name, images.at[0].layers[0].size, 4);
    }
}

TEST(archive_that_is_cut_is_none)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = memfd_create("archive", MFD_CLOEXEC);
    struct cay_error err = {0};
    struct cay_archive archive;
    CHECK("written", write(fd, "x", 1) == 1);
    CHECK_EQ("one byte", cay_archive_open(&a, fd, &archive, &err), CAY_ERR_UNPROCESSABLE);
}
