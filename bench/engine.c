/* SPDX-License-Identifier: Apache-2.0 */
/* engine SOCKET IMAGE COUNT: sandboxes made and deleted by asking the engine itself, without HTTP,
 * rows and logs. Each is gone before the next one comes. */
#include "engine/message.h"
#include "wire.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int connect_engine(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof(to.sun_path))
        die("%s is too long for a socket", path);
    memcpy(to.sun_path, path, strlen(path) + 1);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        die("cannot connect to %s: %s", path, strerror(errno));
    return fd;
}

static void close_received(struct msghdr *m)
{
    int fd;
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    if (!c || c->cmsg_len != CMSG_LEN(sizeof(fd)))
        return;
    memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    close(fd);
}

static void ask(int sock, const struct cay_engine_request *request)
{
    struct cay_engine_reply reply;
    char buf[CAY_MESSAGE_MAX];
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {buf, sizeof(buf)};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    if (send(sock, request, sizeof(*request), MSG_NOSIGNAL) != sizeof(*request))
        die("send: %s", strerror(errno));
    if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) < (ssize_t)sizeof(reply))
        die("the engine does not answer");
    memcpy(&reply, buf, sizeof(reply));
    close_received(&m);
    if (reply.code != 0)
        die("%s: %s: %s", request->id, reply.msg, reply.cause);
}

int main(int argc, char **argv)
{
    size_t count = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (count < 1)
        die("usage: engine SOCKET IMAGE COUNT");
    uint64_t *up = calloc(count, sizeof(*up)), *down = calloc(count, sizeof(*down));
    struct cay_engine_request request = {.version = CAY_ENGINE_VERSION,
                                         .hostname = "bench",
                                         .memory_bytes = CAY_DEFAULT_MEMORY_BYTES,
                                         .disk_bytes = CAY_DEFAULT_DISK_BYTES,
                                         .cpu_milli = CAY_DEFAULT_CPU_MILLI,
                                         .pids = CAY_DEFAULT_PIDS};
    if (!up || !down)
        die("out of memory");
    snprintf(request.image, sizeof(request.image), "%s", argv[2]);
    int sock = connect_engine(argv[1]);
    for (size_t i = 0; i < count; i++) {
        snprintf(request.id, sizeof(request.id), "sb-%010u%010u", (unsigned)getpid(), (unsigned)i);
        uint64_t began = now_ns();
        request.op = CAY_ENGINE_CREATE;
        ask(sock, &request);
        uint64_t made = now_ns();
        request.op = CAY_ENGINE_DESTROY;
        ask(sock, &request);
        up[i] = made - began;
        down[i] = now_ns() - made;
    }
    print_pair(up, down, count);
    free(down);
    free(up);
    return 0;
}
