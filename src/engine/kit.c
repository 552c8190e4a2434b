/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kit.h"
#include "base/log.h"
#include "base/packet.h"

#define KIT_FDS (3 + CAY_CG_COUNT)
_Static_assert(KIT_FDS <= CAY_PACKET_FDS, "a kit's descriptors go beside one message");

/* Where its descriptors stand, in the order in which they are sent. How many there are. */
static int list_fds(struct cay_kit *kit, int *fds[KIT_FDS])
{
    int count = 0;
    fds[count++] = &kit->ids_fd;
    fds[count++] = &kit->init_fd;
    fds[count++] = &kit->file_fd;
    for (int i = 0; i < kit->cgroups.tree_count; i++)
        fds[count++] = &kit->cgroups.trees[i].parent_fd;
    return count;
}

int cay_kit_send(const struct cay_kit *kit, int sock)
{
    struct cay_kit copy = *kit;
    copy.form = CAY_KIT_FORM;
    int *at[KIT_FDS], fds[KIT_FDS], count = list_fds(&copy, at);
    for (int i = 0; i < count; i++)
        fds[i] = *at[i];
    return cay_packet_send(sock, &copy, sizeof copy, kit->seccomp.filter,
                           kit->seccomp.len * sizeof *kit->seccomp.filter, fds, count);
}

const struct cay_kit *cay_kit_receive(int sock)
{
    static struct {
        struct cay_kit kit;
        struct sock_filter code[BPF_MAXINSNS];
    } m;
    int *at[KIT_FDS], fds[KIT_FDS], fd_count = 0;
    ssize_t n = cay_packet_recv(sock, &m, sizeof m, fds, KIT_FDS, &fd_count);
    if (n <= 0)
        return NULL;
    if ((size_t)n < sizeof m.kit || m.kit.form != CAY_KIT_FORM ||
        (size_t)n != sizeof m.kit + m.kit.seccomp.len * sizeof *m.code ||
        list_fds(&m.kit, at) != fd_count) {
        cay_log_warn("cay-berth is of another build than the engine: start the server again");
        return NULL;
    }
    for (int i = 0; i < fd_count; i++)
        *at[i] = fds[i];
    m.kit.seccomp.filter = m.code;
    return &m.kit;
}
