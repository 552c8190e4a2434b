/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of sandboxes: which may be reached, by whom, and how a connection gets in.
 *
 * They are a part of the sandbox's spec, so they are on its row, live as long as it does, and a
 * fork has those of its source. */
#include "core/ports.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "core/core.h"
#include "core/state.h"
#include "core/validate.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

void cay_core_date_ports(struct cay_spec *spec)
{
    for (size_t i = 0; i < spec->port_count; i++)
        if (spec->ports[i].created_at_ms == 0)
            spec->ports[i].created_at_ms = cay_clock_ms();
}

static int not_exposed(unsigned port, struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_NOT_FOUND, "PORT_NOT_EXPOSED", "port %u is not exposed", port);
}

/* Puts it among the others, or in the place of the one with its number. */
static int put(struct cay_spec *spec, const struct cay_port *port, bool *new_out,
               struct cay_error *err)
{
    for (size_t i = 0; i < spec->port_count; i++)
        if (spec->ports[i].port == port->port) {
            int64_t since_ms = spec->ports[i].created_at_ms;
            spec->ports[i] = *port;
            spec->ports[i].created_at_ms = since_ms;
            *new_out = false;
            return 0;
        }
    if (spec->port_count == CAY_MAX_PORTS)
        return cay_fail_field(err, "port", "a sandbox has at most %d exposed ports", CAY_MAX_PORTS);
    spec->ports[spec->port_count++] = *port;
    cay_core_date_ports(spec);
    *new_out = true;
    return 0;
}

static int find_to_change(struct cay_core *core, const struct cay_account *owner, const char *id,
                          struct cay_arena *a, struct cay_hold *hold, struct cay_sandbox *out,
                          struct cay_error *err)
{
    int r = cay_core_find_held(core, owner, id, a, hold, out, err);
    return r < 0 ? r : cay_state_apply(&out->state, CAY_CHANGE, err);
}

static int write_row(struct cay_core *core, struct cay_sandbox *sb, struct cay_sandbox *out,
                     struct cay_error *err)
{
    sb->updated_at_ms = cay_clock_ms();
    int r = cay_store_update(core->store, sb, CAY_NOW, err);
    if (r == 0)
        *out = *sb;
    return r;
}

int cay_core_expose(struct cay_core *core, const struct cay_account *owner, const char *id,
                    const struct cay_port *port, struct cay_arena *a, struct cay_sandbox *out,
                    bool *new_out, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    int r = cay_validate_port(port, err);
    if (r == 0)
        r = find_to_change(core, owner, id, a, &hold, &sb, err);
    if (r == 0)
        r = put(&sb.spec, port, new_out, err);
    return r < 0 ? r : write_row(core, &sb, out, err);
}

int cay_core_unexpose(struct cay_core *core, const struct cay_account *owner, const char *id,
                      unsigned port, struct cay_arena *a, struct cay_sandbox *out,
                      struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    int r = find_to_change(core, owner, id, a, &hold, &sb, err);
    if (r < 0)
        return r;
    struct cay_spec *spec = &sb.spec;
    const struct cay_port *there = cay_spec_port(spec, port);
    if (!there)
        return not_exposed(port, err);
    size_t at = (size_t)(there - spec->ports);
    memmove(&spec->ports[at], &spec->ports[at + 1],
            (--spec->port_count - at) * sizeof spec->ports[0]);
    return write_row(core, &sb, out, err);
}

struct collected {
    struct cay_arena *a;
    struct cay_exposed_list list;
};

static void collect(void *ctx, const struct cay_sandbox *sb)
{
    struct collected *c = ctx;
    struct cay_exposed_list *list = &c->list;
    size_t bytes = sb->spec.port_count * sizeof sb->spec.ports[0];
    if (bytes == 0)
        return;
    list->at = cay_arena_room(c->a, list->at, list->count, sizeof *list->at);
    struct cay_exposed *x = &list->at[list->count++];
    cay_str_copy(x->sandbox_id, sizeof x->sandbox_id, sb->id);
    x->ports = memcpy(cay_arena_alloc(c->a, bytes), sb->spec.ports, bytes);
    x->count = sb->spec.port_count;
}

int cay_core_exposed(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                     struct cay_arena *a, struct cay_exposed_list *out, struct cay_error *err)
{
    struct cay_core_filter filter = {.team_id = team_id};
    struct collected c = {.a = a};
    int r = cay_core_walk(core, owner, &filter, collect, &c, err);
    if (r == 0)
        *out = c.list;
    return r;
}

