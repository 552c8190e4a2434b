/* SPDX-License-Identifier: Apache-2.0 */
#include "image/text.h"
#include "base/buf.h"
#include "base/clock.h"
#include "image/reading.h"
#include "model/limits.h"
#include <string.h>

static bool add(struct cay_buf *b, const char *key, const char *value)
{
    cay_buf_addf(b, "%s=", key);
    cay_buf_adds(b, value);
    cay_buf_addc(b, '\n');
    return !strchr(value, '\n');
}

static bool add_all(struct cay_buf *b, const char *key, const struct cay_strs *values)
{
    bool good = true;
    for (size_t i = 0; i < values->count; i++)
        good &= add(b, key, values->at[i]);
    return good;
}

int cay_image_text_write(struct cay_arena *a, const struct cay_image_about *about, const char **out,
                         struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    const struct cay_image_config *c = &about->config;
    char iso[CAY_ISO_SIZE];
    cay_buf_adds(&b, "layers=");
    for (size_t i = c->diff_ids.count; i-- > 0;)
        cay_buf_addf(&b, "%s%s", c->diff_ids.at[i], i ? " " : "\n");
    bool good = add(&b, "user", c->user) & add(&b, "workdir", c->workdir) &
                add_all(&b, "env", &c->env) & add_all(&b, "entrypoint", &c->entrypoint) &
                add_all(&b, "cmd", &c->cmd) & add(&b, "stopsignal", c->stop_signal) &
                add(&b, "arch", c->architecture);
    if (c->created_ms)
        (void)add(&b, "created", cay_clock_iso(c->created_ms, iso));
    if (*about->digest)
        good &= add(&b, "digest", about->digest);
    if (*about->source)
        good &= add(&b, "source", about->source);
    if (!good)
        return cay_image_bad(err, "a setting of the image has a line break in it");
    if (b.len >= (size_t)CAY_IMAGE_TEXT_BYTES)
        return cay_image_bad(err, "the image's settings are too long");
    *out = cay_arena_strndup(a, b.data, b.len);
    return 0;
}

static void read_layers(struct cay_arena *a, char *value, struct cay_strs *out)
{
    char *rest = NULL;
    struct cay_strs down = {0};
    for (char *id = strtok_r(value, " ", &rest); id; id = strtok_r(NULL, " ", &rest))
        cay_strs_push(a, &down, id);
    for (size_t i = down.count; i-- > 0;)
        cay_strs_push(a, out, down.at[i]);
}

static void read_line(struct cay_arena *a, const char *key, char *value,
                      struct cay_image_about *out)
{
    struct cay_image_config *c = &out->config;
    const struct {
        const char *key;
        const char **one;
        struct cay_strs *list;
    } keys[] = {
        {"user", &c->user, NULL},
        {"workdir", &c->workdir, NULL},
        {"stopsignal", &c->stop_signal, NULL},
        {"arch", &c->architecture, NULL},
        {"digest", &out->digest, NULL},
        {"source", &out->source, NULL},
        {"env", NULL, &c->env},
        {"entrypoint", NULL, &c->entrypoint},
        {"cmd", NULL, &c->cmd},
    };
    for (size_t i = 0; i < CAY_COUNT(keys); i++) {
        if (strcmp(keys[i].key, key) != 0)
            continue;
        if (keys[i].one)
            *keys[i].one = value;
        else
            cay_strs_push(a, keys[i].list, value);
    }
    if (strcmp(key, "layers") == 0)
        read_layers(a, value, &c->diff_ids);
    if (strcmp(key, "created") == 0)
        (void)cay_clock_parse(value, &c->created_ms); /* or it is not known */
}

int cay_image_text_read(struct cay_arena *a, const char *text, struct cay_image_about *out,
                        struct cay_error *err)
{
    char *rest = NULL;
    struct cay_image_about about = {.config = {.os = "linux",
                                               .architecture = "",
                                               .variant = "",
                                               .user = "",
                                               .workdir = "",
                                               .stop_signal = ""},
                                    .digest = "",
                                    .source = ""};
    for (char *line = strtok_r(cay_arena_strdup(a, text), "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        if (!value)
            continue;
        *value++ = 0;
        read_line(a, line, value, &about);
    }
    if (about.config.diff_ids.count == 0)
        return cay_image_bad(err, "an image without layers");
    *out = about;
    return 0;
}
