/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the beginning of a connection: cut anywhere, the first verdict is the one that the
 * whole has. */
#include "net/claim.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_claim whole = {0}, piece = {0};
    enum cay_claim_result want = cay_claim_read(data, size, false, &whole), got = CAY_CLAIM_MORE;
    for (size_t len = 0; got == CAY_CLAIM_MORE && len <= size; len++) {
        uint8_t *copy = malloc(len + 1); /* so that a byte behind is seen by the sanitizer */
        if (!copy)
            abort();
        uint8_t *at = len ? realloc(copy, len) : copy;
        if (!at)
            abort();
        if (len)
            memcpy(at, data, len);
        got = cay_claim_read(at, len, false, &piece);
        free(at);
    }
    if (got != want || strcmp(piece.name, whole.name) != 0)
        abort();
    if (size > 0 && cay_claim_read(data, size, true, &piece) == CAY_CLAIM_MORE)
        abort();
    return 0;
}
