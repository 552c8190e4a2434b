/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry wants to see: the value of WWW-Authenticate (RFC 9110), read strictly. */
#pragma once
#include "base/str.h"

enum cay_challenge_kind { CAY_CHALLENGE_NONE, CAY_CHALLENGE_BASIC, CAY_CHALLENGE_BEARER };

struct cay_challenge {
    enum cay_challenge_kind kind;
    const char *realm, *service, *scope; /* of a bearer; the last two may be NULL */
};

/* The first that we can meet, a bearer's before a basic one; NONE when there is none, also for what
 * breaks the rules: a parameter twice, a quote that does not end, control characters. */
struct cay_challenge cay_challenge_read(struct cay_arena *a, const char *text);
