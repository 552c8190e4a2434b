/* SPDX-License-Identifier: Apache-2.0 */
#include "base/packet.h"
#include "engine/kit.h"
#include "tests/test.h"
#include <sys/socket.h>
#include <unistd.h>

TEST(kit_is_taken_of_the_same_build_only)
{
    static struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, 7)};
    struct cay_kit sent = {.ids_fd = 0, .init_fd = 0, .file_fd = 0, .guards = true};
    struct cay_kit other = sent;
    const int fds[] = {0, 0, 0};
    int pair[2];
    sent.seccomp = (struct sock_fprog){COUNT(code), code};
    other.form = CAY_KIT_FORM + 1;
    CHECK_EQ("a socket", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK("sent", cay_kit_send(&sent, pair[0]) >= 0);
    const struct cay_kit *got = cay_kit_receive(pair[1]);
    CHECK("taken", got && got->guards && got->seccomp.len == 1 && got->seccomp.filter[0].k == 7);
    if (got)
        (void)(close(got->ids_fd) + close(got->init_fd) + close(got->file_fd));
    CHECK("another", cay_packet_send(pair[0], &other, sizeof other, NULL, 0, fds, 3) >= 0);
    CHECK("is not", !cay_kit_receive(pair[1]));
    (void)(close(pair[0]) + close(pair[1]));
    CHECK("nor who is gone", !cay_kit_receive(-1));
}
