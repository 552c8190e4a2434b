/* SPDX-License-Identifier: Apache-2.0 */
#include "image/trust.h"
#include "base/arena.h"
#include "base/path.h"
#include "base/sha256.h"
#include "model/limits.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define HOSTS_OWN "/etc/ssl/certs/ca-certificates.crt"
#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"

int cay_trust_read(const char *path, struct cay_trust *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error none; /* of a host that has none it is no error */
    struct cay_sha256 sum;
    uint8_t hash[32];
    char *text = NULL;
    size_t len = 0;
    int r = cay_path_read(AT_FDCWD, path ? path : HOSTS_OWN, CAY_MAX_TRUST, &a, &text, &len,
                          path ? err : &none);
    if (r < 0 && path)
        return cay_wrap(err, "cannot read the authorities in %s", path);
    if (r == 0 && path && !strstr(text, BEGIN))
        return cay_fail(err, CAY_ERR_INVALID, "%s holds no certificate in PEM", path);
    *out = (struct cay_trust){.text = strdup(r == 0 ? text : "")};
    if (!out->text)
        abort();
    cay_sha256_init(&sum);
    cay_sha256_add(&sum, out->text, strlen(out->text));
    cay_sha256_done(&sum, hash);
    for (int i = 0; i < 8; i++)
        snprintf(out->mark + 2 * i, 3, "%02x", hash[i]);
    return 0;
}

/* The next certificate behind *at, which goes on behind it; its length, 0: there is none. */
static size_t next_certificate(const char **at, const char **found)
{
    const char *begin = strstr(*at, BEGIN), *end = begin ? strstr(begin, END) : NULL;
    if (!end)
        return 0;
    *found = begin;
    *at = end + sizeof END - 1;
    return (size_t)(*at - begin);
}

static void add(struct cay_buf *out, const char *text, size_t len)
{
    cay_buf_add(out, text, len);
    cay_buf_addc(out, '\n');
}

void cay_trust_join(const struct cay_trust *trust, const char *of_image, struct cay_buf *all,
                    struct cay_buf *extra)
{
    const char *at = trust->text ? trust->text : "", *one;
    size_t len, all_len = strlen(of_image);
    cay_buf_adds(all, of_image);
    if (all->len && all->data[all->len - 1] != '\n')
        cay_buf_addc(all, '\n');
    while ((len = next_certificate(&at, &one)) > 0) {
        if (memmem(of_image, all_len, one, len))
            continue;
        add(all, one, len);
        add(extra, one, len);
    }
    at = of_image;
    if (!extra->len && (len = next_certificate(&at, &one)) > 0)
        add(extra, one, len);
}

void cay_trust_name(struct cay_arena *a, const struct cay_trust *trust, struct cay_strs *env)
{
    static const char *const names[] = {
        "SSL_CERT_FILE=/" CAY_TRUST_BUNDLE,  "CURL_CA_BUNDLE=/" CAY_TRUST_BUNDLE,
        "GIT_SSL_CAINFO=/" CAY_TRUST_BUNDLE, "REQUESTS_CA_BUNDLE=/" CAY_TRUST_BUNDLE,
        "PIP_CERT=/" CAY_TRUST_BUNDLE,       "NODE_EXTRA_CA_CERTS=/" CAY_TRUST_EXTRA};
    for (size_t i = 0; *trust->text && i < CAY_COUNT(names); i++) {
        bool set = false;
        for (size_t j = 0; j < env->count && !set; j++)
            set = strncmp(env->at[j], names[i], strcspn(names[i], "=") + 1) == 0;
        if (!set)
            cay_strs_push(a, env, names[i]);
    }
}
