/* SPDX-License-Identifier: Apache-2.0 */
/* An image's settings as text. */
#include "base/buf.h"
#include "engine/image.h"
#include "tests/test.h"

static const struct {
    const char *name;
    int layers, digits, want;
    const char *want_name;
} cases[] = {
    {"one", 1, 64, 0, NULL},
    {"as many as may be", CAY_MAX_LAYERS, 32, 0, NULL},
    {"one more", CAY_MAX_LAYERS + 1, 32, CAY_ERR_UNSUPPORTED, "TOO_MANY_LAYERS"},
    {"more than a mount takes", 60, 64, CAY_ERR_UNSUPPORTED, "TOO_MANY_LAYERS"},
    {"none", 0, 0, CAY_ERR_PROVIDER, NULL},
    {"names that are too long", 1, 65, CAY_ERR_PROVIDER, NULL},
};

TEST(image_layers)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        CAY_AUTO_BUF struct cay_buf text = {0};
        struct cay_image image;
        struct cay_error err = {0};
        cay_buf_adds(&text, "user=node\nlayers=");
        for (int n = 0; n < cases[i].layers; n++)
            cay_buf_addf(&text, "%0*d ", cases[i].digits, n);
        cay_buf_addc(&text, '\n');
        cay_buf_addc(&text, 0);
        int r = cay_image_parse(&a, text.data, &image, &err);
        CHECK_EQ(cases[i].name, r, cases[i].want);
        CHECK_STR(cases[i].name, err.name, cases[i].want_name);
        if (r == 0)
            CHECK_EQ(cases[i].name, image.layers.count, cases[i].layers);
    }
}

static const struct {
    const char *text;
    int want;
} signals[] = {{"SIGINT", 2}, {"INT", 2},         {"9", 9},       {"SIGRTMIN+3", 37}, {"", 0},
               {"SIG", 0},    {"SIGRTMIN+99", 0}, {"SIGSYS", 31}, {"-2", 0},          {"65", 0}};

TEST(image_stop_signal)
{
    for (size_t i = 0; i < COUNT(signals); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_image image;
        struct cay_error err = {0};
        const char *text = cay_arena_printf(&a, "layers=00\nstopsignal=%s\n", signals[i].text);
        CHECK_EQ(signals[i].text, cay_image_parse(&a, text, &image, &err), 0);
        CHECK_EQ(signals[i].text, image.stop_signal, signals[i].want);
    }
}

TEST(image_has_a_layer_once)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_image image;
    struct cay_error err = {0};
    CHECK_EQ("parsed", cay_image_parse(&a, "layers=aa bb aa cc bb\n", &image, &err), 0);
    CHECK_EQ("three are left", image.layers.count, 3);
    CHECK_STR("the upper one", image.layers.at[0], "aa");
    CHECK_STR("the lowest", image.layers.at[2], "cc");
}
