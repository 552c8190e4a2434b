/* SPDX-License-Identifier: Apache-2.0 */
/* An image's settings as text. */
#include "base/buf.h"
#include "engine/image.h"
#include "tests/test.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

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

TEST(image_values_with_line_breaks)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_image image;
    struct cay_error err = {0};
    const char *text = "layers=aa\nenv%=A=1%0A2%25\nenv=B=%0A\nenv%=C=%zz\ncmd=x\n\nno value\n";
    CHECK_EQ("parsed", cay_image_parse(&a, text, &image, &err), 0);
    CHECK_EQ("two variables", image.env.count, 2);
    CHECK_STR("with a break", image.env.at[0], "A=1\n2%");
    CHECK_STR("as it stands", image.env.at[1], "B=%0A");
    CHECK_STR("what follows", image.cmd.at[0], "x");
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

static int count_in(int dir, const char *name)
{
    int count = 0, fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; list && (e = readdir(list));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (list)
        closedir(list);
    return count;
}

/* As on a disk that is full: no file may have a byte. */
TEST(image_fit_is_whole_or_not_there)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char nobody[] = "";
    const struct cay_trust none = {.text = nobody, .mark = "0"};
    struct cay_image image;
    struct cay_error err = {0};
    struct rlimit before, full;
    CHECK_EQ("parsed", cay_image_parse(&a, "layers=aa\n", &image, &err), 0);
    struct cay_image again = image;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &before);
    full = before;
    full.rlim_cur = 0;
    (void)setrlimit(RLIMIT_FSIZE, &full);
    int r = cay_image_fit(dir, &none, &a, &image, &err);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    (void)signal(SIGXFSZ, old);
    CHECK("it fails", r < 0);
    CHECK_EQ("and leaves nothing", count_in(dir, "fits"), 0);
    CHECK_EQ("then there is room", cay_image_fit(dir, &none, &a, &again, &err), 0);
    CHECK_EQ("one is there", count_in(dir, "fits"), 1);
}
