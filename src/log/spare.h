/* SPDX-License-Identifier: Apache-2.0 */
/* Empty files and directories made ahead, beside the logs, by a thread of their own.
 *
 * Every execution needs a file, and making one can take longer than the execution: a file system
 * without a journal looks through all names that went lately. Giving one a name is always quick. */
#pragma once

struct cay_spares;

/* Those of the last run are removed first: their birth would tell a wrong order of executions.
 * logs_fd must stay open until they are closed. */
struct cay_spares *cay_spares_open(int logs_fd);
void cay_spares_close(struct cay_spares *s);

/* The file DIR/NAME, open for reading and writing; -1 and errno as of openat with O_EXCL. The
 * directory is made when it is not there. Files are born in the order in which they are taken. */
int cay_spares_take(struct cay_spares *s, const char *dir, const char *name);
