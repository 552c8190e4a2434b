/* SPDX-License-Identifier: Apache-2.0 */
/* Names of hosts, wherever they come from: a rule, a question, a ClientHello. */
#pragma once
#include "model/limits.h"
#include <stdbool.h>
#include <stddef.h>

#define CAY_HOST_SIZE (CAY_MAX_HOST + 1)

/* The one form of a name: lower case, without a final dot. False when it is none: other bytes than
 * letters, digits, '-' and '_', a label that is empty, longer than 63 or begins or ends with '-',
 * or one whose last label is a number, because some read that as an address ("2130706433",
 * "0x7f.1"). Then out is not written. */
bool cay_host_read(const char *text, size_t len, char out[CAY_HOST_SIZE]);
/* Does the pattern of a rule ("a.b", "*.a.b", "*") name this host? Both in their one form. */
bool cay_host_matches(const char *pattern, const char *host);
