/* SPDX-License-Identifier: Apache-2.0 */
#include "image/manifest.h"
#include "image/text.h"
#include "tests/test.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OCI "application/vnd.oci.image."
#define DESC(type) "{\"mediaType\":\"" type "\",\"digest\":\"sha256:" HEX "\",\"size\":5"
#define CONFIG "\"config\":" DESC(OCI "config.v1+json") "}"
#define LAYER DESC(OCI "layer.v1.tar+gzip") "}"
#define HEAD "{\"schemaVersion\":2,"

static const struct {
    const char *name, *text;
    int want;
    bool is_index;
    size_t count;
} documents[] = {
    {"a manifest", HEAD CONFIG ",\"layers\":[" LAYER "," LAYER "]}", 0, false, 2},
    {"Docker's",
     HEAD "\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\"config\":" DESC(
         "application/vnd.docker.container.image.v1+json") "},\"layers\":[" DESC("application/"
                                                                                 "vnd.docker.image."
                                                                                 "rootfs.diff.tar."
                                                                                 "gzip") "}]}",
     0, false, 1},
    {"an index", HEAD "\"manifests\":[" DESC(OCI "manifest.v1+json") "}]}", 0, true, 1},
    {"no JSON", "<html>", CAY_ERR_UNPROCESSABLE, false, 0},
    {"a list", "[]", CAY_ERR_UNPROCESSABLE, false, 0},
    {"schema 1", "{\"schemaVersion\":1,\"layers\":[]}", CAY_ERR_UNPROCESSABLE, false, 0},
    {"both", HEAD CONFIG ",\"layers\":[],\"manifests\":[]}", CAY_ERR_UNPROCESSABLE, false, 0},
    {"neither", HEAD "\"config\":null}", CAY_ERR_UNPROCESSABLE, false, 0},
    {"another type than it is",
     HEAD "\"mediaType\":\"" OCI "index.v1+json\"," CONFIG ",\"layers\":[]}", CAY_ERR_UNPROCESSABLE,
     false, 0},
    {"no config", HEAD "\"layers\":[" LAYER "]}", CAY_ERR_UNPROCESSABLE, false, 0},
    {"an artifact", HEAD "\"config\":" DESC("application/vnd.helm.config+json") "},\"layers\":[]}",
     CAY_ERR_UNPROCESSABLE, false, 0},
    {"a foreign layer", HEAD CONFIG ",\"layers\":[" DESC(OCI "layer.nondistributable.v1.tar") "}]}",
     CAY_ERR_UNPROCESSABLE, false, 0},
    {"a digest that leads elsewhere",
     HEAD CONFIG ",\"layers\":[{\"mediaType\":\"" OCI
                 "layer.v1.tar\",\"digest\":\"sha256:../../../../etc/passwd\",\"size\":1}]}",
     CAY_ERR_UNPROCESSABLE, false, 0},
    {"a digest in capitals",
     HEAD CONFIG ",\"layers\":[{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"sha256:"
                 "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\",\"size\":1}]}",
     CAY_ERR_UNPROCESSABLE, false, 0},
    {"a size below zero",
     HEAD CONFIG ",\"layers\":[{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"sha256:" HEX
                 "\",\"size\":-1}]}",
     CAY_ERR_UNPROCESSABLE, false, 0},
    {"a size that is no number",
     HEAD CONFIG ",\"layers\":[{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"sha256:" HEX
                 "\",\"size\":\"1\"}]}",
     CAY_ERR_UNPROCESSABLE, false, 0},
};

TEST(manifests_are_read_strictly)
{
    for (size_t i = 0; i < COUNT(documents); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_manifest m = {0};
        const char *text = documents[i].text;
        CHECK_EQ(documents[i].name, cay_manifest_parse(&a, text, strlen(text), NULL, &m, &err),
                 documents[i].want);
        CHECK_EQ(documents[i].name, m.is_index, documents[i].is_index);
        CHECK_EQ(documents[i].name, m.count, documents[i].count);
        if (documents[i].want)
            CHECK_STR(documents[i].name, err.name, "BAD_IMAGE");
    }
}

#define PLATFORM(os, arch)                                                                         \
    DESC(OCI "manifest.v1+json")                                                                   \
    ",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"}}"

