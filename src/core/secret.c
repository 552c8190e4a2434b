/* SPDX-License-Identifier: Apache-2.0 */
#include "core/secret.h"
#include "base/path.h"
#include <string.h>
#include <sys/random.h>

int cay_secret_open(int data_fd, const char *name, uint8_t out[CAY_SECRET_SIZE],
                    struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    char *text;
    size_t len;
    int r = cay_path_read(data_fd, name, CAY_SECRET_SIZE, &a, &text, &len, err);
    if (r == CAY_ERR_NOT_FOUND && getrandom(out, CAY_SECRET_SIZE, 0) != CAY_SECRET_SIZE)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "no random bytes");
    if (r == CAY_ERR_NOT_FOUND)
        return cay_path_store(data_fd, name, out, CAY_SECRET_SIZE, 0600, err);
    if (r == 0 && len != CAY_SECRET_SIZE)
        r = cay_fail(err, CAY_ERR_STORE, "%s is damaged", name);
    if (r == 0)
        memcpy(out, text, len);
    return r;
}
