/* SPDX-License-Identifier: Apache-2.0 */
/* The heads that pass a proxy, both ways. Nothing here touches a socket.
 *
 * Who stands behind may be hostile: an answer that two readers could take in two ways is refused,
 * and nothing that it says reaches further than its own origin. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "http/request.h"

struct cay_forward {
    char host[32];   /* the Host that it sees: "localhost:3000" */
    char prefix[48]; /* cut off the path, and put ahead of the paths that come back; or empty */
    char cookie[32]; /* ours: goes neither in nor out; or empty */
    bool is_tls;     /* between us and the client */
    bool hides_authorization; /* that was for us */
};

/* The whole head, as it goes in. A body goes as it came, in chunks or by its length; 100-continue
 * is between the client and us. */
void cay_forward_request(const struct cay_forward *f, const struct cay_req *req,
                         struct cay_buf *out);
/* Does this ask for a WebSocket? Nothing else is switched to. */
bool cay_forward_is_upgrade(const struct cay_req *req);

struct cay_forward_answer {
    int status;
    bool keep_alive;
    bool has_length, chunked; /* neither: the body goes on to the connection's end */
    uint64_t length;
};

/* Parses a head that cay_parse_scan found whole, and adds to out what of it goes on: the status
 * line and all headers but those of the connection and of the body's framing.
 * CAY_ERR_PROVIDER, "BAD_ANSWER". */
int cay_forward_answer(const struct cay_forward *f, const char *head, size_t len, bool upgrade,
                       struct cay_forward_answer *answer_out, struct cay_buf *out,
                       struct cay_error *err);
