/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/secret.h"
#include "base/path.h"
#include "model/limits.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* An editor's last newline is no part of a secret. */
static int of_file(struct cay_arena *a, const char *path, const char **out, struct cay_error *err)
{
    char *value;
    size_t len;
    CAY_AUTO_FREE char *real = realpath(path, NULL); /* behind links too: they are his own */
    int r = cay_path_read(AT_FDCWD, real ? real : path, CAY_MAX_ENV_BYTES, a, &value, &len, err);
    if (r < 0)
        return cay_wrap(err, "cannot read the secret in %s", path);
    if (strlen(value) != len || !cay_str_is_utf8(value, len))
        return cay_fail(err, CAY_ERR_INVALID, "the secret in %s is no text", path);
    if (len > 0 && value[len - 1] == '\n')
        value[len - 1] = 0;
    *out = value;
    return 0;
}

static int of_variable(struct cay_arena *a, const char *name, const char **out,
                       struct cay_error *err)
{
    const char *value = getenv(name);
    if (!value)
        return cay_fail(err, CAY_ERR_INVALID, "%s has no value in our own environment", name);
    *out = cay_arena_strdup(a, value);
    return 0;
}

typedef int (*secret_of)(struct cay_arena *a, const char *where, const char **out,
                         struct cay_error *err);

static int read_all(struct cay_arena *a, const char *option, const char *form,
                    const struct cay_strs *texts, secret_of of, struct cay_pairs *out,
                    struct cay_error *err)
{
    for (size_t i = 0; i < texts->count; i++) {
        const char *text = texts->at[i], *eq = strchr(text, '='), *value;
        if (!eq || eq == text || !eq[1])
            return cay_fail(err, CAY_ERR_INVALID, "--%s: \"%s\" is not %s", option, text, form);
        int r = of(a, eq + 1, &value, err);
        if (r < 0)
            return r;
        cay_pairs_set(a, out, cay_arena_strndup(a, text, (size_t)(eq - text)), value);
    }
    return 0;
}

int cay_secret_files(struct cay_arena *a, const char *option, const struct cay_strs *texts,
                     struct cay_pairs *out, struct cay_error *err)
{
    return read_all(a, option, "NAME=FILE", texts, of_file, out, err);
}

int cay_secret_variables(struct cay_arena *a, const char *option, const struct cay_strs *texts,
                         struct cay_pairs *out, struct cay_error *err)
{
    return read_all(a, option, "NAME=VARIABLE", texts, of_variable, out, err);
}
