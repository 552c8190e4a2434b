/* SPDX-License-Identifier: Apache-2.0 */
/* Connections out of a sandbox: taken, judged, dialled, and carried until both sides have ended.
 *
 * The address is judged before it is dialled. Where the policy lists names, what the sandbox sends
 * is looked at as well, before it is passed on (edge.c): who says there that he wants a host which
 * is not allowed is cut, although the address is one that we gave for another. What the other side
 * sends first is carried meanwhile: some protocols begin so. */
#include "base/clock.h"
#include "base/log.h"
#include "model/limits.h"
#include "net/metrics.h"
#include "net/tunnel.h"
#include "net/ways.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ACCEPTS 32 /* at once, before others' turn */

static struct cay_connection *of_pair(struct cay_link *p)
{
    return (struct cay_connection *)((char *)p - offsetof(struct cay_connection, pair));
}

static struct cay_connection *of_timer(struct cay_deadline *t)
{
    return (struct cay_connection *)((char *)t - offsetof(struct cay_connection, timer));
}

enum cay_verdict cay_way_judge(struct cay_way *w, const struct cay_address *to, const char *known,
                               const char *claim, const char **name_out)
{
    const char *names[CAY_NET_NAMES + 1];
    struct cay_net_host *host = &w->egress->host;
    int64_t now = cay_clock_mono_ms();
    size_t count = cay_given_names(&w->given, &to->ip, now, names, CAY_NET_NAMES);
    if (known)
        names[count++] = known;
    cay_net_host_look(host, now);
    struct cay_policy_asked q = {.to = *to,
                                 .names = names,
                                 .name_count = count,
                                 .claim = claim,
                                 .own = host->own,
                                 .own_count = host->own_count,
                                 .operators = host->operators,
                                 .operator_count = host->operator_count};
    *name_out = q.name_count ? names[0] : NULL;
    for (size_t i = 0; i < q.name_count; i++)
        if (cay_policy_name(&w->policy, names[i], to->port) == CAY_NET_ALLOWED) {
            *name_out = names[i];
            break;
        }
    return cay_policy_address(&w->policy, &q);
}

/* ---- its end ---- */

static void count(struct cay_connection *c)
{
    uint64_t sent = c->pair.sent.bytes - c->counted_sent;
    uint64_t received = c->pair.received.bytes - c->counted_received;
    c->counted_sent += sent;
    c->counted_received += received;
    c->way->sent_bytes += sent;
    c->way->received_bytes += received;
    cay_payer_count(c->way->payer, sent + received);
    cay_metric_add(&cay_net_sent, (int64_t)sent);
    cay_metric_add(&cay_net_received, (int64_t)received);
    if (c->wish && c->wish->serial == c->wish_serial) {
        c->wish->seen.sent_bytes += sent;
        c->wish->seen.received_bytes += received;
    }
}

static void say_failed(struct cay_connection *c)
{
    if (c->wish && c->wish->serial == c->wish_serial)
        c->wish->seen.failed = true;
}

static void forget(struct cay_connection *c)
{
    struct cay_way *w = c->way;
    count(c);
    cay_deadline_clear(&c->timer);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    w->connection_count--;
    w->payer->connections--;
    w->egress->connections--;
    cay_metric_add(&cay_net_open, -1);
    free(c->name);
    free(c->claim);
    free(c);
}

static void over(struct cay_link *p, bool reset)
{
    (void)reset;
    forget(of_pair(p));
}

void cay_connection_cut(struct cay_connection *c)
{
    if (c->pair.relay) {
        cay_link_close(&c->pair, true);
    } else {
        cay_loop_forget(c->way->egress->loop, &c->pair.out);
        cay_socket_reset(&c->pair.in.fd);
        cay_socket_reset(&c->pair.out.fd);
    }
    forget(c);
}

void cay_way_cut(struct cay_way *w)
{
    while (w->connections)
        cay_connection_cut(w->connections);
}

void cay_way_count(struct cay_way *w, struct cay_traffic *out)
{
    for (struct cay_connection *c = w->connections; c; c = c->next)
        count(c);
    *out = (struct cay_traffic){w->sent_bytes, w->received_bytes, w->connection_count};
}

