/* SPDX-License-Identifier: Apache-2.0 */
/* Questions for names, by UDP and TCP, whomever they are meant for. A name that the policy does not
 * allow is refused without anybody being asked: a question is a message too. Of what the resolver
 * found, addresses that are nobody's business inside are left out; the rest is remembered as given.
 */
#include "base/clock.h"
#include "model/limits.h"
#include "net/metrics.h"
#include "net/ways.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define MESSAGES 16 /* at once, before others' turn */
#define EMPTY_TTL_S 60

/* By UDP. */
struct cay_question {
    struct cay_question *next, **link;
    struct cay_way *way;
    struct cay_lookup lookup;
    struct cay_dns_query query;
    struct sockaddr_in6 from;
    struct in6_addr asked; /* whom it was meant for: the answer comes from there */
};

/* By TCP: one after the other. */
struct cay_session {
    struct cay_session *next, **link;
    struct cay_way *way;
    struct cay_watch watch;
    struct cay_deadline timer;
    struct cay_lookup lookup;
    struct cay_dns_query query;
    struct cay_turn turn;
    bool waits, broken;
    size_t len;
    uint8_t bytes[2 + CAY_DNS_UDP];
};

/* ---- what is answered ---- */

/* Is there a way from here? For addresses of version 6, which many hosts have none for: then those
 * of version 4 are to be used. Nothing is sent. */
static bool has_route(const struct in6_addr *ip)
{
    struct sockaddr_in6 to = {
        .sin6_family = AF_INET6, .sin6_port = htons(CAY_NET_DNS_PORT), .sin6_addr = *ip};
    CAY_AUTO_FD int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
}

static size_t shape(struct cay_way *w, const struct cay_dns_query *q,
                    const struct cay_dns_found *found, void *out, size_t cap)
{
    struct in6_addr good[CAY_DNS_ADDRESSES];
    struct cay_dns_reply reply = {.code = found->code, .ttl_s = found->ttl_s, .addresses = good};
    int64_t now = cay_clock_mono_ms(), keep_ms = 1000LL * found->ttl_s;
    if (keep_ms < CAY_NET_GIVEN_MS)
        keep_ms = CAY_NET_GIVEN_MS;
    cay_net_host_look(&w->egress->host, now);
    for (size_t i = 0; i < found->address_count; i++) {
        const struct in6_addr *ip = &found->addresses[i];
        if (cay_net_host_guards(&w->egress->host, ip)) {
            struct cay_address to = {.ip = *ip};
            (void)cay_way_wish(w, q->name, &to, CAY_NET_GUARDED);
        } else if (IN6_IS_ADDR_V4MAPPED(ip) || has_route(ip)) {
            good[reply.address_count++] = *ip;
            cay_given_add(&w->given, ip, q->name, now + keep_ms);
        }
    }
    return cay_dns_reply_write(q, &reply, out, cap);
}

static bool may_ask(struct cay_way *w)
{
    return cay_bucket_take(&w->ask_rate, CAY_NET_DNS_RATE, CAY_NET_DNS_BURST, cay_clock_mono_ms());
}

/* Nameservers are asked so many questions at once: no account may have all of them. */
static bool may_wait(const struct cay_way *w)
{
    return w->question_count < CAY_NET_DNS_WAITING && w->payer->asking < CAY_NET_DNS_ACCOUNT;
}

/* The code to answer with, -1: nothing is answered, -2: somebody has to be asked. */
static int judge(struct cay_way *w, const void *msg, size_t len, struct cay_dns_query *q)
{
    int code = cay_dns_query_read(msg, len, q);
    if (code != CAY_DNS_OK)
        return code;
    cay_metric_add(&cay_net_asked, 1);
    enum cay_verdict v = cay_policy_name(&w->policy, q->name, 0);
    if (v != CAY_NET_ALLOWED) {
        (void)cay_way_wish(w, q->name, &(struct cay_address){0}, v);
        cay_metric_add(&cay_net_not_answered, 1);
        return CAY_DNS_REFUSED;
    }
    if (q->type != CAY_DNS_A && q->type != CAY_DNS_AAAA)
        return CAY_DNS_OK;
    return may_wait(w) ? -2 : CAY_DNS_FAILED;
}

