/* SPDX-License-Identifier: Apache-2.0 */
/* What connections say on their way out, where the policy lists names or has headers to add.
 *
 * The first bytes tell the protocol. TLS names a host once, and passes from there on; so does what
 * names none. Of HTTP every head is read, because one connection carries requests for many hosts:
 * each must be for one that is allowed. Bodies pass without a look, as long as their heads said.
 *
 * Headers go to requests of plain HTTP alone, and only when the address was given for the very host
 * that the request names: whoever sits at another one learns nothing. What the sandbox itself says
 * under such a name is dropped.
 *
 * A request may ask to leave HTTP (a WebSocket, CONNECT). Only the first one of a connection can:
 * then the next bytes of the other side are its answer, and nothing more is sent until that says
 * yes. Others are asked without. */
#include "base/clock.h"
#include "model/limits.h"
#include "net/claim.h"
#include "net/metrics.h"
#include "net/ways.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define STATUS_LEN 12 /* "HTTP/1.1 101" */
#define FEW 256       /* bytes that are looked at again whatever comes */

static char bytes[CAY_CLAIM_MAX]; /* one thread */

bool cay_edge_looks(const struct cay_policy *p)
{
    return p->name_count + p->no_name_count + p->header_count > 0;
}

static bool was_given(const struct cay_connection *c, const char *host)
{
    const char *names[CAY_NET_NAMES];
    if (c->name && strcmp(c->name, host) == 0)
        return true;
    if (c->proxied)
        return false; /* the proxy was told that name, and no other */
    size_t count =
        cay_given_names(&c->way->given, &c->to.ip, cay_clock_mono_ms(), names, CAY_NET_NAMES);
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], host) == 0)
            return true;
    return false;
}

static bool is_for(const struct cay_header_rule *rule, const char *host, uint16_t port)
{
    return port >= rule->host.ports.first && port <= rule->host.ports.last &&
           cay_host_matches(rule->host.name, host);
}

bool cay_edge_missed(const struct cay_connection *c)
{
    const struct cay_policy *p = &c->way->policy;
    const struct cay_flow *sent = &c->pair.sent;
    if (!c->pair.relay || c->stage != CAY_STAGE_FIRST || sent->looks)
        return false;
    for (size_t i = 0; i < p->header_count && c->name; i++)
        if (is_for(&p->headers[i], c->name, c->to.port))
            return true;
    for (size_t i = 0; i < p->allow_count; i++)
        if (cay_net_holds(&p->allow[i], &c->to))
            return false;
    return !p->open && p->name_count > 0;
}

/* ---- what may pass ---- */

static bool pass(struct cay_connection *c, uint64_t count)
{
    cay_deadline_clear(&c->timer);
    c->looked = 0;
    c->pair.sent.pass = count;
    return true;
}

static bool pass_all(struct cay_connection *c)
{
    c->stage = CAY_STAGE_NONE;
    c->pair.sent.looks = false;
    return pass(c, 0);
}

/* Who begins to say what he wants must get on with it; a body takes its time. */
static bool wait_for_more(struct cay_connection *c)
{
    if (c->pair.sent.last)
        return pass_all(c); /* half of something that is no request, and no more */
    if (!c->timer.next && (c->stage == CAY_STAGE_FIRST || c->stage == CAY_STAGE_HEAD))
        cay_deadline_set(&c->way->egress->claiming, &c->timer);
    return true;
}

static bool refuse(struct cay_connection *c, enum cay_verdict v)
{
    cay_connection_refuse(c, c->claim ? c->claim : c->name, v);
    return false;
}

/* Then it was allowed; a change of the policy asks again about all that were said. */
static bool said_before(const struct cay_connection *c, const char *host)
{
    return c->claim && strcmp(c->claim, host) == 0;
}

/* May it have this host? */
static bool claims(struct cay_connection *c, const char *host)
{
    const char *ignored;
    if (said_before(c, host))
        return true;
    free(c->claim);
    c->claim = strdup(host);
    if (!c->claim)
        abort();
    enum cay_verdict v = cay_way_judge(c->way, &c->to, c->name, c->claim, &ignored);
    return v == CAY_NET_ALLOWED || refuse(c, v);
}

/* ---- requests ---- */

static bool has(const struct cay_header_rule *const *all, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(all[i]->name, name) == 0)
            return true;
    return false;
}

