/* SPDX-License-Identifier: Apache-2.0 */
/* The data directory and the port, as the supervisor opens them. */
#pragma once
#include "base/error.h"
#include "model/config.h"

struct cay_house {
    int lock_fd;   /* held as long as one of us lives: one server per data directory */
    int run_fd;    /* DATA/run: pid files, the engine's socket */
    int engine_fd; /* the engine's listening socket; outlives engines */
};

/* Makes what is missing, takes the lock (waiting up to wait_ms for its holder to go), and fills
 * cfg->data_fd, cfg->server_uid and _gid. A held lock: CAY_ERR_CONFLICT, naming who has it. */
int cay_house_open(struct cay_house *h, struct cay_config *cfg, int64_t wait_ms,
                   struct cay_error *err);
void cay_house_close(struct cay_house *h);
void cay_house_write_pid(const struct cay_house *h, const char *name, int pid);
int cay_house_read_pid(const char *data_dir, const char *name); /* 0: none */
/* Binds cfg->listen; fills cfg->listen_fd and cfg->url. */
int cay_port_open(struct cay_config *cfg, struct cay_error *err);
/* Builds the default image when the store has none, with its progress on stderr. */
int cay_default_image(const struct cay_config *cfg, struct cay_error *err);
