/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define CAY_LOCAL_ACCOUNT "local"

struct cay_account {
    const char *id; /* "local" when authentication is off */
};