void cay_way_overdrawn(struct cay_way *w)
{
    while (w->connections) {
        struct cay_connection *c = w->connections;
        (void)cay_way_wish(w, c->name, &c->to, CAY_NET_OVER_QUOTA);
        cay_metric_add(&cay_net_cut, 1);
        cay_connection_cut(c);
    }
}

void cay_connection_refuse(struct cay_connection *c, const char *name, enum cay_verdict v)
{
    (void)cay_way_wish(c->way, name, &c->to, v);
    cay_metric_add(&cay_net_refused, 1);
    cay_connection_cut(c);
}

/* One that was not looked at may have said another name than those that are allowed now. If it said
 * nothing yet, it is looked at from now on. */
static bool is_missed(struct cay_connection *c)
{
    struct cay_flow *sent = &c->pair.sent;
    if (!cay_edge_missed(c))
        return false;
    sent->looks = sent->bytes + sent->held + sent->ahead.len == 0;
    return !sent->looks;
}

void cay_way_judge_again(struct cay_way *w)
{
    const char *name;
    struct cay_connection *next;
    for (struct cay_connection *c = w->connections; c; c = next) {
        next = c->next;
        enum cay_verdict v = cay_way_judge(w, &c->to, c->name, c->claim, &name);
        bool missed = is_missed(c);
        if (v == CAY_NET_ALLOWED && !missed)
            continue;
        (void)cay_way_wish(w, name, &c->to, v == CAY_NET_ALLOWED ? CAY_NET_UNLISTED : v);
        cay_metric_add(&cay_net_cut, 1);
        cay_connection_cut(c);
    }
}

/* ---- the outer side ---- */

static void failed(struct cay_connection *c)
{
    say_failed(c);
    cay_metric_add(&cay_net_failed, 1);
    cay_connection_cut(c);
}

static void carry(struct cay_connection *c, uint32_t events)
{
    struct cay_egress *e = c->way->egress;
    cay_deadline_clear(&c->timer);
    c->pair.sent.looks = cay_edge_looks(&c->way->policy);
    c->pair.sharers = &c->way->connection_count;
    c->pair.asks = cay_edge_asks;
    c->pair.over = over;
    if (cay_link_begin(&c->pair, &e->relay)) /* the other side may have said something already */
        c->pair.out.ready(&c->pair.out, events);
    else
        failed(c);
}

static void dialled(struct cay_watch *w, uint32_t events)
{
    struct cay_connection *c =
        (struct cay_connection *)((char *)w - offsetof(struct cay_connection, pair.out));
    if (events & EPOLLERR) {
        failed(c);
        return;
    }
    if (c->proxied && !c->asked && (events & EPOLLOUT)) {
        c->asked = true;
        if (!cay_tunnel_ask(w->fd, &c->way->egress->host.proxy, &c->to, c->name))
            failed(c);
        return;
    }
    int r = c->proxied ? cay_tunnel_answer(w->fd) : 1;
    if (r < 0)
        failed(c);
    else if (r > 0)
        carry(c, events);
}

static bool dial(struct cay_connection *c)
{
    struct cay_egress *e = c->way->egress;
    const struct cay_address *to = c->proxied ? &e->host.proxy.at : &c->to;
    bool v4 = IN6_IS_ADDR_V4MAPPED(&to->ip);
    struct sockaddr_in6 a6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(to->port), .sin6_addr = to->ip};
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(to->port)};
    memcpy(&a4.sin_addr, &to->ip.s6_addr[12], sizeof a4.sin_addr);
    c->pair.out = (struct cay_watch){
        .fd = socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
        .ready = dialled};
    int fd = c->pair.out.fd;
    if (fd < 0)
        return false;
    int r = v4 ? connect(fd, (struct sockaddr *)&a4, sizeof a4)
               : connect(fd, (struct sockaddr *)&a6, sizeof a6);
    return (r == 0 || errno == EINPROGRESS) &&
           cay_loop_watch(e->loop, &c->pair.out, CAY_LINK_EVENTS);
}

/* ---- the inner side ---- */

static bool may_open(struct cay_way *w)
{
    const struct cay_egress *e = w->egress;
    return w->connection_count < CAY_NET_CONNECTIONS &&
           w->payer->connections < CAY_NET_ACCOUNT_CONNECTIONS &&
           e->connections < e->connections_max;
}

