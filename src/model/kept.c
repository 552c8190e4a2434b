/* SPDX-License-Identifier: Apache-2.0 */
#include "model/kept.h"

const char *cay_kept_kind_name(enum cay_kept_kind kind)
{
    return kind == CAY_SNAPSHOT ? "snapshot" : "volume";
}
