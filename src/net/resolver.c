/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolver.h"
#include "base/clock.h"
#include "model/limits.h"
#include "net/resolver_files.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#define BUCKETS 1024
#define ROUNDS 2 /* of all nameservers */

/* One question under way, or, when it has no socket, an answer that is kept. */
struct question {
    struct question *next;          /* in its bucket */
    struct question *newer, *older; /* by age */
    struct cay_resolver *resolver;
    char name[CAY_HOST_SIZE];
    uint16_t type, id;
    struct cay_lookup *waiting;
    struct cay_watch watch; /* fd -1: answered */
    struct cay_deadline timer;
    unsigned tries;
    bool tcp, asked; /* by TCP, once it is connected */
    uint8_t *buf;    /* of a TCP answer: its length, and itself */
    size_t len;
    int64_t until_ms;
    struct cay_dns_found *found;
};

struct cay_resolver {
    struct cay_loop *loop;
    struct cay_resolver_files files;
    struct question *buckets[BUCKETS];
    struct question ages; /* newer: the oldest one */
    size_t count, asking;
    struct cay_deadlines patience;
};

static struct question *of_watch(struct cay_watch *w)
{
    return (struct question *)((char *)w - offsetof(struct question, watch));
}

static unsigned bucket_of(const char *name, uint16_t type)
{
    unsigned h = type;
    for (; *name; name++)
        h = h * 31 + (unsigned char)*name;
    return h % BUCKETS;
}

/* ---- the table ---- */

static void hang_up(struct question *q)
{
    cay_deadline_clear(&q->timer);
    if (q->watch.fd < 0)
        return;
    cay_loop_unwatch(q->resolver->loop, &q->watch);
    cay_close_fd(&q->watch.fd);
    free(q->buf);
    q->buf = NULL;
    q->len = 0;
    q->asked = false;
}

static void remove_question(struct question *q)
{
    struct cay_resolver *r = q->resolver;
    struct question **at = &r->buckets[bucket_of(q->name, q->type)];
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->newer->older = q->older;
    q->older->newer = q->newer;
    r->count--;
    hang_up(q);
    free(q->found);
    free(q);
}

static struct question *find_question(struct cay_resolver *r, const char *name, uint16_t type)
{
    for (struct question *q = r->buckets[bucket_of(name, type)]; q; q = q->next)
        if (q->type == type && strcmp(q->name, name) == 0)
            return q;
    return NULL;
}

static struct question *add_question(struct cay_resolver *r, const char *name, uint16_t type)
{
    struct question *q = calloc(1, sizeof *q);
    if (!q)
        abort();
    memcpy(q->name, name, strlen(name) + 1);
    q->type = type;
    q->resolver = r;
    q->watch.fd = -1;
    unsigned b = bucket_of(name, type);
    q->next = r->buckets[b];
    r->buckets[b] = q;
    q->newer = &r->ages;
    q->older = r->ages.older;
    q->older->newer = q->newer->older = q;
    r->count++;
    return q;
}

/* The oldest answers go first; who is still asking stays. */
static void make_room(struct cay_resolver *r)
{
    struct question *q = r->ages.newer;
    while (r->count >= CAY_NET_ANSWERS && q != &r->ages) {
        struct question *newer = q->newer;
        if (q->found)
            remove_question(q);
        q = newer;
    }
}

/* ---- asking ---- */

static void answer(struct question *q, const struct cay_dns_found *found)
{
    struct cay_resolver *r = q->resolver;
    hang_up(q);
    r->asking--;
    q->found = malloc(sizeof *found);
    if (!q->found)
        abort();
    *q->found = *found;
    q->until_ms = cay_clock_mono_ms() + 1000LL * found->ttl_s;
    while (q->waiting) {
        struct cay_lookup *l = q->waiting;
        cay_lookup_cancel(l);
        l->done(l, found);
    }
}

static void ask_next(struct question *q);

static void fail(struct question *q)
{
    const struct cay_dns_found none = {.code = CAY_DNS_FAILED, .ttl_s = CAY_NET_FAILED_S};
    answer(q, &none);
}

static void take(struct question *q, const void *msg, size_t len)
{
    struct cay_dns_found found;
    if (!cay_dns_reply_read(msg, len, q->id, q->name, q->type, &found))
        return; /* not the answer: it may still come */
    if (found.cut && !q->tcp) {
        q->tcp = true;
        q->tries--; /* the same one again */
        ask_next(q);
    } else if (found.code != CAY_DNS_OK && found.code != CAY_DNS_NO_NAME) {
        ask_next(q);
    } else {
        answer(q, &found);
    }
}

static void read_udp(struct question *q)
{
    uint8_t msg[CAY_DNS_MESSAGE];
    ssize_t n = recv(q->watch.fd, msg, sizeof msg, 0);
    if (n > 0)
        take(q, msg, (size_t)n);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        ask_next(q); /* nobody listens there */
}

