/* SPDX-License-Identifier: Apache-2.0 */
/* Inside egress.h: what its files share. In the loop's thread only.
 *
 *   egress.c   who is attached
 *   payer.c    accounts: what they used, and may use
 *   connect.c  connections: taken, judged, dialled, carried
 *   edge.c     what they say: the hosts that they claim, requests that are given headers
 *   ask.c      questions for names
 *   wish.c     what was wanted
 *   host.c     what this host is: its addresses, what its operator opened, its proxy */
#pragma once
#include "base/str.h"
#include "net/egress.h"
#include "net/given.h"
#include "net/host.h"
#include "net/name.h"
#include "net/relay.h"
#include "net/resolver.h"

#define CAY_WAY_BUCKETS 1024
#define CAY_NET_DNS_PORT 53

/* So many in a second, and some more at first. */
struct cay_bucket {
    int64_t filled_ms;
    int64_t left; /* thousandths */
};
bool cay_bucket_take(struct cay_bucket *b, int64_t rate, int64_t burst, int64_t now_ms);
void cay_bucket_return(struct cay_bucket *b); /* it was not needed */

struct cay_payer { /* an account that has sandboxes here, or had some today, or a limit */
    struct cay_payer *next;
    char id[CAY_ID_SIZE];
    unsigned ways, connections; /* those that ask for names too */
    unsigned asking;            /* questions that nameservers have not answered yet */
    struct cay_egress_limit limit;
    int64_t day;
    uint64_t bytes; /* of that day, of connections that were counted */
};

struct cay_wish { /* as struct cay_wanted has it */
    struct cay_wanted seen;
    uint64_t serial; /* tells it from an earlier one in the same place */
};

struct cay_way { /* a sandbox's */
    struct cay_way *next;
    struct cay_egress *egress;
    char id[CAY_ID_SIZE];
    struct cay_payer *payer;
    bool attached;
    struct cay_arena arena; /* of the policy */
    struct cay_policy policy;
    struct cay_watch tcp, dns;
    struct cay_deadline tcp_rests, dns_rests; /* too much came: nothing is taken until then */
    struct cay_connection *connections;       /* all that it has open, or wants */
    struct cay_session *sessions;             /* that ask by TCP */
    struct cay_question *questions;           /* asked by UDP, that wait */
    unsigned connection_count, session_count, question_count;
    struct cay_bucket connect_rate, ask_rate;
    struct cay_given given;
    struct cay_wish **wishes; /* of CAY_NET_WANTED, those at the end NULL; or NULL */
    size_t wish_count, wish_next;
    uint64_t wish_serial;
    uint64_t sent_bytes, received_bytes; /* of connections that are over */
};

/* What is looked at next in what a connection sends. */
enum cay_stage {
    CAY_STAGE_FIRST,       /* its first bytes: which protocol */
    CAY_STAGE_HEAD,        /* a request's head */
    CAY_STAGE_FIRST_CHUNK, /* of its body */
    CAY_STAGE_CHUNK,
    CAY_STAGE_TRAILER,
    CAY_STAGE_ANSWER, /* the other side's, to one that would leave HTTP: until then nothing */
    CAY_STAGE_NONE,   /* nothing any more: it passes */
};

struct cay_connection {
    struct cay_connection *next, **link;
    struct cay_way *way;
    struct cay_link pair;
    struct cay_deadline timer;
    struct cay_address to;
    char *name;            /* that the address was given for, which speaks for it; or NULL */
    char *claim;           /* the host that it said last; or NULL */
    struct cay_wish *wish; /* where it is counted, while it has wish_serial */
    uint64_t wish_serial;
    uint64_t counted_sent, counted_received;
    enum cay_stage stage;
    size_t looked;       /* so many bytes have been seen of what does not pass yet */
    bool connects;       /* CONNECT was asked for, and not a WebSocket */
    bool proxied, asked; /* the proxy was told whom we want */
};

struct cay_egress {
    struct cay_loop *loop;
    struct cay_relay relay;
    struct cay_resolver *resolver;
    struct cay_net_host host;
    struct cay_way *ways[CAY_WAY_BUCKETS];
    struct cay_payer *payers;
    unsigned connections, connections_max;
    struct cay_deadlines dialling, claiming, asking, tcp_resting, dns_resting, tallying;
    struct cay_deadline tally; /* set while an account has a limit of bytes */
    int spare_fd;              /* see refuse_one */
    bool failing;              /* that was needed, and told */
};

/* What the policy says of an address and a claim; *name_out is a name that it was given for and
 * that speaks for it, borrowed, or NULL. `known` is one that it was given for earlier, or NULL. */
enum cay_verdict cay_way_judge(struct cay_way *w, const struct cay_address *to, const char *known,
                               const char *claim, const char **name_out);

/* payer.c */
struct cay_payer *cay_payer_join(struct cay_egress *e, const char *id);
void cay_payer_leave(struct cay_egress *e, struct cay_payer *payer);
void cay_payer_count(struct cay_payer *payer, uint64_t bytes);
bool cay_payer_may_open(struct cay_payer *payer); /* one connection more */
void cay_payers_init(struct cay_egress *e);
void cay_payers_done(struct cay_egress *e);

/* connect.c */
void cay_way_accept(struct cay_watch *tcp, uint32_t events);
void cay_way_judge_again(struct cay_way *w); /* its policy is another one */
void cay_way_cut(struct cay_way *w);         /* all connections */
void cay_way_overdrawn(struct cay_way *w);   /* the same; and it is told of */
void cay_way_count(struct cay_way *w, struct cay_traffic *out);
void cay_connection_cut(struct cay_connection *c); /* it is gone */
/* The same; and it is told of, under this name (or NULL), and why. */
void cay_connection_refuse(struct cay_connection *c, const char *name, enum cay_verdict v);
void cay_connect_init(struct cay_egress *e);

/* edge.c */
bool cay_edge_looks(const struct cay_policy *p); /* at what connections say */
bool cay_edge_asks(struct cay_link *p, struct cay_flow *f);
/* Was it carried without a look, although the policy would have had one? */
bool cay_edge_missed(const struct cay_connection *c);

/* ask.c */
void cay_way_asked(struct cay_watch *dns, uint32_t events);
void cay_way_session(struct cay_way *w, int fd); /* takes it */
void cay_way_hush(struct cay_way *w);            /* nobody waits for an answer any more */
void cay_ask_init(struct cay_egress *e);

/* wish.c; name may be NULL */
struct cay_wish *cay_way_wish(struct cay_way *w, const char *name, const struct cay_address *to,
                              enum cay_verdict verdict);
void cay_wishes_done(struct cay_way *w);