static struct cay_dns_found nothing(int code)
{
    return (struct cay_dns_found){.code = (enum cay_dns_code)code, .ttl_s = EMPTY_TTL_S};
}

/* ---- by UDP ---- */

static void reply(struct cay_question *q, const struct cay_dns_found *found)
{
    uint8_t msg[CAY_DNS_MESSAGE];
    size_t cap = q->query.udp_bytes < sizeof msg ? q->query.udp_bytes : sizeof msg;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
    struct iovec iov = {msg, shape(q->way, &q->query, found, msg, cap)};
    struct msghdr m = {.msg_name = &q->from,
                       .msg_namelen = sizeof q->from,
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    struct in6_pktinfo from = {.ipi6_addr = q->asked};
    c->cmsg_level = IPPROTO_IPV6;
    c->cmsg_type = IPV6_PKTINFO;
    c->cmsg_len = CMSG_LEN(sizeof from);
    memcpy(CMSG_DATA(c), &from, sizeof from);
    if (iov.iov_len)
        (void)sendmsg(q->way->dns.fd, &m, MSG_NOSIGNAL); /* lost ones are asked again */
}

static void drop_question(struct cay_question *q)
{
    cay_lookup_cancel(&q->lookup);
    *q->link = q->next;
    if (q->next)
        q->next->link = q->link;
    q->way->question_count--;
    q->way->payer->asking--;
    free(q);
}

static void found_for_question(struct cay_lookup *l, const struct cay_dns_found *found)
{
    struct cay_question *q =
        (struct cay_question *)((char *)l - offsetof(struct cay_question, lookup));
    reply(q, found);
    drop_question(q);
}

static void ask_for(const struct cay_question *asked)
{
    struct cay_way *w = asked->way;
    struct cay_question *q = malloc(sizeof *q);
    if (!q)
        abort();
    *q = *asked;
    q->lookup.done = found_for_question;
    q->next = w->questions;
    q->link = &w->questions;
    if (q->next)
        q->next->link = &q->next;
    w->questions = q;
    w->question_count++;
    w->payer->asking++;
    cay_resolver_ask(w->egress->resolver, q->query.name, q->query.type, &q->lookup);
}

/* Length of the message, and whom it was meant for; 0: it is none; -1: nothing came. */
static ssize_t receive(int fd, void *msg, size_t size, struct cay_question *q)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct iovec iov = {msg, size};
    struct msghdr m = {.msg_name = &q->from,
                       .msg_namelen = sizeof q->from,
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &m, 0);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (n < 0)
        return -1;
    if (!c || c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != IPV6_PKTINFO)
        return 0;
    memcpy(&q->asked, CMSG_DATA(c) + offsetof(struct in6_pktinfo, ipi6_addr), sizeof q->asked);
    return n;
}

void cay_way_asked(struct cay_watch *dns, uint32_t events)
{
    struct cay_way *w = (struct cay_way *)((char *)dns - offsetof(struct cay_way, dns));
    uint8_t msg[CAY_DNS_UDP];
    ssize_t len;
    (void)events;
    for (int i = 0; i < MESSAGES; i++) {
        struct cay_question q = {.way = w};
        if (!may_ask(w)) {
            cay_loop_unwatch(w->egress->loop, dns);
            cay_deadline_set(&w->egress->dns_resting, &w->dns_rests);
            return; /* what comes meanwhile waits, and then is lost */
        }
        if ((len = receive(dns->fd, msg, sizeof msg, &q)) < 0) {
            cay_bucket_return(&w->ask_rate);
            return;
        }
        int code = judge(w, msg, (size_t)len, &q.query); /* an empty one costs its turn too */
        if (code == -2) {
            ask_for(&q);
        } else if (code >= 0) {
            struct cay_dns_found none = nothing(code);
            reply(&q, &none);
        }
    }
}

/* ---- by TCP ---- */

static void end_session(struct cay_session *s)
{
    cay_lookup_cancel(&s->lookup);
    cay_deadline_clear(&s->timer);
    cay_turn_clear(&s->turn);
    cay_loop_unwatch(s->way->egress->loop, &s->watch);
    cay_close_fd(&s->watch.fd);
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    s->way->session_count--;
    s->way->payer->connections--;
    s->way->egress->connections--;
    s->way->payer->asking -= s->waits;
    free(s);
}