int cay_core_previewed(struct cay_core *core, const char *sandbox_id, struct cay_arena *a,
                       struct cay_sandbox *out, struct cay_error *err)
{
    const char *whose = NULL;
    int r = cay_store_get(core->store, CAY_LOCAL_ACCOUNT, sandbox_id, a, out, err);
    if (r == CAY_ERR_FORBIDDEN) { /* a server that has accounts */
        r = cay_store_whose(core->store, sandbox_id, a, &whose, err);
        if (r == 0)
            r = cay_store_get(core->store, whose, sandbox_id, a, out, err);
    }
    if (r == CAY_ERR_NOT_FOUND || (r == 0 && out->deleted_at_ms > 0))
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    return r;
}

uint64_t cay_core_version(struct cay_core *core, const char *sandbox_id)
{
    return cay_store_version(core->store, sandbox_id);
}

/* 0, or the errno. On loopback both a yes and a no are there when connect returns; where neither
 * is, the listener's queue is full, and whoever has the socket waits for it. */
static int connect_to(int fd, enum cay_socket_kind kind, unsigned port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)port),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int yes = 1, failed = 0;
    socklen_t len = sizeof failed;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* slower without */
    int r = kind == CAY_SOCKET_TCP6 ? connect(fd, (struct sockaddr *)&v6, sizeof v6)
                                    : connect(fd, (struct sockaddr *)&v4, sizeof v4);
    if (r == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (poll(&ready, 1, 0) > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) == 0)
        return failed;
    return 0;
}

int cay_core_dial(struct cay_core *core, const struct cay_sandbox *sb, unsigned port, int *fd_out,
                  struct cay_error *err)
{
    static const enum cay_socket_kind kinds[] = {CAY_SOCKET_TCP4, CAY_SOCKET_TCP6};
    if (sb->state != CAY_RUNNING)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "the sandbox is %s",
                           cay_state_name(sb->state));
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        CAY_AUTO_FD int fd = -1;
        int r = cay_provider_socket(core->provider, sb->id, kinds[i], &fd, err);
        if (r < 0 && i == 0)
            return cay_core_gone("reach", sb->id, r, err);
        if (r == 0 && connect_to(fd, kinds[i], port) == 0) {
            *fd_out = cay_take_fd(&fd);
            return 0;
        }
    }
    return cay_fail_as(err, CAY_ERR_PROVIDER, "NOTHING_LISTENS",
                       "nothing listens on port %u of the sandbox", port);
}

/* What is signed cannot be taken for a sandbox's token, whose words begin otherwise. */
static void sign_link(const struct cay_core *core, const char *sandbox_id, unsigned port,
                      int64_t expires_at_ms, uint8_t out[32])
{
    char said[96];
    int len = snprintf(said, sizeof said, "preview %s %u %lld", sandbox_id, port,
                       (long long)expires_at_ms);
    cay_sha256_hmac(core->token_key, sizeof core->token_key, said, (size_t)len, out);
}

int cay_core_link(struct cay_core *core, const struct cay_account *owner, const char *id,
                  unsigned port, int64_t seconds, struct cay_arena *a, struct cay_link *out,
                  struct cay_error *err)
{
    struct cay_sandbox sb;
    uint8_t sum[32];
    char hex[65];
    if (owner->only && seconds > CAY_SANDBOX_TOKEN_MS / 1000)
        seconds = CAY_SANDBOX_TOKEN_MS / 1000; /* not much longer than the token itself */
    int r = cay_core_find(core, owner, id, a, &sb, err);
    if (r < 0)
        return r;
    if (sb.deleted_at_ms > 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "the sandbox is gone");
    if (!cay_spec_port(&sb.spec, port))
        return not_exposed(port, err);
    out->expires_at_ms = cay_clock_ms() + seconds * 1000;
    sign_link(core, sb.id, port, out->expires_at_ms, sum);
    for (size_t i = 0; i < sizeof sum; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    out->proof = cay_arena_printf(a, "%lld.%s", (long long)out->expires_at_ms, hex);
    return 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool cay_core_link_holds(struct cay_core *core, const char *sandbox_id, unsigned port,
                         const char *proof, int64_t *expires_at_ms_out)
{
    char until[24];
    uint64_t expires_at_ms;
    uint8_t want[32], got[32];
    size_t len = strcspn(proof, ".");
    const char *hex = proof + len + 1;
    if (len == 0 || len >= sizeof until || !proof[len] || strlen(hex) != 2 * sizeof got)
        return false;
    cay_str_copy(until, len + 1, proof);
    if (!cay_str_u64(until, INT64_MAX, &expires_at_ms))
        return false;
    for (size_t i = 0; i < sizeof got; i++) {
        int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        got[i] = (uint8_t)(high << 4 | low);
    }
    sign_link(core, sandbox_id, port, (int64_t)expires_at_ms, want);
    *expires_at_ms_out = (int64_t)expires_at_ms;
    return cay_sha256_same(want, got) && (int64_t)expires_at_ms > cay_clock_ms();
}
