/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ticket.h"
#include "tests/fixture.h"
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static struct cay_spec spec_of(struct fixture *f, const char *word, const char *arg)
{
    struct cay_spec spec = cay_spec_default();
    spec.name = "box";
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    cay_strs_push(&f->a, &spec.start, word);
    cay_strs_push(&f->a, &spec.start, arg);
    spec.ready.timeout_ms = 100;
    return spec;
}

static int create(struct fixture *f, const struct cay_spec *spec, struct cay_sandbox *out,
                  struct cay_error *err)
{
    *err = (struct cay_error){0};
    return cay_core_create(f->core, &f->me, spec, &f->a, out, err);
}

static void is_nothing_left(struct fixture *f, const char *what)
{
    CHECK_EQ(what, fixture_rows(f), 0);
    CHECK_EQ(what, cay_provider_fake_count(f->provider), 0);
    CHECK_EQ(what, f->core->maker.count, 0);
    CHECK(what, !f->core->readier.first);
    CHECK(what, !f->core->holds.first);
}

TEST(ready_when_a_line_is_there)
{
    struct fixture f;
    struct cay_error err;
    struct cay_sandbox sb;
    fixture_open(&f);
    struct cay_spec spec = spec_of(&f, "echo", "now listening on 3000");
    spec.ready.line = "listening on";
    CHECK_EQ("it is", create(&f, &spec, &sb, &err), 0);
    CHECK_EQ("runs", sb.state, CAY_RUNNING);
    CHECK("with its start command", sb.start_exec[0] != 0);
    CHECK("nobody holds it", !f.core->holds.first);
    spec.name = NULL;
    spec.ready.line = "never said";
    CHECK_EQ("it is not", create(&f, &spec, &sb, &err), CAY_ERR_TIMEOUT);
    CHECK_STR("its name", cay_error_name(&err), "NOT_READY");
    CHECK_STR("its field", err.field, "readyWhen");
    CHECK_EQ("one row", fixture_rows(&f), 1);
    CHECK_EQ("one sandbox", cay_provider_fake_count(f.provider), 1);
    fixture_close(&f);
}

TEST(ready_not_when_the_start_command_failed)
{
    struct fixture f;
    struct cay_error err;
    struct cay_sandbox sb;
    fixture_open(&f);
    struct cay_spec spec = spec_of(&f, "exit", "3");
    spec.ready.line = "never said";
    spec.ready.timeout_ms = CAY_MAX_READY_MS; /* nobody waits for that */
    CHECK_EQ("at once", create(&f, &spec, &sb, &err), CAY_ERR_TIMEOUT);
    CHECK_STR("why", err.cause, "the start command exited with 3");
    is_nothing_left(&f, "nothing is left");
    fixture_close(&f);
}

/* A fake's ports are this machine's. */
static int listener(int family, uint16_t *port_out)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    socklen_t len = family == AF_INET ? sizeof four : sizeof six;
    if (fd < 0 || bind(fd, at, len) < 0 || listen(fd, 8) < 0 || getsockname(fd, at, &len) < 0) {
        close(fd);
        return -1;
    }
    *port_out = ntohs(family == AF_INET ? four.sin_port : six.sin6_port);
    return fd;
}

TEST(ready_when_somebody_listens)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct fixture f;
    struct cay_error err;
    struct cay_sandbox sb;
    fixture_open(&f);
    struct cay_spec spec = spec_of(&f, "sleep", "9");
    spec.name = NULL;
    for (size_t i = 0; i < COUNT(families); i++) {
        int fd = listener(families[i], &spec.ready.port);
        if (fd < 0)
            continue; /* a machine without IPv6 */
        CHECK_EQ("there", create(&f, &spec, &sb, &err), 0);
        CHECK_EQ("runs", sb.state, CAY_RUNNING);
        size_t rows = fixture_rows(&f);
        close(fd);
        CHECK_EQ("nobody is there", create(&f, &spec, &sb, &err), CAY_ERR_TIMEOUT);
        CHECK_EQ("taken back", fixture_rows(&f), rows);
    }
    fixture_close(&f);
}

/* Every call of provider and store fails once: each time all is as it was. */
TEST(ready_takes_back_what_failed)
{
    struct fixture f;
    fixture_open(&f);
    struct cay_spec spec = spec_of(&f, "echo", "ready");
    spec.ready.line = "ready";
    cay_provider_fake_spare_destroy(f.provider, true);
    for (int n = 1; n < 20; n++) {
        struct cay_error err;
        struct cay_sandbox sb;
        cay_provider_fake_fail_at(f.provider, n);
        int r = create(&f, &spec, &sb, &err);
        bool failed = cay_provider_fake_failed(f.provider);
        cay_provider_fake_fail_at(f.provider, 0);
        if (!failed) {
            CHECK_EQ("then it works", r, 0);
            CHECK("some steps can fail", n > 2);
            break;
        }
        if (r < 0)
            is_nothing_left(&f, "nothing is left");
    }
    fixture_close(&f);
}

TEST(ready_for_a_start)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    struct cay_spec spec = spec_of(&f, "echo", "up");
    spec.persistent = true;
    spec.ready.line = "up";
    CHECK_EQ("made", create(&f, &spec, &sb, &err), 0);
    char first[CAY_ID_SIZE];
    cay_str_copy(first, sizeof first, sb.start_exec);
    CHECK_EQ("stopped", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &sb, &err), 0);
    CHECK_EQ("started", cay_core_start(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("runs", sb.state, CAY_RUNNING);
    CHECK("by another command", strcmp(sb.start_exec, first) != 0);
    CHECK_EQ("stopped again", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &sb, &err), 0);
    sb.spec.ready.line = "down";
    CHECK_EQ("another line", cay_store_update(f.store, &sb, CAY_SOON, &err), 0);
    CHECK_EQ("late", cay_core_start(f.core, &f.me, "box", &f.a, &sb, &err), CAY_ERR_TIMEOUT);
    CHECK_STR("its name", cay_error_name(&err), "NOT_READY");
    CHECK_EQ("it is down", fixture_state(&f, "box"), CAY_STOPPED);
    CHECK("and does not run", !cay_provider_fake_runs(f.provider, sb.id));
    fixture_close(&f);
}

TEST(ready_is_given_up_by_a_delete)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb, gone;
    struct cay_ticket *ticket;
    fixture_open(&f);
    CHECK_EQ("threads", cay_readier_start(f.core, &err), 0);
    struct cay_spec spec = spec_of(&f, "sleep", "9");
    spec.ready.line = "x";
    spec.ready.timeout_ms = CAY_MAX_READY_MS;
    CHECK_EQ("begun", cay_core_begin_create(f.core, &f.me, &spec, &f.a, &sb, &ticket, &err), 0);
    CHECK_EQ("not yet", sb.state, CAY_PENDING);
    int r = cay_core_delete(f.core, &f.me, sb.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &gone, &err);
    CHECK_EQ("it never was", r, CAY_ERR_NOT_FOUND);
    CHECK_EQ("told", cay_ticket_verdict(ticket, &err), CAY_ERR_TIMEOUT);
    CHECK_STR("why", err.cause, "it was deleted meanwhile");
    cay_ticket_free(ticket);
    is_nothing_left(&f, "nothing is left");
    fixture_close(&f);
}