static bool tell(struct cay_session *s, const struct cay_dns_found *found)
{
    uint8_t msg[2 + CAY_DNS_MESSAGE];
    size_t len = shape(s->way, &s->query, found, msg + 2, sizeof msg - 2);
    msg[0] = (uint8_t)(len >> 8);
    msg[1] = (uint8_t)len;
    return len && send(s->watch.fd, msg, len + 2, MSG_NOSIGNAL) == (ssize_t)len + 2;
}

/* It may be called while the question is being asked: what follows comes in its own turn. */
static void found_for_session(struct cay_lookup *l, const struct cay_dns_found *found)
{
    struct cay_session *s =
        (struct cay_session *)((char *)l - offsetof(struct cay_session, lookup));
    s->way->payer->asking -= s->waits;
    s->waits = false;
    s->broken = !tell(s, found);
    cay_loop_again(s->way->egress->loop, &s->turn);
}

static void work_off(struct cay_session *s, size_t len)
{
    int code = judge(s->way, s->bytes + 2, len, &s->query);
    if (!may_ask(s->way))
        code = -1;
    s->len -= len + 2;
    memmove(s->bytes, s->bytes + 2 + len, s->len);
    if (code == -2) {
        s->waits = true;
        s->way->payer->asking++;
        cay_resolver_ask(s->way->egress->resolver, s->query.name, s->query.type, &s->lookup);
    } else {
        struct cay_dns_found none = nothing(code);
        s->broken = code == -1 || !tell(s, &none);
    }
}

/* False: there is nothing to read now. */
static bool read_some(struct cay_session *s)
{
    ssize_t n = recv(s->watch.fd, s->bytes + s->len, sizeof s->bytes - s->len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    s->broken = n <= 0;
    s->len += n > 0 ? (size_t)n : 0;
    return true;
}

static void go_on(struct cay_session *s)
{
    while (!s->waits && !s->broken) {
        size_t want = s->len < 2 ? SIZE_MAX : ((size_t)s->bytes[0] << 8 | s->bytes[1]);
        if (s->len >= 2 && s->len - 2 >= want)
            work_off(s, want);
        else if (s->len == sizeof s->bytes)
            s->broken = true; /* no question is so long */
        else if (!read_some(s))
            break;
    }
    if (s->broken)
        end_session(s);
}

static void session_ready(struct cay_watch *w, uint32_t events)
{
    (void)events;
    go_on((struct cay_session *)((char *)w - offsetof(struct cay_session, watch)));
}

static void session_turn(struct cay_turn *t)
{
    go_on((struct cay_session *)((char *)t - offsetof(struct cay_session, turn)));
}

static void session_late(struct cay_deadline *t)
{
    end_session((struct cay_session *)((char *)t - offsetof(struct cay_session, timer)));
}

void cay_way_session(struct cay_way *w, int fd)
{
    if (w->session_count >= CAY_NET_DNS_SESSIONS) {
        cay_socket_reset(&fd);
        return;
    }
    struct cay_session *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->way = w;
    s->watch = (struct cay_watch){fd, session_ready};
    s->turn.run = session_turn;
    s->lookup.done = found_for_session;
    s->next = w->sessions;
    s->link = &w->sessions;
    if (s->next)
        s->next->link = &s->next;
    w->sessions = s;
    w->session_count++;
    w->payer->connections++;
    w->egress->connections++;
    cay_deadline_set(&w->egress->asking, &s->timer);
    if (!cay_loop_watch(w->egress->loop, &s->watch, EPOLLIN | EPOLLRDHUP | EPOLLET))
        end_session(s);
}

void cay_way_hush(struct cay_way *w)
{
    while (w->questions)
        drop_question(w->questions);
    while (w->sessions)
        end_session(w->sessions);
}

static void rested(struct cay_deadline *t)
{
    struct cay_way *w = (struct cay_way *)((char *)t - offsetof(struct cay_way, dns_rests));
    (void)cay_loop_watch(w->egress->loop, &w->dns, EPOLLIN); /* it could be before */
}

void cay_ask_init(struct cay_egress *e)
{
    cay_deadlines_init(e->loop, &e->dns_resting, CAY_NET_REST_MS, rested);
    cay_deadlines_init(e->loop, &e->asking, CAY_NET_DNS_SESSION_MS, session_late);
}
