/* SPDX-License-Identifier: Apache-2.0 */
#include "base/packet.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

int cay_packet_send(int sock, const void *head, size_t head_len, const void *tail, size_t tail_len,
                    const int *fds, int fd_count)
{
    struct iovec iov[2] = {{(void *)head, head_len}, {(void *)tail, tail_len}};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(CAY_PACKET_FDS * sizeof(int))];
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = tail_len ? 2 : 1};

    if (fd_count) {
        size_t len = (size_t)fd_count * sizeof(int);
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(len);
        memset(control, 0, sizeof control);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(len);
        memcpy(CMSG_DATA(c), fds, len);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

static int collect(struct msghdr *msg, int *fds, int max_fds)
{
    int count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int here = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + (size_t)i * sizeof fd, sizeof fd);
            if (count < max_fds)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

ssize_t cay_packet_recv(int sock, void *buf, size_t size, int *fds, int max_fds, int *fd_count_out)
{
    struct iovec iov = {buf, size};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(CAY_PACKET_FDS * sizeof(int))];
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (max_fds) {
        msg.msg_control = control;
        msg.msg_controllen = sizeof control;
    }
    ssize_t n;
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    int count = n > 0 && max_fds ? collect(&msg, fds, max_fds) : 0;
    if (n > 0 && (msg.msg_flags & (MSG_TRUNC | (max_fds ? MSG_CTRUNC : 0)))) {
        for (int i = 0; i < count; i++)
            close(fds[i]);
        errno = EMSGSIZE;
        return -1;
    }
    if (fd_count_out)
        *fd_count_out = count;
    return n;
}

int cay_packet_connect(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof addr.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(addr.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}
