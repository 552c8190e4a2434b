/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/backend.h"
#include "base/path.h"
#include "model/limits.h"
#include "provider/provider.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME                                                                                  \
    "provider" /* the name, a line with Docker's address, one with its certificates                \
                */
#define FILE_MAX 4096
#define EVENTS 64

/* Cuts the next line off; "" when there is none. */
static const char *take_line(char **at)
{
    char *line = *at;
    *at += strcspn(line, "\n");
    if (**at)
        *(*at)++ = 0;
    return line;
}

int cay_backend_recall(struct cay_config *cfg, struct cay_arena *a, struct cay_error *err)
{
    CAY_AUTO_FD int data = open(cfg->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *text;
    int r = cay_path_read(data, FILE_NAME, FILE_MAX, a, &text, NULL, err);
    if (r == CAY_ERR_NOT_FOUND)
        text = cay_arena_strdup(a, "native\n");
    else if (r < 0)
        return r;
    cfg->provider = take_line(&text);
    const char *host = take_line(&text), *certs = take_line(&text);
    cfg->docker_host = *host ? host : NULL;
    cfg->docker_certs = *certs ? certs : NULL;
    return r == CAY_ERR_NOT_FOUND ? 1 : 0;
}

int cay_backend_claim(const struct cay_config *cfg, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_config before = {.data = cfg->data};
    char mark[4096];
    int r = cay_backend_recall(&before, &a, err);
    if (r < 0)
        return r;
    (void)snprintf(mark, sizeof mark, "%s/instance", cfg->data);
    bool used = r == 0 || access(mark, F_OK) == 0; /* one older than this file is native's */
    if (used && strcmp(before.provider, cfg->provider) != 0)
        return cay_fail(err, CAY_ERR_CONFLICT,
                        "the sandboxes in %s are the %s provider's; start with --provider %s, or "
                        "in another directory",
                        cfg->data, before.provider, before.provider);
    CAY_AUTO_FD int data = open(cfg->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *text = cay_arena_printf(&a, "%s\n%s\n%s\n", cfg->provider,
                                        cfg->docker_host ? cfg->docker_host : "",
                                        cfg->docker_certs ? cfg->docker_certs : "");
    return cay_path_store(data, FILE_NAME, text, strlen(text), 0644, err);
}

int cay_backend_identify(struct cay_config *cfg, struct cay_arena *a, struct cay_error *err)
{
    const struct {
        const char *name, **text;
    } files[] = {{"ca.pem", &cfg->docker_ca},
                 {"cert.pem", &cfg->docker_cert},
                 {"key.pem", &cfg->docker_key}};
    if (!cfg->docker_certs)
        return 0;
    for (size_t i = 0; i < CAY_COUNT(files); i++) {
        const char *path = cay_arena_printf(a, "%s/%s", cfg->docker_certs, files[i].name);
        char *text = NULL;
        int r = cay_path_read(AT_FDCWD, path, CAY_TLS_PEM_MAX, a, &text, NULL, err);
        if (r < 0 && (r != CAY_ERR_NOT_FOUND || i == 0))
            return cay_wrap(err, "cannot read %s, for TLS to the Docker Engine", path);
        *files[i].text = text;
    }
    if (!cfg->docker_cert != !cfg->docker_key)
        return cay_fail(err, CAY_ERR_INVALID, "cert.pem and key.pem in %s need each other",
                        cfg->docker_certs);
    return 0;
}

static int destroy_all(struct cay_provider *p, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_provider_list list;
    int r = cay_provider_list(p, &a, &list, err);
    for (size_t i = 0; r == 0 && i < list.count; i++)
        r = cay_provider_destroy(p, list.at[i].id, NULL, NULL, err);
    return r;
}

int cay_backend_down(const struct cay_config *cfg, struct cay_error *err)
{
    struct cay_config own = *cfg;
    struct cay_queue events;
    struct cay_provider *p;
    void *left;
    CAY_AUTO_FD int data = open(cfg->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    own.data_fd = data;
    cay_queue_init(&events, EVENTS);
    int r = cay_provider_open(cfg->provider, &own, &events, &p, err);
    if (r == 0) {
        r = destroy_all(p, err);
        cay_provider_close(p);
    }
    while ((left = cay_queue_pop(&events, 0)) != NULL)
        free(left);
    cay_queue_done(&events);
    return r;
}
