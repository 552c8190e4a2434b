/* SPDX-License-Identifier: Apache-2.0 */
#include "image/fit.h"
#include "model/limits.h"
#include "model/network.h"

#define ACCOUNTS_MAX (256u << 10)

const struct cay_fit_text cay_fit_texts[CAY_FIT_TEXTS] = {
    [CAY_FIT_PASSWD] = {"etc/passwd", ACCOUNTS_MAX},
    [CAY_FIT_GROUP] = {"etc/group", ACCOUNTS_MAX},
    [CAY_FIT_BUNDLE] = {CAY_TRUST_BUNDLE, CAY_MAX_TRUST},
};

static const struct cay_fit_file dirs[] = {
    {"dev", 0755, 0, NULL, 0},
    {"etc", 0755, 0, NULL, 0},
    {"etc/ssl", 0755, 0, NULL, 0},
    {"etc/ssl/certs", 0755, 0, NULL, 0},
    {"home", 0755, 0, NULL, 0},
    {"home/user", 0755, CAY_FIT_USER, NULL, 0},
    {"proc", 0555, 0, NULL, 0},
    {"run", 0755, 0, NULL, 0},
    {"sys", 0555, 0, NULL, 0},
    {"tmp", 01777, 0, NULL, 0},
    {"workspace", 0755, CAY_FIT_USER, NULL, 0},
};

struct putting {
    int (*put)(void *arg, const struct cay_fit_file *file, struct cay_error *err);
    void *arg;
};

static int put_text(const struct putting *p, const char *path, const struct cay_buf *text,
                    struct cay_error *err)
{
    return p->put(p->arg, &(struct cay_fit_file){path, 0644, 0, text->data, text->len}, err);
}

/* The image's own, with a line for the user. */
static int put_accounts(const struct putting *p, const char *path, const char *own,
                        const char *without, const char *line, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    cay_buf_adds(&b, *own ? own : without);
    if (b.data[b.len - 1] != '\n')
        cay_buf_addc(&b, '\n');
    if (!cay_str_has_line(own, "user:"))
        cay_buf_adds(&b, line);
    return put_text(p, path, &b, err);
}

static int put_line(const struct putting *p, const char *path, const char *text,
                    struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    cay_buf_adds(&b, text);
    return put_text(p, path, &b, err);
}

static int put_trust(const struct putting *p, const struct cay_trust *trust, const char *own,
                     struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf all = {0}, extra = {0};
    cay_trust_join(trust, own, &all, &extra);
    if (!extra.len)
        return 0; /* nobody believes anybody */
    int r = put_text(p, CAY_TRUST_BUNDLE, &all, err);
    return r < 0 ? r : put_text(p, CAY_TRUST_EXTRA, &extra, err);
}

int cay_fit_fill(const char *const own[CAY_FIT_TEXTS], const struct cay_trust *trust,
                 int (*put)(void *arg, const struct cay_fit_file *file, struct cay_error *err),
                 void *arg, struct cay_error *err)
{
    const struct putting p = {put, arg};
    int r = 0;
    for (size_t i = 0; r == 0 && i < CAY_COUNT(dirs); i++)
        r = put(arg, &dirs[i], err);
    if (r == 0)
        r = put_accounts(&p, "etc/passwd", own[CAY_FIT_PASSWD], "root:x:0:0:root:/root:/bin/sh\n",
                         "user:x:1000:1000::/home/user:/bin/sh\n", err);
    if (r == 0)
        r = put_accounts(&p, "etc/group", own[CAY_FIT_GROUP], "root:x:0:\n", "user:x:1000:\n", err);
    if (r == 0)
        r = put_line(&p, "etc/hosts", "127.0.0.1 localhost\n::1 localhost\n", err);
    if (r == 0)
        r = put_line(&p, "etc/resolv.conf", "nameserver " CAY_NET_RESOLVER "\n", err);
    return r < 0 ? r : put_trust(&p, trust, own[CAY_FIT_BUNDLE], err);
}
