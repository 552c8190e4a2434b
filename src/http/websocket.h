/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket frames (RFC 6455), to bytes and back, and the words of the handshake. For both sides:
 * the server's decoder wants masked frames, the client's wants none. No extensions. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include <stdbool.h>

#define CAY_WS_ACCEPT_SIZE 29 /* of Sec-WebSocket-Accept, with its NUL */

enum cay_ws_op {
    CAY_WS_MORE = 0, /* a further fragment */
    CAY_WS_TEXT = 1,
    CAY_WS_BINARY = 2,
    CAY_WS_CLOSE = 8,
    CAY_WS_PING = 9,
    CAY_WS_PONG = 10,
};

enum cay_ws_code {
    CAY_WS_NORMAL = 1000,
    CAY_WS_GOING = 1001,    /* the server goes; come again */
    CAY_WS_PROTOCOL = 1002, /* what came is no WebSocket */
    CAY_WS_NO_CODE = 1005,  /* a close without one; never sent */
    CAY_WS_NOT_TEXT = 1007,
    CAY_WS_POLICY = 1008,
    CAY_WS_TOO_BIG = 1009,
    CAY_WS_FAILED = 1011,
};

struct cay_ws { /* a zeroed one is at the beginning, and wants masked frames */
    bool unmasked;
    unsigned char head[14];
    unsigned have; /* bytes of the head; all of it is there when `in_payload` */
    bool in_payload;
    enum cay_ws_op op;      /* of the frame under way */
    enum cay_ws_op message; /* of the fragmented message under way; MORE: none */
    bool last;
    unsigned char mask[4];
    uint64_t left, at; /* of the frame's payload */
    uint64_t size;     /* of the message, so far */
    unsigned fragments;
    struct cay_buf text; /* what has come of a text message or a control frame */
    size_t text_len;     /* of the message, where a control frame came in between */
};

struct cay_ws_piece {
    enum cay_ws_op op; /* of a binary message any part; the others are whole */
    const char *data;  /* valid until the next call */
    size_t len;
    enum cay_ws_code code; /* of a CLOSE */
};

/* Takes bytes, which it unmasks in place. 1 with a piece, 0 when more must come, or the negative of
 * the code that the other side must be told. used_out tells how many bytes were taken. */
int cay_ws_decode(struct cay_ws *d, char *data, size_t len, size_t *used_out,
                  struct cay_ws_piece *out);
void cay_ws_done(struct cay_ws *d);
/* Adds one whole frame; with a mask (4 bytes) as a client must. */
void cay_ws_frame(struct cay_buf *out, enum cay_ws_op op, const void *data, size_t len,
                  const unsigned char *mask);
void cay_ws_close_frame(struct cay_buf *out, enum cay_ws_code code, const char *reason,
                        const unsigned char *mask);
/* Is this a key as a client sends it? And what must be answered to it. */
bool cay_ws_key_is_valid(const char *key);
void cay_ws_accept(const char *key, char out[CAY_WS_ACCEPT_SIZE]);
