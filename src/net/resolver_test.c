/* SPDX-License-Identifier: Apache-2.0 */
/* The resolver against a nameserver of the test's own, on loopback. */
#include "net/policy.h"
#include "net/resolver.h"
#include "net/resolver_files.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/socket.h>

enum manner { GOOD, WRONG_ID, CUT, SILENT, NO_NAME };

struct server {
    int udp, tcp;
    uint16_t port;
    enum manner manner;
    pthread_t thread;
    int stop[2];
    unsigned asked, asked_tcp;
};

static size_t answer(struct server *s, const uint8_t *msg, size_t len, bool tcp, uint8_t *out)
{
    struct cay_dns_query q;
    struct in6_addr ip = cay_address_of4(0xcb007107); /* 203.0.113.7 */
    struct cay_dns_reply reply = {.ttl_s = 60, .addresses = &ip, .address_count = 1};
    if (cay_dns_query_read(msg, len, &q) != CAY_DNS_OK)
        return 0;
    if (s->manner == NO_NAME)
        reply.code = CAY_DNS_NO_NAME, reply.address_count = 0;
    size_t n = cay_dns_reply_write(&q, &reply, out, 512);
    if (s->manner == CUT && !tcp)
        out[2] |= 2; /* TC */
    if (s->manner == WRONG_ID)
        out[0] ^= 1;
    return n;
}

static void serve_udp(struct server *s)
{
    uint8_t msg[600], out[600];
    struct sockaddr_in from;
    socklen_t from_len = sizeof from;
    ssize_t n = recvfrom(s->udp, msg, sizeof msg, 0, (struct sockaddr *)&from, &from_len);
    s->asked++;
    if (n <= 0 || s->manner == SILENT)
        return;
    size_t len = answer(s, msg, (size_t)n, false, out);
    sendto(s->udp, out, len, 0, (struct sockaddr *)&from, from_len);
    if (s->manner == WRONG_ID) { /* and then the right one */
        out[0] ^= 1;
        sendto(s->udp, out, len, 0, (struct sockaddr *)&from, from_len);
    }
}

static void serve_tcp(struct server *s)
{
    uint8_t msg[600], out[600];
    CAY_AUTO_FD int fd = accept(s->tcp, NULL, NULL);
    ssize_t n = recv(fd, msg, sizeof msg, 0);
    s->asked_tcp++;
    if (n <= 2)
        return;
    size_t len = answer(s, msg + 2, (size_t)n - 2, true, out + 2);
    out[0] = (uint8_t)(len >> 8);
    out[1] = (uint8_t)len;
    (void)send(fd, out, 1, 0); /* in pieces */
    (void)send(fd, out + 1, len + 1, 0);
}

static void *serve(void *arg)
{
    struct server *s = arg;
    struct pollfd fds[] = {{.fd = s->stop[0], .events = POLLIN},
                           {.fd = s->udp, .events = POLLIN},
                           {.fd = s->tcp, .events = POLLIN}};
    while (poll(fds, 3, -1) > 0 && !fds[0].revents) {
        if (fds[1].revents)
            serve_udp(s);
        if (fds[2].revents)
            serve_tcp(s);
    }
    return NULL;
}

/* Both at one port: another one may have it already for TCP. */
static bool bind_both(struct server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    s->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    s->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(s->udp, (struct sockaddr *)&at, len) == 0 &&
        getsockname(s->udp, (struct sockaddr *)&at, &len) == 0 &&
        bind(s->tcp, (struct sockaddr *)&at, len) == 0 && listen(s->tcp, 4) == 0) {
        s->port = ntohs(at.sin_port);
        return true;
    }
    close(s->udp);
    close(s->tcp);
    return false;
}

static void start(struct server *s, enum manner manner)
{
    *s = (struct server){.manner = manner};
    int tries = 0;
    while (!bind_both(s))
        if (++tries == 100)
            abort();
    if (pipe(s->stop) < 0 || pthread_create(&s->thread, NULL, serve, s) != 0)
        abort();
}

static void stop(struct server *s)
{
    (void)!write(s->stop[1], "", 1);
    pthread_join(s->thread, NULL);
    close(s->udp);
    close(s->tcp);
    close(s->stop[0]);
    close(s->stop[1]);
}

struct asking {
    struct cay_loop *loop;
    struct cay_resolver *resolver;
    const char *resolvers, *hosts;
    struct cay_lookup lookup;
    struct cay_dns_found found;
    const char *name;
    sem_t done;
};

