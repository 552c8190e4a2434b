/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events from bytes as they come, each of bounded size. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include <stdbool.h>

#define CAY_SSE_EVENT_MAX (2u << 20)

struct cay_sse {
    struct cay_buf line, data;
    char event[24];   /* empty: none named */
    char id[96];      /* of the last event that was handled; outlives a reconnect */
    char next_id[96]; /* of the event under way */
    bool cr;          /* the last byte was a carriage return */
    bool has_data;
};

/* data is terminated. A negative result ends the reading. */
typedef int (*cay_sse_handler)(void *arg, const char *event, const char *data, size_t len,
                               struct cay_error *err);

int cay_sse_feed(struct cay_sse *s, const char *bytes, size_t len, cay_sse_handler handler,
                 void *arg, struct cay_error *err);
/* Forgets what was under way, but not the id: for a new connection. */
void cay_sse_restart(struct cay_sse *s);
void cay_sse_done(struct cay_sse *s);
