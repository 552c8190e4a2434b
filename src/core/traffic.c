/* SPDX-License-Identifier: Apache-2.0 */
/* What accounts have used of the way out today, beyond the life of one server: a small file, which
 * is written now and then. What the last half minute before a crash moved is forgotten. */
#include "core/traffic.h"
#include "base/log.h"
#include "base/path.h"
#include "core/core.h"
#include "core/network.h"
#include "net/egress.h"
#include <stdio.h>
#include <string.h>

#define FILE_NAME "egress.used"
#define LINE_MAX (CAY_ID_SIZE + 48)

static bool read_line(char *line, struct cay_egress_use *out)
{
    char *save = NULL, *words[3];
    uint64_t day;
    for (size_t i = 0; i < CAY_COUNT(words); i++)
        if (!(words[i] = strtok_r(i ? NULL : line, " ", &save)))
            return false;
    *out = (struct cay_egress_use){0};
    cay_str_copy(out->account_id, sizeof out->account_id, words[1]);
    bool good =
        cay_str_u64(words[0], INT32_MAX, &day) && cay_str_u64(words[2], INT64_MAX, &out->bytes);
    out->day = (int64_t)day;
    return good;
}

static void recall(struct cay_core *core)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    char *text, *save = NULL;
    int r =
        cay_path_read(core->data_fd, FILE_NAME, CAY_NET_USERS * LINE_MAX, &a, &text, NULL, &err);
    if (r == CAY_ERR_NOT_FOUND)
        return;
    if (r < 0) {
        cay_log_error(&err, "what accounts moved today is forgotten");
        return;
    }
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct cay_egress_use use;
        if (read_line(line, &use))
            cay_egress_recall(core->egress, &use);
    }
}

/* Quotas that were set before this server began. */
static int set_limits(struct cay_core *core, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    for (int teams = 0; teams < 2; teams++) {
        struct cay_holder_list all;
        int r = cay_store_holder_list(core->store, teams, &a, &all, err);
        if (r < 0)
            return r;
        for (size_t i = 0; i < all.count; i++)
            cay_network_limit(core, &all.at[i]);
    }
    return 0;
}

int cay_traffic_begin(struct cay_core *core, struct cay_error *err)
{
    recall(core);
    return set_limits(core, err);
}

void cay_traffic_keep(struct cay_core *core)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf text = {0};
    struct cay_error err = {0};
    if (!core->egress)
        return;
    struct cay_egress_use *all = cay_arena_alloc(&a, CAY_NET_USERS * sizeof *all);
    size_t count = cay_egress_used(core->egress, NULL, all, CAY_NET_USERS);
    for (size_t i = 0; i < count; i++)
        cay_buf_addf(&text, "%lld %s %llu\n", (long long)all[i].day, all[i].account_id,
                     (unsigned long long)all[i].bytes);
    if (count > 0 &&
        cay_path_replace(core->data_fd, FILE_NAME, text.data, text.len, 0600, &err) < 0)
        cay_log_error(&err, "what accounts moved today is not kept");
}
