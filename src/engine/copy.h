/* SPDX-License-Identifier: Apache-2.0 */
/* Copying a tree that a sandbox made, where the filesystem cannot do it at once. */
#pragma once
#include "base/error.h"
#include <stdint.h>

/* Copies what is in `from`, and its own attributes, to the empty directory `to`: data (shared where
 * the filesystem can, else holes stay holes), owners, modes, times, all extended attributes, hard
 * links, symlinks, pipes and whiteouts. Sockets are left out: nobody listens in a copy. `links` is
 * an empty directory beside it for our own use.
 * `method_out` is static: "reflink" or "copy"; `bytes_out` what all files hold. CAY_ERR_TIMEOUT
 * after until_ms (monotonic). */
int cay_copy_tree(int from, int to, int links, int64_t until_ms, const char **method_out,
                  uint64_t *bytes_out, struct cay_error *err);
