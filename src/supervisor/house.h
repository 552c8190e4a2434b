/* SPDX-License-Identifier: Apache-2.0 */
/* The data directory and the port, as the supervisor opens them. */
#pragma once
#include "base/error.h"
#include "model/config.h"

struct cay_house {
    int lock_fd;   /* the supervisor's and the engine's: one of each per data directory */
    int run_fd;    /* DATA/run: pid files, the engine's socket */
    int engine_fd; /* the engine's listening socket; outlives engines */
};

/* Whom the server runs as: cfg->server_uid and _gid, from cfg->user. */
void cay_house_find_user(struct cay_config *cfg);
/* Takes the lock (waiting up to wait_ms for its holder to go), makes what is missing, and fills
 * cfg->data_fd, cfg->server_uid and _gid: with cfg->closing whose all is, else all becomes theirs.
 * A held lock: CAY_ERR_CONFLICT, naming who has it; nothing is changed. */
int cay_house_open(struct cay_house *h, struct cay_config *cfg, int64_t wait_ms,
                   struct cay_error *err);
/* After a conflict: SIGTERM to the supervisor that has the lock, if one has. */
void cay_house_ask_to_go(const struct cay_house *h);
/* The operator's socket, which only root and the server's user may open: cfg->admin_fd. */
int cay_house_admin(struct cay_house *h, struct cay_config *cfg, struct cay_error *err);
void cay_house_close(struct cay_house *h);
/* In the server's child, before it drops its rights: instead of the lock, which whoever has a copy
 * of can open for all, one that says no more than that a server lives. */
int cay_house_share_lock(struct cay_house *h, const struct cay_config *cfg, struct cay_error *err);
void cay_house_write_pid(const struct cay_house *h, const char *name, int pid);
/* Binds cfg->listen; fills cfg->listen_fd and cfg->url. */
int cay_port_open(struct cay_config *cfg, struct cay_error *err);
/* cfg->builder, and cfg->recipes where nobody named a directory. */
int cay_house_find_recipes(struct cay_config *cfg, struct cay_error *err);
/* Builds the default image when the store has none, with its progress on stderr; the store is there
 * then: cfg->store_path. */
int cay_default_image(struct cay_config *cfg, struct cay_error *err);
