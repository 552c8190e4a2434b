/* SPDX-License-Identifier: Apache-2.0 */
/* http[s]://HOST[:PORT][/PATH], as a client needs it. */
#pragma once
#include "base/error.h"
#include <stdbool.h>

struct cay_url {
    bool tls;
    char host[256], port[8]; /* without brackets; 80 or 443 when none is named */
    char authority[272];     /* for the Host header */
    char base[256];          /* the path, without a slash at its end */
};

int cay_url_parse(const char *text, struct cay_url *out, struct cay_error *err);
const char *cay_url_scheme(const struct cay_url *url);
bool cay_url_is_plain(const char *s); /* of printable ASCII without blanks */