static void got(struct cay_lookup *l, const struct cay_dns_found *found)
{
    struct asking *a = (struct asking *)((char *)l - offsetof(struct asking, lookup));
    a->found = *found;
    sem_post(&a->done);
}

static void make(void *arg)
{
    struct asking *a = arg;
    a->resolver = cay_resolver_new(a->loop, a->resolvers, a->hosts);
}

static void drop(void *arg)
{
    cay_resolver_free(((struct asking *)arg)->resolver);
}

static void ask(void *arg)
{
    struct asking *a = arg;
    a->lookup.done = got;
    cay_resolver_ask(a->resolver, a->name, CAY_DNS_A, &a->lookup);
}

static void ask_and_wait(struct asking *a, const char *name)
{
    a->name = name;
    cay_loop_ask(a->loop, ask, a);
    sem_wait(&a->done);
}

static void write_file(char *path, size_t size, const char *name, const char *text)
{
    snprintf(path, size, "%s/%s", test_dir(), name);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void with(enum manner manner, void (*check)(struct asking *a, struct server *s))
{
    struct server s;
    struct asking a = {0};
    struct cay_error err;
    char resolvers[256], hosts[256], line[64];
    start(&s, manner);
    snprintf(line, sizeof line, "search x.example\nnameserver 127.0.0.1:%u\n", s.port);
    write_file(resolvers, sizeof resolvers, "resolv", line);
    write_file(hosts, sizeof hosts, "hosts",
               "203.0.113.9 fixed.example other # third.example\n# 203.0.113.10 no.example\n");
    a.resolvers = resolvers;
    a.hosts = hosts;
    sem_init(&a.done, 0, 0);
    CHECK_EQ("loop", cay_loop_open("test", &a.loop, &err), 0);
    cay_loop_ask(a.loop, make, &a);
    check(&a, &s);
    cay_loop_ask(a.loop, drop, &a);
    cay_loop_close(a.loop);
    stop(&s);
    sem_destroy(&a.done);
}

static void check_good(struct asking *a, struct server *s)
{
    struct in6_addr want = cay_address_of4(0xcb007107);
    for (int i = 0; i < 2; i++) {
        ask_and_wait(a, "a.example");
        CHECK_EQ("found", a->found.code, CAY_DNS_OK);
        CHECK_EQ("one", a->found.address_count, 1);
        CHECK("that one", memcmp(&a->found.addresses[0], &want, sizeof want) == 0);
    }
    CHECK_EQ("the second time it is known", s->asked, 1);
}

static void check_hosts(struct asking *a, struct server *s)
{
    struct in6_addr want = cay_address_of4(0xcb007109);
    ask_and_wait(a, "other");
    CHECK("of the file", memcmp(&a->found.addresses[0], &want, sizeof want) == 0);
    CHECK_EQ("nobody was asked", s->asked, 0);
}

static void check_cut(struct asking *a, struct server *s)
{
    ask_and_wait(a, "long.example");
    CHECK_EQ("found", a->found.address_count, 1);
    CHECK_EQ("by TCP", s->asked_tcp, 1);
}

static void check_no_name(struct asking *a, struct server *s)
{
    ask_and_wait(a, "none.example");
    CHECK_EQ("no such name", a->found.code, CAY_DNS_NO_NAME);
    CHECK_EQ("asked once", s->asked, 1);
}

static void cancel(void *arg)
{
    cay_lookup_cancel(&((struct asking *)arg)->lookup);
}

static void check_cancel(struct asking *a, struct server *s)
{
    (void)s;
    a->name = "silent.example";
    cay_loop_ask(a->loop, ask, a);
    cay_loop_ask(a->loop, cancel, a);
    CHECK("nobody waits", a->lookup.link == NULL);
}

TEST(resolver_asks_and_remembers)
{
    with(GOOD, check_good);
}

TEST(resolver_reads_the_hosts_file)
{
    with(GOOD, check_hosts);
}

TEST(resolver_takes_no_answer_but_its_own)
{
    with(WRONG_ID, check_good);
}

TEST(resolver_asks_by_tcp_what_is_cut)
{
    with(CUT, check_cut);
}

TEST(resolver_believes_that_there_is_none)
{
    with(NO_NAME, check_no_name);
}

TEST(resolver_forgets_who_does_not_wait)
{
    with(SILENT, check_cancel);
}
