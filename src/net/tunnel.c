/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tunnel.h"
#include "net/rule.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define HEAD_MAX 8192

bool cay_tunnel_ask(int fd, const struct cay_net_proxy *proxy, const struct cay_address *to,
                    const char *name)
{
    char head[2048], ip[INET6_ADDRSTRLEN + 2], host[300];
    cay_address_text(&to->ip, ip);
    snprintf(host, sizeof host, strchr(ip, ':') && !name ? "[%s]:%u" : "%s:%u", name ? name : ip,
             to->port);
    int len = snprintf(head, sizeof head, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", host,
                       host, *proxy->credentials ? "Proxy-Authorization: Basic " : "",
                       proxy->credentials, *proxy->credentials ? "\r\n" : "");
    return send(fd, head, (size_t)len, MSG_NOSIGNAL) == len;
}

int cay_tunnel_answer(int fd)
{
    char head[HEAD_MAX];
    ssize_t n = recv(fd, head, sizeof head, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    char *end = memmem(head, (size_t)n, "\r\n\r\n", 4);
    if (!end)
        return n == HEAD_MAX ? -1 : 0;
    size_t len = (size_t)(end - head) + 4;
    if (recv(fd, head, len, 0) != (ssize_t)len)
        return -1;
    bool http = len > 12 && memcmp(head, "HTTP/1.", 7) == 0;
    return http && memcmp(head + 8, " 2", 2) == 0 ? 1 : -1;
}