static char *copy(const char *s)
{
    char *made = s ? strdup(s) : NULL;
    if (s && !made)
        abort();
    return made;
}

static void open_connection(struct cay_way *w, int *fd, const struct cay_address *to,
                            const char *name, struct cay_wish *wish)
{
    struct cay_connection *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->way = w;
    c->to = *to;
    c->pair.in.fd = cay_take_fd(fd);
    c->pair.out.fd = -1;
    c->wish = wish;
    c->wish_serial = wish->serial;
    c->proxied = cay_net_host_proxied(&w->egress->host, to, name);
    c->name = copy(name);
    c->next = w->connections;
    c->link = &w->connections;
    if (c->next)
        c->next->link = &c->next;
    w->connections = c;
    w->connection_count++;
    w->payer->connections++;
    w->egress->connections++;
    cay_metric_add(&cay_net_open, 1);
    cay_metric_add(&cay_net_opened, 1);
    cay_deadline_set(&w->egress->dialling, &c->timer);
    if (!dial(c))
        failed(c);
}

static void take(struct cay_way *w, int *fd)
{
    struct sockaddr_in6 wanted;
    socklen_t len = sizeof wanted;
    const char *name;
    if (getsockname(*fd, (struct sockaddr *)&wanted, &len) < 0 || wanted.sin6_family != AF_INET6)
        return;
    struct cay_address to = {wanted.sin6_addr, ntohs(wanted.sin6_port)};
    if (to.port == CAY_NET_DNS_PORT) {
        if (may_open(w))
            cay_way_session(w, cay_take_fd(fd));
        return;
    }
    enum cay_verdict v = cay_way_judge(w, &to, NULL, NULL, &name);
    if (v == CAY_NET_ALLOWED && !cay_payer_may_open(w->payer))
        v = CAY_NET_OVER_QUOTA;
    struct cay_wish *wish = cay_way_wish(w, name, &to, v);
    if (v == CAY_NET_ALLOWED && may_open(w)) {
        wish->seen.failed = false;
        open_connection(w, fd, &to, name, wish);
        return;
    }
    wish->seen.failed = v == CAY_NET_ALLOWED;
    cay_metric_add(&cay_net_refused, 1);
}

/* Without a descriptor for it a connection would wait for ever, and wake us as long. One is kept to
 * take it with, and to close it. */
static void refuse_one(struct cay_egress *e, int listener)
{
    cay_close_fd(&e->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    cay_socket_reset(&fd);
    e->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cay_metric_add(&cay_net_refused, 1);
    if (!e->failing)
        cay_log_warn("no descriptors are left for connections out of sandboxes");
    e->failing = true;
}

void cay_way_accept(struct cay_watch *tcp, uint32_t events)
{
    struct cay_way *w = (struct cay_way *)((char *)tcp - offsetof(struct cay_way, tcp));
    (void)events;
    for (int i = 0; i < ACCEPTS && w->attached; i++) {
        if (!cay_bucket_take(&w->connect_rate, CAY_NET_RATE, CAY_NET_BURST, cay_clock_mono_ms())) {
            cay_loop_unwatch(w->egress->loop, tcp);
            cay_deadline_set(&w->egress->tcp_resting, &w->tcp_rests);
            return; /* what comes meanwhile waits, and makes who sends it wait */
        }
        int fd = accept4(tcp->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            refuse_one(w->egress, tcp->fd);
        if (fd < 0) {
            cay_bucket_return(&w->connect_rate);
            return;
        }
        take(w, &fd);
        cay_socket_reset(&fd); /* what was not taken is refused */
    }
}

static void too_late(struct cay_deadline *t)
{
    failed(of_timer(t));
}

static void rested(struct cay_deadline *t)
{
    struct cay_way *w = (struct cay_way *)((char *)t - offsetof(struct cay_way, tcp_rests));
    (void)cay_loop_watch(w->egress->loop, &w->tcp, EPOLLIN); /* it could be before */
}

void cay_connect_init(struct cay_egress *e)
{
    cay_deadlines_init(e->loop, &e->tcp_resting, CAY_NET_REST_MS, rested);
    cay_deadlines_init(e->loop, &e->dialling, CAY_NET_DIAL_MS, too_late);
    cay_deadlines_init(e->loop, &e->claiming, CAY_NET_CLAIM_MS, too_late);
}
