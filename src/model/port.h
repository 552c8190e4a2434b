/* SPDX-License-Identifier: Apache-2.0 */
/* A port of a sandbox that may be reached from outside. */
#pragma once
#include "model/limits.h"
#include <stdbool.h>
#include <stdint.h>

struct cay_port {
    uint16_t port;
    bool is_public;                   /* without a token */
    bool is_tcp;                      /* said to be no HTTP; only told */
    uint16_t wait_s;                  /* how long a request is held while nothing listens yet */
    char name[CAY_MAX_PORT_NAME + 1]; /* or empty */
    int64_t created_at_ms;            /* 0 until core has seen it */
};
