/* SPDX-License-Identifier: Apache-2.0 */
/* A file as a block device. It goes by itself when its last user does: the engine's descriptor, the
 * mounts of the engine and of its sandboxes. */
#pragma once
#include "base/error.h"

/* The device that the file is behind already, else a new one. `path_out` is its name in /dev. */
int cay_loop_attach(int file_fd, int *fd_out, char *path_out, size_t path_size,
                    struct cay_error *err);
