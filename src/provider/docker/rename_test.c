/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "provider/docker/rename.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

#define LAYER "the bytes of a layer, \"RepoTags\":null"
#define LONG                                                                                       \
    "blobs/"                                                                                       \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"     \
    "aaaaaaaaaaaaaaaaaaaa/manifest.json"

static void add(struct cay_buf *tar, const char *path, const char *text)
{
    CAY_AUTO_FREE struct cay_tar_entry *e = calloc(1, sizeof *e);
    e->type = CAY_TAR_FILE;
    e->size = strlen(text);
    e->mtime = 7;
    cay_str_copy(e->path, sizeof e->path, path);
    cay_tar_write(e, tar);
    cay_buf_adds(tar, text);
    while (tar->len % CAY_TAR_BLOCK)
        cay_buf_addc(tar, 0);
}

static void end(struct cay_buf *tar)
{
    memset(cay_buf_room(tar, (size_t)2 * CAY_TAR_BLOCK), 0, (size_t)2 * CAY_TAR_BLOCK);
    tar->len += (size_t)2 * CAY_TAR_BLOCK;
}

static int collect(void *arg, const char *data, size_t len, struct cay_error *err)
{
    (void)err;
    cay_buf_add(arg, data, len);
    return 0;
}

static int rename_all(const struct cay_buf *in, size_t step, struct cay_buf *out,
                      struct cay_error *err)
{
    CAY_CLEANUP(cay_docker_rename_free) struct cay_docker_rename *x = calloc(1, sizeof *x);
    int r = 0;
    x->name = "team/box:1";
    x->out = collect;
    x->arg = out;
    for (size_t at = 0; r == 0 && at < in->len; at += step)
        r = cay_docker_rename_add(x, in->data + at, in->len - at < step ? in->len - at : step, err);
    return r < 0 ? r : cay_docker_rename_end(x, err);
}

TEST(docker_archives_get_their_name_on_the_way)
{
    static const size_t steps[] = {1, 7, 512, 1000, 1 << 20};
    CAY_AUTO_BUF struct cay_buf in = {0}, want = {0};
    add(&in, LONG, LAYER);
    add(&in, "empty", "");
    add(&in, "index.json",
        "{\"schemaVersion\":2,\"manifests\":[{\"size\":9,\"annotations\":{\"" /* another's name */
        "io.containerd.image.name\":\"docker.io/library/secret:1\",\"k\":\"v\"}}]}");
    add(&in, "manifest.json",
        "[{\"Config\":\"c.json\",\"RepoTags\":[\"secret:1\"],\"Layers\":[]}]");
    add(&in, "repositories", "{\"secret\":{\"1\":\"x\"}}");
    add(&in, "zzz", LAYER);
    end(&in);
    add(&want, LONG, LAYER);
    add(&want, "empty", "");
    add(&want, "index.json",
        "{\"schemaVersion\":2,\"manifests\":[{\"size\":9,\"annotations\":{\"k\":\"v\",\""
        "io.containerd.image.name\":\"docker.io/team/box:1\",\"" /* and the rest */
        "org.opencontainers.image.ref.name\":\"1\"}}]}");
    add(&want, "manifest.json",
        "[{\"Config\":\"c.json\",\"Layers\":[],\"RepoTags\":[\"team/box:1\"]}]");
    add(&want, "zzz", LAYER);
    end(&want);
    for (size_t i = 0; i < COUNT(steps); i++) {
        CAY_AUTO_BUF struct cay_buf out = {0};
        struct cay_error err = {0};
        CHECK_EQ("rename", rename_all(&in, steps[i], &out, &err), 0);
        CHECK_EQ("length", out.len, want.len);
        CHECK_EQ("bytes", memcmp(out.data, want.data, want.len), 0);
    }
}

TEST(docker_archives_that_are_none_are_refused)
{
    static const struct {
        const char *name, *manifest;
        size_t cut;
    } cases[] = {
        {"no manifest", NULL, 0}, {"no JSON", "{", 0},
        {"no list", "{}", 0},     {"of two images", "[{},{}]", 0},
        {"an empty one", "", 0},  {"it ends in the middle", "[{}]", (size_t)3 * CAY_TAR_BLOCK},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_BUF struct cay_buf in = {0}, out = {0};
        struct cay_error err = {0};
        add(&in, "layer", LAYER);
        if (cases[i].manifest)
            add(&in, "manifest.json", cases[i].manifest);
        end(&in);
        in.len -= cases[i].cut;
        CHECK_EQ(cases[i].name, rename_all(&in, 512, &out, &err), CAY_ERR_PROVIDER);
    }
}
