/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for clients that speak plainly, by OpenSSL alone: so that every test of the server can be run
 * under TLS. */
#pragma once

/* The file (see cay_tls_server_from) by which toys are to speak TLS; NULL: they do not. */
const char *tunnel_identity(void);
/* Takes over a connected socket; what is read from and written to the one that is returned goes
 * through it under TLS. An end, or the end of one direction, is passed on. */
int tunnel_open(int fd);