/* Of those with the same name the first. */
static size_t headers_for(const struct cay_connection *c, const struct cay_request *r,
                          const struct cay_header_rule *out[CAY_MAX_NET_HEADERS])
{
    const struct cay_policy *p = &c->way->policy;
    size_t count = 0;
    if (!r->host[0] || r->connects || r->echoes || !p->header_count || !was_given(c, r->host) ||
        cay_policy_name(p, r->host, c->to.port) != CAY_NET_ALLOWED)
        return 0;
    for (size_t i = 0; i < p->header_count && count < CAY_MAX_NET_HEADERS; i++)
        if (is_for(&p->headers[i], r->host, c->to.port) && !has(out, count, p->headers[i].name))
            out[count++] = &p->headers[i];
    return count;
}

/* The head lies in `bytes`, and still in the socket. */
static bool send_on(struct cay_connection *c, const struct cay_request *r)
{
    const struct cay_header_rule *add[CAY_MAX_NET_HEADERS];
    bool leaves = c->stage == CAY_STAGE_FIRST && (r->connects || r->websocket);
    size_t count = headers_for(c, r, add);
    if (r->connects && !leaves)
        return refuse(c, CAY_NET_UNLISTED);
    c->stage = r->chunked ? CAY_STAGE_FIRST_CHUNK : leaves ? CAY_STAGE_ANSWER : CAY_STAGE_HEAD;
    c->connects = r->connects;
    c->pair.received.looks = leaves;
    if (count == 0 && (leaves || !r->upgrades) && !r->loose)
        return pass(c, r->len + r->length);
    if (recv(c->pair.in.fd, bytes, r->len, 0) != (ssize_t)r->len) {
        cay_connection_cut(c);
        return false;
    }
    cay_request_write(bytes, r, leaves, add, count, &c->pair.sent.ahead);
    if (count > 0 && c->wish && c->wish->serial == c->wish_serial)
        c->wish->seen.injected++;
    cay_metric_add(&cay_net_injected, count > 0);
    return pass(c, r->length);
}

static bool ask_first(struct cay_connection *c, size_t len)
{
    struct cay_claim claim;
    switch (cay_claim_read(bytes, len, c->pair.sent.last, &claim)) {
    case CAY_CLAIM_MORE:
        return wait_for_more(c);
    case CAY_CLAIM_BAD:
        return refuse(c, CAY_NET_UNLISTED);
    case CAY_CLAIM_NAMED:
        if (!claims(c, claim.name))
            return false;
        break;
    case CAY_CLAIM_NONE:
        break;
    }
    return claim.protocol == CAY_CLAIM_HTTP ? send_on(c, &claim.request) : pass_all(c);
}

static bool ask_head(struct cay_connection *c, size_t len)
{
    struct cay_request r;
    switch (cay_request_read(bytes, len, c->pair.sent.last, &r)) {
    case CAY_REQUEST_MORE:
        return len == sizeof bytes ? refuse(c, CAY_NET_UNLISTED) : wait_for_more(c);
    case CAY_REQUEST_NOT:
    case CAY_REQUEST_BAD:
        return refuse(c, CAY_NET_UNLISTED);
    case CAY_REQUEST_WHOLE:
        break;
    }
    return (!r.host[0] || claims(c, r.host)) && send_on(c, &r);
}

/* What stands around a body's bytes; they pass with what is before them. */
static enum cay_request_result read_frame(struct cay_connection *c, const char *at, size_t len,
                                          uint64_t *passes_out)
{
    size_t lines;
    uint64_t size = 0;
    bool trailer = c->stage == CAY_STAGE_TRAILER;
    enum cay_request_result how =
        trailer ? cay_request_trailer(at, len, &lines)
                : cay_request_chunk(at, len, c->stage == CAY_STAGE_FIRST_CHUNK, &lines, &size);
    if (how != CAY_REQUEST_WHOLE)
        return how;
    c->stage = trailer ? CAY_STAGE_HEAD : size > 0 ? CAY_STAGE_CHUNK : CAY_STAGE_TRAILER;
    *passes_out = lines + size;
    return how;
}

static bool ask_frame(struct cay_connection *c, size_t len)
{
    uint64_t passes;
    enum cay_request_result how = read_frame(c, bytes, len, &passes);
    if (how == CAY_REQUEST_MORE && len < sizeof bytes)
        return wait_for_more(c);
    return how == CAY_REQUEST_WHOLE ? pass(c, passes) : refuse(c, CAY_NET_UNLISTED);
}

