/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remove.h"
#include "cli/output.h"
#include <stdio.h>
#include <string.h>

static int remove_one(struct cay_cli *cli, const char *path, const char *tell,
                      struct cay_error *err)
{
    const struct cay_remote_options *o = cli->options;
    const struct cay_json *root;
    int r = cay_remote_call(cli, "DELETE", path, NULL, 0, &root, err);
    if (r < 0)
        return r;
    const char *told = tell ? cay_json_get_str(root, tell, NULL) : NULL;
    if (o->json)
        cay_output_json(cli->raw);
    else if (told)
        printf("%s\n", told);
    return 0;
}

int cay_remove_each(struct cay_cli *cli, const char *kind, size_t first, const char *query,
                    const char *tell, struct cay_error *err)
{
    int status = 0;
    for (size_t i = first; i < cli->args.args.count; i++) {
        const char *id = cli->args.args.at[i];
        const char *path = cay_remote_path(cli, kind, id, (const char *)NULL);
        int r = remove_one(cli, cay_arena_printf(&cli->arena, "%s%s", path, query), tell, err);
        if (r < 0 && err->name && strcmp(err->name, "NO_SERVER") == 0)
            return r; /* it will be so for the others too */
        if (r < 0) {
            fprintf(stderr, "%s: ", id);
            cay_cli_tell(cli, err);
            status = CAY_EXIT_FAILED;
        }
    }
    return status;
}
