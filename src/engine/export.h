/* SPDX-License-Identifier: Apache-2.0 */
/* An image as a file that others read: an OCI layout and Docker's manifest.json in one tar.
 *
 * The same layers give the same bytes: files are walked in the order of their names, and nothing of
 * this host or hour is written. */
#pragma once
#include "engine/engine.h"
#include "engine/message.h"

/* The image rq->image; with rq->id that snapshot's files on the image it was made from, to be
 * loaded as rq->image. How many bytes were written is told to progress_fd, if there is one. */
int cay_export(const struct cay_engine *e, const struct cay_engine_request *rq, int fd,
               int progress_fd, struct cay_error *err);
