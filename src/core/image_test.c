/* SPDX-License-Identifier: Apache-2.0 */
#include "core/image.h"
#include "core/ticket.h"
#include "tests/fixture.h"
#include <string.h>

static struct cay_pair aliases[] = {
    {"mine", "python:3.11-slim"}, {"node:20", "my/node:1"}, {"ruby", "my/ruby:3"}};

static const struct {
    const char *name, *first, *second; /* NULL: there is no second */
} cases[] = {
    {"busybox", "busybox", NULL},
    {"node:20-bookworm", "node:20-bookworm", NULL},
    {"node:18-alpine", "node:18-alpine", "node:18-bookworm"},
    {"node:22", "node:22", "node:22-bookworm"},
    {"node:22-slim-bookworm", "node:22-slim-bookworm", "node:22-bookworm"},
    {"node:2", "node:2", NULL},
    {"node:222", "node:222", NULL},
    {"python:3.11", "python:3.11", NULL},
    {"python:3.11-slim", "python:3.11-slim", "python:3.11"},
    {"python:3.12-slim", "python:3.12-slim", NULL},
    {"python:3", "python:3", "python:3.13"},
    {"debian", "debian", "debian:bookworm"},
    {"debian:sid", "debian:sid", NULL},
    {"@ai-sandbox/python", "@ai-sandbox/python", "python:3.11"},
    {"@ai-sandbox/node", "@ai-sandbox/node", "node:20-bookworm"},
    {"@ai-sandbox/nodes", "@ai-sandbox/nodes", NULL},
    {"mine", "python:3.11-slim", "python:3.11"},
    {"node:20", "my/node:1", NULL},
    {"node22", "node22", "node:22-bookworm"},
    {"node", "node", "node:20-bookworm"},
    {"", "", NULL},
};

TEST(image_names_in_turn)
{
    struct fixture f;
    fixture_open(&f);
    const struct cay_pairs map = {aliases, COUNT(aliases), 0};
    f.core->aliases = &map;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *out[CAY_IMAGE_NAMES];
        size_t count = cay_image_names(f.core, cases[i].name, out);
        CHECK_STR(cases[i].name, out[0], cases[i].first);
        CHECK_EQ(cases[i].name, count, cases[i].second ? 2u : 1u);
        if (cases[i].second && count == 2)
            CHECK_STR(cases[i].name, out[1], cases[i].second);
    }
    CHECK("the same", cay_image_same(f.core, "mine", "python:3.11"));
    CHECK("another", !cay_image_same(f.core, "mine", "python:3.13"));
    CHECK_STR("a runtime", cay_image_of_runtime(f.core, "node22"), "node:22-bookworm");
    CHECK_STR("the operator's", cay_image_of_runtime(f.core, "ruby"), "my/ruby:3");
    CHECK("an image is none", !cay_image_of_runtime(f.core, "debian"));
    CHECK("no runtime", !cay_image_of_runtime(f.core, "cobol"));
    fixture_close(&f);
}

static struct cay_spec spec_of(const char *name, const char *image)
{
    struct cay_spec spec = cay_spec_default();
    spec.name = name;
    spec.image = image;
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    return spec;
}

static int create(struct fixture *f, const char *image, struct cay_sandbox *out,
                  struct cay_error *err)
{
    struct cay_spec spec = spec_of(NULL, image);
    *err = (struct cay_error){0};
    return cay_core_create(f->core, &f->me, &spec, &f->a, out, err);
}

TEST(image_is_built_for_a_create)
{
    struct fixture f;
    struct cay_error err;
    struct cay_sandbox sb;
    static struct cay_pair other = {"other", "missing-built"};
    const struct cay_pairs map = {&other, 1, 0};
    fixture_open(&f);
    f.core->aliases = &map;
    CHECK_EQ("made", create(&f, "missing-built", &sb, &err), 0);
    CHECK_EQ("runs", sb.state, CAY_RUNNING);
    CHECK_STR("as it was asked for", sb.spec.image, "missing-built");
    CHECK_EQ("once", cay_provider_fake_builds(f.provider), 1);
    CHECK_EQ("again", create(&f, "other", &sb, &err), 0);
    CHECK_STR("by its other name", sb.spec.image, "other");
    CHECK_STR("which stands for", sb.spec.image_used, "missing-built");
    CHECK_EQ("without a build", cay_provider_fake_builds(f.provider), 1);
    fixture_close(&f);
}

