/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core/ports.h"
#include "core/service.h"
#include "tests/fixture.h"
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

static int expose(struct fixture *f, const char *id, unsigned port, bool *made)
{
    struct cay_error err = {0};
    struct cay_sandbox sb;
    struct cay_port p = {.port = (uint16_t)port};
    return cay_core_expose(f->core, &f->me, id, &p, &f->a, &sb, made, &err);
}

TEST(ports_are_on_the_row)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb = {0};
    bool made = false;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    for (unsigned port = 1; port <= CAY_MAX_PORTS; port++)
        CHECK_EQ("expose", expose(&f, "box", port, &made), 0);
    CHECK("made", made);
    CHECK_EQ("one too many", expose(&f, "box", 99, &made), CAY_ERR_INVALID);
    CHECK_EQ("again", expose(&f, "box", 2, &made), 0);
    CHECK("not made", !made);
    CHECK_EQ("remove", cay_core_unexpose(f.core, &f.me, "box", 2, &f.a, &sb, &err), 0);
    CHECK_EQ("twice", cay_core_unexpose(f.core, &f.me, "box", 2, &f.a, &sb, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_EQ("get", cay_core_get(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("left", sb.spec.port_count, 3);
    CHECK_EQ("in their order", sb.spec.ports[1].port, 3);
    CHECK("dated", sb.spec.ports[1].created_at_ms > 0);
    fixture_close(&f);
}

TEST(ports_links_hold_for_one_port)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb = {0};
    struct cay_link link = {0};
    int64_t until = 0;
    bool made;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    CHECK_EQ("get", cay_core_get(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("not exposed", cay_core_link(f.core, &f.me, "box", 80, 60, &f.a, &link, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_EQ("expose", expose(&f, "box", 80, &made), 0);
    CHECK_EQ("link", cay_core_link(f.core, &f.me, "box", 80, 60, &f.a, &link, &err), 0);
    CHECK("holds", cay_core_link_holds(f.core, sb.id, 80, link.proof, &until));
    CHECK_EQ("until", until, link.expires_at_ms);
    CHECK("another port", !cay_core_link_holds(f.core, sb.id, 81, link.proof, &until));
    CHECK("another sandbox",
          !cay_core_link_holds(f.core, "sb-00000000000000000000", 80, link.proof, &until));
    for (size_t i = 0; link.proof[i]; i++) {
        char *bad = cay_arena_strdup(&f.a, link.proof);
        bad[i] = bad[i] == '1' ? '2' : '1';
        CHECK("tampered", !cay_core_link_holds(f.core, sb.id, 80, bad, &until));
        bad[i] = 0;
        CHECK("cut", !cay_core_link_holds(f.core, sb.id, 80, bad, &until));
    }
    CHECK_EQ("over", cay_core_link(f.core, &f.me, "box", 80, -1, &f.a, &link, &err), 0);
    CHECK("it is", !cay_core_link_holds(f.core, sb.id, 80, link.proof, &until));
    fixture_close(&f);
}

TEST(ports_dial_what_listens)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb = {0};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t len = sizeof v6;
    CAY_AUTO_FD int fd = -1;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    CHECK_EQ("get", cay_core_get(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("nobody", cay_core_dial(f.core, &sb, 1, &fd, &err), CAY_ERR_PROVIDER);
    CHECK_STR("says so", cay_error_name(&err), "NOTHING_LISTENS");
    CAY_AUTO_FD int six = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (six >= 0 && bind(six, (struct sockaddr *)&v6, sizeof v6) == 0 && listen(six, 1) == 0) {
        (void)getsockname(six, (struct sockaddr *)&v6, &len);
        CHECK_EQ("only there", cay_core_dial(f.core, &sb, ntohs(v6.sin6_port), &fd, &err), 0);
    }
    sb.state = CAY_PAUSED;
    CHECK_EQ("a paused one", cay_core_dial(f.core, &sb, 1, &fd, &err), CAY_ERR_CONFLICT);
    fixture_close(&f);
}
