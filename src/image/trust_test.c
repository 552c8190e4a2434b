/* SPDX-License-Identifier: Apache-2.0 */
#include "image/trust.h"
#include "tests/test.h"
#include <stdio.h>

#define PEM(x) "-----BEGIN CERTIFICATE-----\n" x "\n-----END CERTIFICATE-----\n"

static const struct {
    const char *name, *operators, *image, *all, *extra;
} cases[] = {
    {"what the image lacks is added", PEM("A") "# a note\n" PEM("B"), PEM("A"), PEM("A") PEM("B"),
     PEM("B")},
    {"nothing is extra: one is, so that it is not empty", PEM("A"), PEM("C") PEM("A"),
     PEM("C") PEM("A"), PEM("C")},
    {"an image without any", PEM("A"), "", PEM("A"), PEM("A")},
    {"an operator without any", "", PEM("A"), PEM("A"), PEM("A")},
    {"neither", "", "", "", ""},
    {"half a certificate is none", "-----BEGIN CERTIFICATE-----\nA\n", PEM("B"), PEM("B"),
     PEM("B")},
};

TEST(trust_joins_what_is_believed)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_BUF struct cay_buf all = {0}, extra = {0};
        struct cay_trust t = {.text = strdup(cases[i].operators)};
        cay_trust_join(&t, cases[i].image, &all, &extra);
        cay_buf_addc(&all, 0);
        cay_buf_addc(&extra, 0);
        CHECK_STR(cases[i].name, all.data, cases[i].all);
        CHECK_STR(cases[i].name, extra.data, cases[i].extra);
        free(t.text);
    }
}

TEST(trust_reads_a_file)
{
    char path[256];
    struct cay_trust t = {0};
    struct cay_error err;
    snprintf(path, sizeof path, "%s/ca", test_dir());
    FILE *f = fopen(path, "w");
    fputs("no certificate", f);
    fclose(f);
    CHECK_EQ("no certificate", cay_trust_read(path, &t, &err), CAY_ERR_INVALID);
    CHECK("no file", cay_trust_read("/nonexistent/ca", &t, &err) < 0);
    f = fopen(path, "w");
    fputs(PEM("A"), f);
    fclose(f);
    CHECK_EQ("a certificate", cay_trust_read(path, &t, &err), 0);
    CHECK_EQ("its mark", strlen(t.mark), 16);
    free(t.text);
}