static void send_tcp(struct question *q)
{
    uint8_t msg[2 + CAY_DNS_QUESTION + 64];
    size_t len = cay_dns_query_write(q->id, q->name, q->type, msg + 2, sizeof msg - 2);
    msg[0] = (uint8_t)(len >> 8);
    msg[1] = (uint8_t)len;
    q->asked = send(q->watch.fd, msg, len + 2, MSG_NOSIGNAL) == (ssize_t)len + 2;
    if (!q->asked)
        ask_next(q);
}

static void read_tcp(struct question *q)
{
    const size_t cap = 2 + CAY_DNS_MESSAGE;
    if (!q->buf)
        q->buf = malloc(cap);
    if (!q->buf)
        abort();
    ssize_t n = recv(q->watch.fd, q->buf + q->len, cap - q->len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        ask_next(q);
        return;
    }
    q->len += (size_t)n;
    size_t want = q->len < 2 ? cap : 2 + ((size_t)q->buf[0] << 8 | q->buf[1]);
    if (want > cap)
        ask_next(q);
    else if (q->len >= want)
        take(q, q->buf + 2, want - 2);
}

static void ready(struct cay_watch *w, uint32_t events)
{
    struct question *q = of_watch(w);
    if (!q->tcp)
        read_udp(q);
    else if (q->asked)
        read_tcp(q);
    else if (events & EPOLLOUT)
        send_tcp(q);
    else
        ask_next(q);
}

/* A socket of its own for each question: the kernel picks a port that nobody can foresee, and what
 * comes from elsewhere than the nameserver never comes to us. */
static bool begin(struct question *q, const struct sockaddr_storage *server)
{
    int type = (q->tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC;
    socklen_t size =
        server->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    uint8_t msg[CAY_DNS_QUESTION + 64];
    if (getrandom(&q->id, sizeof q->id, 0) < 0)
        abort();
    size_t len = cay_dns_query_write(q->id, q->name, q->type, msg, sizeof msg);
    q->watch = (struct cay_watch){.fd = socket(server->ss_family, type, 0), .ready = ready};
    if (q->watch.fd < 0)
        return false;
    if (connect(q->watch.fd, (const struct sockaddr *)server, size) < 0 && errno != EINPROGRESS)
        return false;
    if (!q->tcp && send(q->watch.fd, msg, len, 0) < 0)
        return false;
    return cay_loop_watch(q->resolver->loop, &q->watch,
                          q->tcp ? EPOLLIN | EPOLLOUT | EPOLLET : EPOLLIN);
}

static void ask_next(struct question *q)
{
    struct cay_resolver *r = q->resolver;
    size_t servers = r->files.server_count;
    while (q->tries < ROUNDS * servers) {
        const struct sockaddr_storage *server = &r->files.servers[q->tries++ % servers];
        hang_up(q);
        if (begin(q, server)) {
            cay_deadline_set(&r->patience, &q->timer);
            return;
        }
    }
    fail(q);
}

static void no_answer(struct cay_deadline *t)
{
    struct question *q = (struct question *)((char *)t - offsetof(struct question, timer));
    q->tcp = false;
    ask_next(q);
}

void cay_lookup_cancel(struct cay_lookup *l)
{
    if (!l->link)
        return;
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
    l->link = NULL;
}

static void wait_for(struct question *q, struct cay_lookup *l)
{
    l->next = q->waiting;
    l->link = &q->waiting;
    if (l->next)
        l->next->link = &l->next;
    q->waiting = l;
}

void cay_resolver_ask(struct cay_resolver *r, const char *name, uint16_t type, struct cay_lookup *l)
{
    int64_t now = cay_clock_mono_ms();
    struct cay_dns_found found;
    l->link = NULL;
    cay_resolver_files_look(&r->files, now);
    if (cay_resolver_files_host(&r->files, name, type, &found)) {
        l->done(l, &found);
        return;
    }
    struct question *q = find_question(r, name, type);
    if (q && q->found && q->until_ms <= now) {
        remove_question(q);
        q = NULL;
    }
    if (q && q->found) {
        found = *q->found;
        found.ttl_s = (uint32_t)((q->until_ms - now) / 1000);
        l->done(l, &found);
        return;
    }
    if (!q && r->asking >= CAY_NET_QUESTIONS) {
        found = (struct cay_dns_found){.code = CAY_DNS_FAILED};
        l->done(l, &found);
        return;
    }
    bool first = !q;
    if (first) {
        make_room(r);
        q = add_question(r, name, type);
        r->asking++;
    }
    wait_for(q, l);
    if (first)
        ask_next(q);
}

struct cay_resolver *cay_resolver_new(struct cay_loop *loop, const char *resolvers,
                                      const char *hosts)
{
    struct cay_resolver *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->loop = loop;
    r->files.servers_file.path = resolvers ? resolvers : "/etc/resolv.conf";
    r->files.hosts_file.path = hosts ? hosts : "/etc/hosts";
    r->ages.newer = r->ages.older = &r->ages;
    cay_deadlines_init(loop, &r->patience, CAY_NET_ANSWER_MS, no_answer);
    return r;
}

void cay_resolver_free(struct cay_resolver *r)
{
    while (r && r->ages.newer != &r->ages)
        remove_question(r->ages.newer);
    if (r) {
        cay_deadlines_done(r->loop, &r->patience);
        free(r->files.hosts);
    }
    free(r);
}
