/* SPDX-License-Identifier: Apache-2.0 */
/* What `cay serve` makes of its options, apart from running. */
#pragma once
#include "base/error.h"
#include "cli/options.h"
#include "model/config.h"

struct cay_serve_options {
    struct cay_config config;
    const char *file;
    const char *rate_limit;    /* N/SECONDS or off */
    const char *jwt_key;       /* a file */
    const char *registry_auth; /* a file, as Docker has it */
    bool crash_points;
};

extern const struct cay_option cay_serve_table[];

/* Refuses what would be unsafe or cannot work: an open port without authentication, JWT without a
 * key, an issuer and an audience, the native engine without root. */
int cay_serve_check(struct cay_serve_options *o, bool root, struct cay_error *err);