static const struct {
    const char *name, *list;
    int want;
} indexes[] = {
    {"ours", PLATFORM("linux", "arm64") "," PLATFORM("linux", "amd64"), 0},
    {"the only one, without a platform", DESC(OCI "manifest.v1+json") "}", 0},
    {"others'", PLATFORM("linux", "arm64") "," PLATFORM("windows", "amd64"), CAY_ERR_NOT_FOUND},
    {"an attestation", PLATFORM("unknown", "unknown"), CAY_ERR_NOT_FOUND},
    {"none", "", CAY_ERR_NOT_FOUND},
};

TEST(manifest_for_this_machine_is_chosen)
{
    for (size_t i = 0; i < COUNT(indexes); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_manifest m;
        const struct cay_descriptor *d = NULL;
        const char *text = cay_arena_printf(&a, HEAD "\"manifests\":[%s]}", indexes[i].list);
        CHECK_EQ(indexes[i].name, cay_manifest_parse(&a, text, strlen(text), NULL, &m, &err), 0);
        CHECK_EQ(indexes[i].name, cay_manifest_choose(&m, "amd64", &d, &err), indexes[i].want);
        if (indexes[i].want == 0 && *d->architecture)
            CHECK_STR(indexes[i].name, d->architecture, "amd64");
    }
}

#define ROOTFS "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:" HEX "\"]}"

static const struct {
    const char *name, *text;
    int want;
} configs[] = {
    {"all of it",
     "{\"os\":\"linux\",\"architecture\":\"amd64\",\"created\":\"2024-01-02T03:04:05.123456789Z\","
     "\"config\":{\"User\":\"app\",\"WorkingDir\":\"/srv\",\"Env\":[\"A=b\"],\"Entrypoint\":[\"/"
     "e\"],"
     "\"Cmd\":[\"x\",\"y\"],\"StopSignal\":\"SIGQUIT\"}," ROOTFS "}",
     0},
    {"nulls", "{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"Env\":null}," ROOTFS "}",
     0},
    {"no layers", "{\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[]}}", CAY_ERR_UNPROCESSABLE},
    {"no rootfs", "{\"os\":\"linux\"}", CAY_ERR_UNPROCESSABLE},
    {"a diff id that leads elsewhere", "{\"rootfs\":{\"diff_ids\":[\"sha256:../x\"]}}",
     CAY_ERR_UNPROCESSABLE},
    {"an environment of numbers", "{\"config\":{\"Env\":[1]}," ROOTFS "}", CAY_ERR_UNPROCESSABLE},
    {"a user that is a list", "{\"config\":{\"User\":[]}," ROOTFS "}", CAY_ERR_UNPROCESSABLE},
};

TEST(image_configs_are_read_strictly)
{
    for (size_t i = 0; i < COUNT(configs); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_image_config c;
        CHECK_EQ(configs[i].name,
                 cay_image_config_parse(&a, configs[i].text, strlen(configs[i].text), &c, &err),
                 configs[i].want);
    }
}

TEST(image_text_says_what_the_config_said)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_image_about about = {.digest = HEX, .source = "docker.io/library/x:1"}, back;
    const char *text = NULL;
    const char *name = configs[0].name;
    CHECK_EQ(
        name,
        cay_image_config_parse(&a, configs[0].text, strlen(configs[0].text), &about.config, &err),
        0);
    CHECK_EQ(name, cay_image_text_write(&a, &about, &text, &err), 0);
    CHECK_EQ(name, cay_image_text_read(&a, text, &back, &err), 0);
    CHECK_STR(name, back.config.user, "app");
    CHECK_STR(name, back.config.stop_signal, "SIGQUIT");
    CHECK_STR(name, back.config.entrypoint.at[0], "/e");
    CHECK_STR(name, back.config.cmd.at[1], "y");
    CHECK_STR(name, back.config.diff_ids.at[0], HEX);
    CHECK_EQ(name, back.config.created_ms, 1704164645000);
    CHECK_STR(name, back.source, about.source);
    about.config.user = "a\nlayers=" HEX "%\n%0A";
    CHECK_EQ("a line break", cay_image_text_write(&a, &about, &text, &err), 0);
    CHECK_EQ("a line break", cay_image_text_read(&a, text, &back, &err), 0);
    CHECK_STR("comes back", back.config.user, about.config.user);
    CHECK_EQ("and nothing else", back.config.diff_ids.count, 1);
}
