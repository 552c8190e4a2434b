/* SPDX-License-Identifier: Apache-2.0 */
/* A request that may be sent again, and must be done once. */
#pragma once

#define CAY_FINGERPRINT_SIZE 33 /* 32 hex digits and NUL */

struct cay_once {
    const char *key;                        /* the caller's own */
    char fingerprint[CAY_FINGERPRINT_SIZE]; /* of all that was asked with it */
};