TEST(image_that_cannot_be_had)
{
    struct fixture f;
    struct cay_error err;
    struct cay_sandbox sb;
    fixture_open(&f);
    CHECK_EQ("nobody knows it", create(&f, "missing", &sb, &err), CAY_ERR_NOT_FOUND);
    CHECK_STR("by name", cay_error_name(&err), "IMAGE_NOT_FOUND");
    CHECK_STR("all that was tried", err.tried,
              "local store: missing\tnot there\nrecipe: missing\tno recipe makes it\n");
    CHECK_EQ("its recipe fails", create(&f, "missing-broken", &sb, &err), CAY_ERR_PROVIDER);
    CHECK_STR("by name", cay_error_name(&err), "BUILD_FAILED");
    CHECK_EQ("no row", fixture_rows(&f), 0);
    CHECK_EQ("no sandbox", cay_provider_fake_count(f.provider), 0);
    CHECK_EQ("no job", f.core->maker.count, 0);
    fixture_close(&f);
}

static struct cay_ticket *begin(struct fixture *f, const char *name, struct cay_sandbox *out)
{
    struct cay_error err = {0};
    struct cay_ticket *ticket = NULL;
    struct cay_spec spec = spec_of(name, "missing-built");
    CHECK_EQ(name, cay_core_make(f->core, &f->me, &spec, &f->a, out, &ticket, &err), 0);
    CHECK("to be waited for", ticket != NULL);
    CHECK_EQ("not yet", out->state, CAY_PENDING);
    return ticket;
}

/* Three want it, and it is built once; one of them is deleted meanwhile. */
TEST(image_is_built_once_for_all)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb[3], gone;
    struct cay_ticket *tickets[3];
    static const char *const names[] = {"one", "two", "three"};
    static const int want[] = {0, CAY_ERR_CONFLICT, 0};
    fixture_open(&f);
    cay_provider_fake_hold_builds(f.provider, true);
    CHECK_EQ("threads", cay_maker_start(f.core, &err), 0);
    for (size_t i = 0; i < COUNT(names); i++)
        tickets[i] = begin(&f, names[i], &sb[i]);
    int r = cay_core_delete(f.core, &f.me, "two", CAY_WORKSPACE_AS_IT_IS, &f.a, &gone, &err);
    CHECK_EQ("it never was", r, CAY_ERR_NOT_FOUND);
    CHECK("the others wait", !cay_ticket_is_over(tickets[0]) && !cay_ticket_is_over(tickets[2]));
    cay_provider_fake_hold_builds(f.provider, false);
    for (size_t i = 0; i < COUNT(names); i++) {
        CHECK_EQ(names[i], cay_ticket_verdict(tickets[i], &err), want[i]);
        cay_ticket_free(tickets[i]);
    }
    CHECK_EQ("runs", fixture_state(&f, "one"), CAY_RUNNING);
    CHECK_EQ("runs", fixture_state(&f, "three"), CAY_RUNNING);
    CHECK_EQ("one build", cay_provider_fake_builds(f.provider), 1);
    CHECK_EQ("two rows", fixture_rows(&f), 2);
    fixture_close(&f);
}

/* Who closes does not wait for a build; who waits for it is told. */
TEST(image_is_given_up_at_the_end)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    cay_provider_fake_hold_builds(f.provider, true);
    CHECK_EQ("threads", cay_maker_start(f.core, &err), 0);
    struct cay_ticket *ticket = begin(&f, "one", &sb);
    fixture_close(&f);
    CHECK_EQ("told", cay_ticket_verdict(ticket, &err), CAY_ERR_UNAVAILABLE);
    cay_ticket_free(ticket);
}
