/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps web pages of others away from a server that asks for no token: a name that was made to
 * point here (rebinding) is no Host of ours, and a foreign page's Origin is not ours either. */
#pragma once
#include "base/error.h"
#include <stdbool.h>

/* An IP address or localhost, with the port we listen on (which may be left out if it is 80,
 * or 443 under TLS). */
bool cay_guard_host(const char *host, unsigned port, bool tls);
/* NULL where a header did not come. port 0: any Host is well, for a server that asks for a token,
 * which no foreign page has. */
int cay_guard_check(const char *host, const char *origin, const char *fetch_site, unsigned port,
                    bool tls, struct cay_error *err);
