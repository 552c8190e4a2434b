/* SPDX-License-Identifier: Apache-2.0 */
/* The server's certificate and private key: read with root's rights, which the server has not. */
#pragma once
#include "base/error.h"
#include "model/config.h"

/* Reads cfg->tls_cert and tls_key, makes sure that they can be used, and puts them into memory that
 * a server reads them from (http/tls.h): *fd_out. */
int cay_certificate_read(const struct cay_config *cfg, int *fd_out, struct cay_error *err);