/* One more request that needs nothing: not even a new judgement. */
static bool read_plain(struct cay_connection *c, const char *at, size_t len, uint64_t *passes_out)
{
    struct cay_request r;
    if (c->way->policy.header_count > 0 ||
        cay_request_read(at, len, false, &r) != CAY_REQUEST_WHOLE || r.connects || r.upgrades ||
        r.loose || (r.host[0] && !said_before(c, r.host)))
        return false;
    c->stage = r.chunked ? CAY_STAGE_FIRST_CHUNK : CAY_STAGE_HEAD;
    *passes_out = r.len + r.length;
    return true;
}

/* What may pass as well of what was seen, so that many small pieces are not asked about one by one.
 * What is not so simple is asked about in its turn. */
static void look_further(struct cay_connection *c, size_t len)
{
    struct cay_flow *sent = &c->pair.sent;
    uint64_t more;
    while (sent->looks && sent->ahead.len == 0 && sent->pass < len) {
        const char *at = bytes + sent->pass;
        size_t left = len - (size_t)sent->pass;
        if (c->stage == CAY_STAGE_HEAD ? !read_plain(c, at, left, &more)
                                       : c->stage == CAY_STAGE_ANSWER ||
                                             read_frame(c, at, left, &more) != CAY_REQUEST_WHOLE)
            return;
        sent->pass += more;
    }
}

/* What the other side says to a request that would leave HTTP. */
static bool ask_answer(struct cay_connection *c)
{
    char status[STATUS_LEN];
    ssize_t n = recv(c->pair.out.fd, status, sizeof status, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n < STATUS_LEN && n > 0 && !c->pair.received.last)
        return true;
    bool yes = n == STATUS_LEN && memcmp(status, "HTTP/1.", 7) == 0 &&
               (c->connects ? status[9] == '2' : memcmp(status + 9, "101", 3) == 0);
    c->stage = CAY_STAGE_HEAD;
    c->pair.received.looks = false;
    if (yes)
        (void)pass_all(c);
    cay_link_again(&c->pair, &c->pair.sent);
    return true;
}

/* Byte by byte, a head would be read as often as it has bytes: behind its first line nothing is new
 * until there is a blank one. */
static bool is_news(struct cay_connection *c, size_t len)
{
    const size_t before = c->looked, from = before > 2 ? before - 2 : 0;
    c->looked = len;
    if (before < FEW || len == sizeof bytes || c->pair.sent.last ||
        (c->stage == CAY_STAGE_FIRST && bytes[0] == CAY_CLAIM_TLS_BYTE))
        return true;
    if (!memchr(bytes, '\n', before))
        return memchr(bytes + before, '\n', len - before);
    return memmem(bytes + from, len - from, "\n\r\n", 3) ||
           memmem(bytes + from, len - from, "\n\n", 2);
}

/* Is there more than was seen, although there was room for it? Nobody sees beyond a byte that is
 * said to be urgent. */
static bool hides_some(int fd, size_t len)
{
    int all = 0;
    return len < sizeof bytes && ioctl(fd, FIONREAD, &all) == 0 && (size_t)all > len;
}

bool cay_edge_asks(struct cay_link *p, struct cay_flow *f)
{
    struct cay_connection *c =
        (struct cay_connection *)((char *)p - offsetof(struct cay_connection, pair));
    if (f == &p->received)
        return ask_answer(c);
    if (c->stage == CAY_STAGE_ANSWER)
        return true;
    ssize_t n = recv(p->in.fd, bytes, sizeof bytes, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n < 0) {
        cay_connection_cut(c);
        return false;
    }
    if (n == 0)
        return pass_all(c); /* its end */
    size_t len = (size_t)n;
    if (p->sent.last && hides_some(p->in.fd, len))
        return refuse(c, CAY_NET_UNLISTED);
    if (!is_news(c, len))
        return wait_for_more(c);
    bool lives = c->stage == CAY_STAGE_FIRST  ? ask_first(c, len)
                 : c->stage == CAY_STAGE_HEAD ? ask_head(c, len)
                                              : ask_frame(c, len);
    if (lives && p->sent.pass > 0)
        look_further(c, len);
    return lives;
}
