/* SPDX-License-Identifier: Apache-2.0 */
#include "net/egress.h"
#include "base/clock.h"
#include "base/log.h"
#include "model/limits.h"
#include "net/ways.h"
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

bool cay_bucket_take(struct cay_bucket *b, int64_t rate, int64_t burst, int64_t now_ms)
{
    int64_t left = b->filled_ms ? b->left + (now_ms - b->filled_ms) * rate : burst * 1000;
    b->left = left < burst * 1000 ? left : burst * 1000;
    b->filled_ms = now_ms;
    if (b->left < 1000)
        return false;
    b->left -= 1000;
    return true;
}

void cay_bucket_return(struct cay_bucket *b)
{
    b->left += 1000;
}

/* ---- who is attached ---- */

static struct cay_way **place_of(struct cay_egress *e, const char *id)
{
    unsigned h = 0;
    for (const char *s = id; *s; s++)
        h = h * 31 + (unsigned char)*s;
    struct cay_way **at = &e->ways[h % CAY_WAY_BUCKETS];
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

static void close_way(struct cay_way *w)
{
    if (!w->attached)
        return;
    w->attached = false;
    cay_way_cut(w);
    cay_way_hush(w);
    cay_deadline_clear(&w->tcp_rests);
    cay_deadline_clear(&w->dns_rests);
    cay_loop_unwatch(w->egress->loop, &w->tcp);
    cay_loop_unwatch(w->egress->loop, &w->dns);
    cay_close_fd(&w->tcp.fd);
    cay_close_fd(&w->dns.fd);
    cay_given_done(&w->given);
    cay_arena_done(&w->arena);
    w->policy = (struct cay_policy){0};
}

static void free_way(struct cay_way **at)
{
    struct cay_way *w = *at;
    close_way(w);
    cay_wishes_done(w);
    cay_payer_leave(w->egress, w->payer);
    *at = w->next;
    free(w);
}

/* ---- what is asked of the loop ---- */

struct order {
    struct cay_egress *egress;
    const struct cay_egress_options *options;
    const char *id;
    char own_id[CAY_ID_SIZE], account[CAY_ID_SIZE]; /* of one that nobody waits for */
    struct cay_way_out way;
    struct cay_arena arena;
    struct cay_policy policy;
    const char *const *ids;
    bool *attached;
    size_t count;
    bool found;
    struct cay_traffic *traffic;
    struct cay_wanted *wanted;
};

static void *copy(struct cay_arena *a, const void *from, size_t count, size_t size)
{
    if (count == 0)
        return NULL; /* most have no rules, and an arena is no small thing */
    void *made = cay_arena_alloc(a, count * size);
    memcpy(made, from, count * size);
    return made;
}

static void copy_names(struct cay_arena *a, struct cay_name_rule **rules, size_t count)
{
    *rules = copy(a, *rules, count, sizeof **rules);
    for (size_t i = 0; i < count; i++)
        (*rules)[i].name = cay_arena_strdup(a, (*rules)[i].name);
}

static void copy_headers(struct cay_arena *a, struct cay_policy *p)
{
    p->headers = copy(a, p->headers, p->header_count, sizeof *p->headers);
    for (size_t i = 0; i < p->header_count; i++) {
        struct cay_header_rule *h = &p->headers[i];
        h->host.name = cay_arena_strdup(a, h->host.name);
        h->name = cay_arena_strdup(a, h->name);
        h->value = cay_arena_strdup(a, h->value);
    }
}

static void copy_policy(struct order *o, const struct cay_policy *p)
{
    struct cay_policy *made = &o->policy;
    *made = *p;
    copy_names(&o->arena, &made->names, p->name_count);
    copy_names(&o->arena, &made->no_names, p->no_name_count);
    made->allow = copy(&o->arena, p->allow, p->allow_count, sizeof *p->allow);
    made->deny = copy(&o->arena, p->deny, p->deny_count, sizeof *p->deny);
    copy_headers(&o->arena, made);
}

static void use_policy(struct cay_way *w, struct order *o)
{
    cay_arena_done(&w->arena);
    w->arena = o->arena;
    w->policy = o->policy;
    o->arena = (struct cay_arena){0};
}

/* Every connection that it takes has this from it: what comes in small pieces goes on so. */
static void set_listener(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* slower without */
}

static void do_attach(void *arg)
{
    struct order *o = arg;
    struct cay_egress *e = o->egress;
    struct cay_way **at = place_of(e, o->own_id);
    if (*at)
        free_way(at); /* an earlier run of it: what it wanted is over as well */
    at = place_of(e, o->own_id);
    struct cay_way *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->egress = e;
    cay_str_copy(w->id, sizeof w->id, o->own_id);
    w->payer = cay_payer_join(e, o->account);
    w->attached = true;
    w->tcp = (struct cay_watch){o->way.tcp_fd, cay_way_accept};
    w->dns = (struct cay_watch){o->way.dns_fd, cay_way_asked};
    use_policy(w, o);
    set_listener(w->tcp.fd);
    *at = w;
    if (w->payer->limit.day_bytes != UINT64_MAX && !e->tally.next)
        cay_deadline_set(&e->tallying, &e->tally);
    if (!cay_loop_watch(e->loop, &w->tcp, EPOLLIN) || !cay_loop_watch(e->loop, &w->dns, EPOLLIN)) {
        cay_log_warn("sandbox %s has no way out: its sockets cannot be watched", w->id);
        close_way(w);
    }
    free(o);
}

static void do_change(void *arg)
{
    struct order *o = arg;
    struct cay_way *w = *place_of(o->egress, o->id);
    o->found = w && w->attached;
    if (o->found) {
        use_policy(w, o);
        cay_way_judge_again(w);
    }
}

static void do_detach(void *arg)
{
    struct order *o = arg;
    struct cay_way *w = *place_of(o->egress, o->own_id);
    if (w)
        close_way(w);
    free(o);
}

static void do_forget(void *arg)
{
    struct order *o = arg;
    struct cay_way **at = place_of(o->egress, o->own_id);
    if (*at)
        free_way(at);
    free(o);
}

static void do_which(void *arg)
{
    struct order *o = arg;
    for (size_t i = 0; i < o->count; i++) {
        struct cay_way *w = *place_of(o->egress, o->ids[i]);
        o->attached[i] = w && w->attached;
    }
}

static void do_traffic(void *arg)
{
    struct order *o = arg;
    struct cay_way *w = *place_of(o->egress, o->id);
    if (w)
        cay_way_count(w, o->traffic);
}

static void do_wanted(void *arg)
{
    struct order *o = arg;
    struct cay_traffic ignored;
    struct cay_way *w = *place_of(o->egress, o->id);
    size_t max = o->count;
    o->count = 0;
    if (!w)
        return;
    cay_way_count(w, &ignored);
    for (size_t i = 0; i < w->wish_count && o->count < max; i++) {
        size_t at = (w->wish_next + i) % w->wish_count; /* the oldest first */
        o->wanted[o->count++] = w->wishes[at]->seen;
    }
}

static void do_close(void *arg)
{
    struct cay_egress *e = arg;
    for (size_t i = 0; i < CAY_WAY_BUCKETS; i++)
        while (e->ways[i])
            free_way(&e->ways[i]);
    cay_payers_done(e);
    cay_resolver_free(e->resolver);
    cay_relay_done(&e->relay);
}

static unsigned files_max(void)
{
    struct rlimit files = {.rlim_cur = 0};
    (void)getrlimit(RLIMIT_NOFILE, &files); /* else there are none */
    return files.rlim_cur < UINT_MAX ? (unsigned)files.rlim_cur : UINT_MAX;
}

static void do_open(void *arg)
{
    struct order *o = arg;
    struct cay_egress *e = o->egress;
    e->resolver = cay_resolver_new(e->loop, o->options->resolvers, o->options->hosts);
    cay_relay_init(&e->relay, e->loop, files_max() / CAY_NET_PIPES_PART, CAY_NET_IDLE_MS);
    cay_payers_init(e);
    cay_connect_init(e);
    cay_ask_init(e);
}

/* ---- from any thread ---- */

/* Each takes two descriptors, and the rest of the server needs some as well. */
static unsigned most_connections(void)
{
    unsigned third = files_max() / 3;
    return third < CAY_NET_ALL_CONNECTIONS ? third : CAY_NET_ALL_CONNECTIONS;
}

int cay_egress_open(const struct cay_egress_options *o, struct cay_egress **out,
                    struct cay_error *err)
{
    struct cay_egress *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    int r = cay_net_host_open(&e->host, o, err);
    if (r == 0)
        r = cay_loop_open("egress", &e->loop, err);
    if (r < 0) {
        cay_net_host_done(&e->host);
        free(e);
        return r;
    }
    e->connections_max = most_connections();
    e->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cay_loop_ask(e->loop, do_open, &(struct order){.egress = e, .options = o});
    *out = e;
    return 0;
}

void cay_egress_close(struct cay_egress *e)
{
    if (!e)
        return;
    cay_loop_ask(e->loop, do_close, e);
    cay_loop_close(e->loop);
    cay_net_host_done(&e->host);
    cay_close_fd(&e->spare_fd);
    free(e);
}

void cay_egress_attach(struct cay_egress *e, const char *id, const char *account_id,
                       const struct cay_policy *policy, const struct cay_way_out *way)
{
    struct order *o = calloc(1, sizeof *o);
    if (!o)
        abort();
    o->egress = e;
    o->way = *way;
    cay_str_copy(o->own_id, sizeof o->own_id, id);
    cay_str_copy(o->account, sizeof o->account, account_id);
    copy_policy(o, policy);
    cay_loop_post(e->loop, do_attach, o);
}

void cay_egress_which(struct cay_egress *e, const char *const *ids, bool *attached, size_t count)
{
    struct order o = {.egress = e, .ids = ids, .attached = attached, .count = count};
    cay_loop_ask(e->loop, do_which, &o);
}

bool cay_egress_change(struct cay_egress *e, const char *id, const struct cay_policy *policy)
{
    struct order o = {.egress = e, .id = id};
    copy_policy(&o, policy);
    cay_loop_ask(e->loop, do_change, &o);
    cay_arena_done(&o.arena);
    return o.found;
}

static void post(struct cay_egress *e, const char *id, void (*run)(void *arg))
{
    struct order *o = calloc(1, sizeof *o);
    if (!o)
        abort();
    o->egress = e;
    cay_str_copy(o->own_id, sizeof o->own_id, id);
    cay_loop_post(e->loop, run, o);
}

void cay_egress_detach(struct cay_egress *e, const char *id)
{
    post(e, id, do_detach);
}

void cay_egress_forget(struct cay_egress *e, const char *id)
{
    post(e, id, do_forget);
}

void cay_egress_traffic(struct cay_egress *e, const char *id, struct cay_traffic *out)
{
    struct order o = {.egress = e, .id = id, .traffic = out};
    *out = (struct cay_traffic){0};
    cay_loop_ask(e->loop, do_traffic, &o);
}

size_t cay_egress_wanted(struct cay_egress *e, const char *id, struct cay_wanted *out, size_t max)
{
    struct order o = {.egress = e, .id = id, .wanted = out, .count = max};
    cay_loop_ask(e->loop, do_wanted, &o);
    return o.count;
}
