/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/berth.h"
#include "base/packet.h"
#include "base/path.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

void cay_berth_done(struct cay_berth *b)
{
    cay_close_fd(&b->net_fd);
    cay_close_fd(&b->ipc_fd);
    cay_close_fd(&b->user_fd);
    cay_close_fd(&b->lock_fd);
    cay_close_fd(&b->hull_fd);
}

int cay_berth_to_fds(const struct cay_berth *b, int fds[CAY_BERTH_FDS])
{
    const int all[CAY_BERTH_FDS] = {b->net_fd, b->ipc_fd, b->user_fd, b->lock_fd, b->hull_fd};
    int count = 0;
    while (count < CAY_BERTH_FDS && all[count] >= 0) {
        fds[count] = all[count];
        count++;
    }
    return count;
}

struct cay_berth cay_berth_from_fds(const int *fds, int count, uint32_t base, pid_t hull)
{
    struct cay_berth b = CAY_NO_BERTH;
    int *const all[CAY_BERTH_FDS] = {&b.net_fd, &b.ipc_fd, &b.user_fd, &b.lock_fd, &b.hull_fd};
    for (int i = 0; i < count; i++)
        *all[i] = fds[i];
    b.base = base;
    b.hull = hull;
    return b;
}

int cay_berth_open_ids(int *fd_out, struct cay_error *err)
{
    (void)mkdir("/run/cay", 0755); /* exists already, or open below tells */
    return cay_path_open_dir(AT_FDCWD, "/run/cay/ids", 0700, fd_out, err);
}

/* What goes over the socket: this and the descriptors, or an error and none. */
struct berth_message {
    uint32_t base;
    pid_t hull;
    bool closed;
    struct cay_error err;
};

int cay_berth_send(int sock, const struct cay_berth *b, const struct cay_error *err)
{
    struct berth_message m = {b->base, b->hull, b->closed, .err = *err};
    int fds[CAY_BERTH_FDS];
    return cay_packet_send(sock, &m, sizeof m, NULL, 0, fds, cay_berth_to_fds(b, fds));
}

int cay_berth_receive(int sock, struct cay_berth *out, struct cay_error *err)
{
    struct berth_message m;
    int fds[CAY_BERTH_FDS];
    int fd_count = 0;
    ssize_t n = cay_packet_recv(sock, &m, sizeof m, fds, CAY_BERTH_FDS, &fd_count);
    if (n < 0 && errno == EAGAIN)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "no berth is ready");
    if (n != sizeof m)
        return cay_fail(err, CAY_ERR_INTERNAL, "the filler of berths is gone");
    if (fd_count == 0) {
        *err = m.err;
        err->name = NULL; /* a pointer of another process */
        return err->code;
    }
    *out = cay_berth_from_fds(fds, fd_count, m.base, m.hull);
    out->closed = m.closed;
    return 0;
}
