/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the cgroup trees of this host, for engine/cgroup.h; and the small files in them. */
#pragma once
#include "engine/cgroup.h"

/* Every tree that has something we use, with our parent made in it. */
int cay_hierarchies_find(struct cay_cgroups *c, const char *instance, struct cay_error *err);

int cay_small_write(int dirfd, const char *name, const char *text); /* -1 with errno */
/* What fits, with a NUL; false: it cannot be read. */
bool cay_small_read(int dirfd, const char *name, char *text, size_t size);
