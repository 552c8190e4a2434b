/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a registry sends: no crash, and what is accepted keeps its promises. */
#include "image/manifest.h"
#include "image/ref.h"
#include "image/text.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err;
    struct cay_manifest m;
    struct cay_image_config c;
    struct cay_ref ref, again;
    const struct cay_descriptor *chosen;
    const char *text = cay_arena_strndup(&a, (const char *)data, size), *written;
    if (cay_manifest_parse(&a, text, size, NULL, &m, &err) == 0) {
        for (size_t i = 0; i < m.count; i++)
            if (strlen(m.at[i].digest) != CAY_DIGEST_HEX)
                abort();
        if (m.is_index)
            (void)cay_manifest_choose(&m, "amd64", &chosen, &err);
    }
    if (cay_image_config_parse(&a, text, size, &c, &err) == 0) {
        struct cay_image_about about = {.config = c, .digest = "", .source = ""}, back;
        if (cay_image_text_write(&a, &about, &written, &err) == 0 &&
            (cay_image_text_read(&a, written, &back, &err) < 0 ||
             back.config.diff_ids.count != c.diff_ids.count))
            abort();
    }
    if (cay_ref_parse(&a, text, &ref, &err) == 0) {
        const char *full = cay_ref_full(&a, &ref);
        if (cay_ref_parse(&a, cay_ref_short(&a, &ref), &again, &err) < 0 ||
            strcmp(full, cay_ref_full(&a, &again)) != 0)
            abort();
    }
    return 0;
}
