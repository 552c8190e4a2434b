/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach, as an option says it. */
#pragma once
#include "base/json.h"

/* "off", "open", "observe", or rules with commas between: networkPolicy, into the open object. */
void cay_network_put(struct cay_json_writer *w, const char *text);
