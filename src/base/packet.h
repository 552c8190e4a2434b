/* SPDX-License-Identifier: Apache-2.0 */
/* One seqpacket message, with descriptors beside it. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#define CAY_PACKET_FDS 9

/* head and tail go out as one message. -1 with errno. */
int cay_packet_send(int sock, const void *head, size_t head_len, const void *tail, size_t tail_len,
                    const int *fds, int fd_count);
/* Length of the message, 0 when the peer is gone, -1 with errno. Descriptors come CLOEXEC; those
 * beyond `max_fds` (which may be 0: then no control data is taken at all) are closed. More than we
 * have room for, CAY_PACKET_FDS, and a message longer than the buffer are -1, EMSGSIZE, and nothing
 * stays open. */
ssize_t cay_packet_recv(int sock, void *buf, size_t size, int *fds, int max_fds, int *fd_count_out);
/* A blocking connection to a listener by path; -1 with errno. */
int cay_packet_connect(const char *path);
