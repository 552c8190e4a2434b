/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/netlink.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

static void *append(struct cay_netlink *n, const void *data, size_t len)
{
    if (n->len + NLMSG_ALIGN(len) > sizeof n->data)
        abort();
    void *at = n->data + n->len;
    memset(at, 0, NLMSG_ALIGN(len));
    if (data)
        memcpy(at, data, len);
    n->len += NLMSG_ALIGN(len);
    ((struct nlmsghdr *)(n->data + n->message))->nlmsg_len = (uint32_t)(n->len - n->message);
    return at;
}

void cay_netlink_begin(struct cay_netlink *n, uint16_t type, uint16_t flags, const void *head,
                       size_t head_len)
{
    struct nlmsghdr h = {
        .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags, .nlmsg_seq = ++n->count};
    n->message = n->len;
    append(n, &h, sizeof h);
    append(n, head, head_len);
}

void cay_netlink_put(struct cay_netlink *n, uint16_t attr, const void *data, size_t len)
{
    struct nlattr a = {.nla_type = attr, .nla_len = (uint16_t)(NLA_HDRLEN + len)};
    append(n, &a, sizeof a);
    append(n, data, len);
}

void cay_netlink_put_text(struct cay_netlink *n, uint16_t attr, const char *text)
{
    cay_netlink_put(n, attr, text, strlen(text) + 1);
}

void cay_netlink_put_be32(struct cay_netlink *n, uint16_t attr, uint32_t value)
{
    value = htonl(value);
    cay_netlink_put(n, attr, &value, sizeof value);
}

size_t cay_netlink_nest(struct cay_netlink *n, uint16_t attr)
{
    struct nlattr a = {.nla_type = NLA_F_NESTED | attr};
    size_t at = n->len;
    append(n, &a, sizeof a);
    return at;
}

void cay_netlink_nest_end(struct cay_netlink *n, size_t nest)
{
    ((struct nlattr *)(n->data + nest))->nla_len = (uint16_t)(n->len - nest);
}

void cay_netlink_want_answer(struct cay_netlink *n)
{
    ((struct nlmsghdr *)(n->data + n->message))->nlmsg_flags |= NLM_F_ACK;
}

/* The kernel has done everything when send returns; what it says waits in the socket. Errors come
 * unasked, the answer to the one that asks for it comes last. */
static int hear(int sock, struct cay_error *err)
{
    for (;;) {
        _Alignas(8) char answer[CAY_NETLINK_MAX];
        ssize_t len = recv(sock, answer, sizeof answer, MSG_DONTWAIT);
        if (len < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "the kernel's network does not answer");
        size_t left = (size_t)len;
        for (struct nlmsghdr *h = (struct nlmsghdr *)answer; NLMSG_OK(h, left);
             h = NLMSG_NEXT(h, left)) {
            const struct nlmsgerr *e = NLMSG_DATA(h);
            if (h->nlmsg_type != NLMSG_ERROR || h->nlmsg_len < NLMSG_LENGTH(sizeof *e))
                continue;
            errno = -e->error;
            if (errno)
                return cay_fail_errno(err, CAY_ERR_PROVIDER,
                                      "the kernel's network refuses message %u", h->nlmsg_seq);
            return 0;
        }
    }
}

int cay_netlink_open(int protocol, struct cay_error *err)
{
    int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    return sock < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot speak to the kernel's network")
                    : sock;
}

int cay_netlink_send(const struct cay_netlink *n, int sock, struct cay_error *err)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (sendto(sock, n->data, n->len, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot speak to the kernel's network");
    return hear(sock, err);
}
