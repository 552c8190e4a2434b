/* SPDX-License-Identifier: Apache-2.0 */
/* Names of clients for whom a name is a title: they call many sandboxes by the same one, in any
 * letters, and ask for them by their ids. */
#include "api/v1/v1.h"
#include <string.h>

#define TAIL 8 /* hex digits that tell apart those with one title */

bool cay_v1_titles(const struct cay_req *req)
{
    const char *agent = cay_req_header(req, "user-agent");
    return agent && strncmp(agent, "prime", 5) == 0;
}

bool cay_v1_title_refused(const struct cay_error *err)
{
    return strcmp(cay_error_name(err), "NAME_TAKEN") == 0 || strcmp(err->field, "name") == 0;
}

const char *cay_v1_title_name(struct cay_arena *a, const char *title, bool alone)
{
    char name[CAY_MAX_NAME + 1], tail[TAIL + 1];
    size_t len = 0, most = CAY_MAX_NAME - (alone ? 0 : TAIL + 1);
    for (; *title && len < most; title++) {
        char c = *title >= 'A' && *title <= 'Z' ? (char)(*title | 0x20) : *title;
        bool known = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (known || (len > 0 && name[len - 1] != '-'))
            name[len++] = known ? c : '-';
    }
    while (len > 0 && name[len - 1] == '-')
        len--;
    name[len] = 0;
    if (len == 0)
        return NULL; /* one is made up */
    if (alone)
        return cay_arena_strdup(a, name);
    cay_id_hex(tail, TAIL);
    return cay_arena_printf(a, "%s-%s", name, tail);
}
