/* SPDX-License-Identifier: Apache-2.0 */
/* Removing by id, one call each. */
#pragma once
#include "cli/remote.h"

/* DELETE /api/v1/KIND/ID for each argument from `first` on, also when one before it failed. Of the
 * answers prints the field `tell`, when it is not NULL and there; with --json all. */
int cay_remove_each(struct cay_cli *cli, const char *kind, size_t first, const char *query,
                    const char *tell, struct cay_error *err);
