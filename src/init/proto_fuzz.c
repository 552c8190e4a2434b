/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a message to pid 1, and as the passwd of a sandbox. */
#include "init/proto.h"
#include "init/user.h"
#include "model/limits.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *words[2 + CAY_MAX_ARGS + 4 * CAY_MAX_ENV];
    struct cay_init_request req = {0};
    memcpy(&req, data, size < sizeof req ? size : sizeof req);
    for (unsigned fds = 0; fds < 4; fds++) {
        if (cay_init_check(&req, size, fds) != CAY_INIT_OK)
            continue;
        const bool sized =
            req.op == CAY_INIT_RESIZE || (req.op == CAY_INIT_EXEC && req.flags & CAY_INIT_TTY);
        if (sized && ((req.window & 0xffff) - 1 >= CAY_MAX_WINDOW ||
                      (req.window >> 16) - 1 >= CAY_MAX_WINDOW))
            __builtin_trap();
        if (req.op == CAY_INIT_INPUT && (fds < 1 || (fds == 2) != (req.flags == CAY_INIT_CLOSE)))
            __builtin_trap();
        if (req.op != CAY_INIT_EXEC)
            continue;
        const char *strings = (const char *)data + sizeof req;
        size_t count = 2 + (size_t)req.argc + req.envc;
        if (!(req.flags & CAY_INIT_BY_MEMFD) &&
            cay_init_unpack(strings, req.strings_len, count, words))
            for (size_t i = 0; i < count; i++)
                if (strlen(words[i]) > CAY_MAX_ARG_BYTES)
                    __builtin_trap();
    }
    struct cay_user u;
    char name[16] = {0};
    if (size < sizeof name)
        return 0;
    memcpy(name, data, sizeof name - 1);
    if (cay_user_find((const char *)data + sizeof name, size - sizeof name, name, &u) &&
        (u.uid > CAY_USER_MAX || u.gid > CAY_USER_MAX || u.home[0] != '/'))
        __builtin_trap();
    return 0;
}
