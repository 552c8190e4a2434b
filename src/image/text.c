/* SPDX-License-Identifier: Apache-2.0 */
#include "image/text.h"
#include "base/buf.h"
#include "base/clock.h"
#include "image/reading.h"
#include "model/limits.h"
#include <string.h>

static void add(struct cay_buf *b, const char *key, const char *value)
{
    bool coded = strchr(value, '\n');
    cay_buf_addf(b, "%s%s=", key, coded ? "%" : "");
    for (; *value; value++)
        if (coded && (*value == '\n' || *value == '%'))
            cay_buf_adds(b, *value == '%' ? "%25" : "%0A");
        else
            cay_buf_addc(b, *value);
    cay_buf_addc(b, '\n');
}

static void add_all(struct cay_buf *b, const char *key, const struct cay_strs *values)
{
    for (size_t i = 0; i < values->count; i++)
        add(b, key, values->at[i]);
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
    add(&b, "user", c->user);
    add(&b, "workdir", c->workdir);
    add_all(&b, "env", &c->env);
    add_all(&b, "entrypoint", &c->entrypoint);
    add_all(&b, "cmd", &c->cmd);
    add(&b, "stopsignal", c->stop_signal);
    add(&b, "arch", c->architecture);
    if (c->created_ms)
        add(&b, "created", cay_clock_iso(c->created_ms, iso));
    if (*about->digest)
        add(&b, "digest", about->digest);
    if (*about->source)
        add(&b, "source", about->source);
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

bool cay_image_text_next(struct cay_arena *a, char **rest, const char **key, char **value)
{
    const char *plain;
    char *line, *at;
    do
        if (!(line = strsep(rest, "\n")))
            return false;
    while (!(at = strchr(line, '=')));
    *at = 0;
    *key = line;
    *value = at + 1;
    if (at > line && at[-1] == '%' && cay_str_percent(a, at + 1, strlen(at + 1), &plain)) {
        at[-1] = 0;
        *value = cay_arena_strdup(a, plain);
    }
    return true;
}

int cay_image_text_read(struct cay_arena *a, const char *text, struct cay_image_about *out,
                        struct cay_error *err)
{
    char *rest = cay_arena_strdup(a, text), *value;
    const char *key;
    struct cay_image_about about = {.config = {.os = "linux",
                                               .architecture = "",
                                               .variant = "",
                                               .user = "",
                                               .workdir = "",
                                               .stop_signal = ""},
                                    .digest = "",
                                    .source = ""};
    while (cay_image_text_next(a, &rest, &key, &value))
        read_line(a, key, value, &about);
    if (about.config.diff_ids.count == 0)
        return cay_image_bad(err, "an image without layers");
    *out = about;
    return 0;
}
