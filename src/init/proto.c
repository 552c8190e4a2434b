/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to pid 1, held against their bounds: the one place that looks at raw messages. */
#include "init/proto.h"
#include "model/limits.h"
#include <string.h>

#define ENV_MAX (4 * CAY_MAX_ENV) /* the image's, the sandbox's, the execution's, and ours */
#define LOG_CAP_MAX (1024 * (uint64_t)CAY_GIB)

static bool window_is_sound(uint32_t window)
{
    uint32_t cols = window & 0xffff, rows = window >> 16;
    return cols >= 1 && cols <= CAY_MAX_WINDOW && rows >= 1 && rows <= CAY_MAX_WINDOW;
}

/* At most one kind of stdin, and a size for every terminal. */
static bool streams_are_sound(const struct cay_init_request *req)
{
    uint32_t kind = req->flags & (CAY_INIT_HAS_STDIN | CAY_INIT_TTY | CAY_INIT_OPEN_STDIN);
    return (kind & (kind - 1)) == 0 && (kind != CAY_INIT_TTY || window_is_sound(req->window));
}

static bool exec_is_sound(const struct cay_init_request *req, size_t msg_len, unsigned fd_count)
{
    const uint32_t known =
        CAY_INIT_HAS_STDIN | CAY_INIT_BY_MEMFD | CAY_INIT_TTY | CAY_INIT_OPEN_STDIN;
    unsigned want = 1 + !!(req->flags & CAY_INIT_BY_MEMFD) + !!(req->flags & CAY_INIT_HAS_STDIN);
    size_t inline_len = req->flags & CAY_INIT_BY_MEMFD ? 0 : req->strings_len;
    return !(req->flags & ~known) && streams_are_sound(req) && fd_count == want &&
           msg_len == sizeof *req + inline_len && req->argc >= 1 && req->argc <= CAY_MAX_ARGS &&
           req->envc <= ENV_MAX && req->strings_len <= CAY_MEMFD_MAX &&
           req->grace_ms <= CAY_MAX_GRACE_MS && req->timeout_ms <= CAY_MAX_EXEC_TIMEOUT_MS &&
           (req->flags & CAY_INIT_TTY || req->await_ms <= CAY_INIT_AWAIT_MAX) &&
           req->log_head_bytes <= LOG_CAP_MAX && req->log_tail_bytes <= LOG_CAP_MAX;
}

static bool file_is_sound(const struct cay_init_request *req, size_t msg_len, unsigned fd_count)
{
    const uint32_t known = CAY_INIT_HAS_STDIN | CAY_INIT_HAS_END;
    unsigned want = 1 + !!(req->flags & CAY_INIT_HAS_STDIN) + !!(req->flags & CAY_INIT_HAS_END);
    return !(req->flags & ~known) && fd_count == want &&
           msg_len == sizeof *req + (size_t)req->strings_len && req->argc >= 1 &&
           req->argc <= CAY_FILE_ARGS && req->envc == 0 && req->timeout_ms >= 1 &&
           req->timeout_ms <= CAY_FILE_DATA_MS;
}

enum cay_init_result cay_init_check(const struct cay_init_request *req, size_t msg_len,
                                    unsigned fd_count)
{
    bool named = req->exec_id[0] && memchr(req->exec_id, 0, sizeof req->exec_id);
    bool sound = false;
    if (msg_len < sizeof *req || req->version != CAY_INIT_VERSION)
        return CAY_INIT_BAD_REQUEST;
    switch (req->op) {
    case CAY_INIT_PING:
    case CAY_INIT_LIST:
        sound = true;
        break;
    case CAY_INIT_EXEC:
        sound = named && exec_is_sound(req, msg_len, fd_count);
        break;
    case CAY_INIT_FILE:
        sound = file_is_sound(req, msg_len, fd_count);
        break;
    case CAY_INIT_KILL:
        sound = named && req->signal >= 1 && req->signal <= 64;
        break;
    case CAY_INIT_INPUT:
        sound = named && !(req->flags & ~(uint32_t)CAY_INIT_CLOSE) &&
                fd_count == 1 + (req->flags == CAY_INIT_CLOSE);
        break;
    case CAY_INIT_RESIZE:
        sound = named && window_is_sound(req->window);
        break;
    case CAY_INIT_STOP:
        sound = req->grace_ms <= CAY_MAX_GRACE_MS;
        break;
    }
    return sound ? CAY_INIT_OK : CAY_INIT_BAD_REQUEST;
}

bool cay_init_unpack(const char *strings, size_t len, size_t count, const char **out)
{
    for (size_t i = 0; i < count; i++) {
        const char *end = len ? memchr(strings, 0, len) : NULL;
        if (!end || end - strings > CAY_MAX_ARG_BYTES)
            return false;
        out[i] = strings;
        len -= (size_t)(end - strings) + 1;
        strings = end + 1;
    }
    return len == 0;
}
