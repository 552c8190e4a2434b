/* SPDX-License-Identifier: Apache-2.0 */
/* What is brought into a new sandbox before its first command. */
#pragma once
#include "base/attr.h"
#include <stdint.h>

enum cay_spec_source_kind {
    CAY_SOURCE_NONE, /* or a snapshot, which is spec.from */
    CAY_SOURCE_GIT,
    CAY_SOURCE_TARBALL,
};

struct cay_spec_source {
    enum cay_spec_source_kind kind;
    const char *url;      /* without credentials */
    const char *revision; /* branch, tag or whole commit id; NULL: what the server shows first */
    int64_t depth;        /* 0: all of the history */
    int64_t timeout_ms;
    const char *username, *password; /* of the request; never kept */
};
