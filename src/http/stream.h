/* SPDX-License-Identifier: Apache-2.0 */
/* Something that lasts: bytes that come from a file which others append to, from a pipe, or from
 * time to time.
 *
 * The loop pulls when there is room on the wire, waits on the stream's file (by inotify) or pipe
 * (by epoll), or for its time, when there is nothing more yet, and closes the stream when it ends
 * or the client goes. A stream has its own memory: the request's arena is gone by then (except
 * under cay_resp_defer). */
#pragma once
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

enum cay_pull {
    CAY_PULL_MORE, /* call again when there is room */
    CAY_PULL_WAIT, /* nothing now: wake me when the file changes, or at wake_at_ms */
    CAY_PULL_END,
    CAY_PULL_ABORT, /* cut the connection: the answer cannot be finished truthfully */
};

struct cay_stream {
    const struct cay_stream_ops *ops;
    int watch_fd;          /* file whose changes wake this stream; borrowed; -1 none */
    const char *keepalive; /* sent after 15 s of silence; NULL none; static */
    bool is_pipe;       /* watch_fd is: woken when it is readable. Has an end, so that it may go on
                           while the server drains */
    bool endless;       /* a pipe that has none: cut when the server drains */
    int64_t wake_at_ms; /* monotonic; 0: the file wakes it. Else `work` is due then */
};

struct cay_stream_ops {
    /* Adds about `room` bytes to out, on the loop: must not block for long. */
    enum cay_pull (*pull)(struct cay_stream *s, struct cay_buf *out, size_t room);
    void (*close)(struct cay_stream *s); /* frees */
    /* Optional, of a pipe. Moves bytes into a socket that takes them as they are, without looking
     * at them. CAY_PULL_WAIT: none could be moved, and pull finds out why. */
    enum cay_pull (*move)(struct cay_stream *s, int socket_fd);
    /* Optional. The client takes nothing for now: lets go of what can be read again. */
    void (*rest)(struct cay_stream *s);
    /* With wake_at_ms. On a worker, so it may block on bounded work; then the stream is pulled. */
    void (*work)(struct cay_stream *s);
};
