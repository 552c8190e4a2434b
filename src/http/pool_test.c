/* SPDX-License-Identifier: Apache-2.0 */
#include "http/pool.h"
#include "model/limits.h"
#include "tests/test.h"
#include <poll.h>
#include <sys/socket.h>

static int pair(int *other_out)
{
    int ends[2];
    CHECK_EQ("pair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    *other_out = ends[1];
    return ends[0];
}

TEST(pool_gives_what_is_good)
{
    struct cay_pool *p = NULL;
    struct cay_error err = {0};
    int a, b;
    CHECK_EQ("new", cay_pool_new(&p, &err), 0);
    int first = pair(&a), second = pair(&b);
    cay_pool_give(p, "x", first, 0);
    cay_pool_give(p, "y", second, 0);
    CHECK_EQ("another's", cay_pool_take(p, "z"), -1);
    CHECK_EQ("its own", cay_pool_take(p, "x"), first);
    CHECK_EQ("once", cay_pool_take(p, "x"), -1);
    cay_pool_give(p, "x", first, 0);
    close(a);
    CHECK_EQ("one that ended", cay_pool_take(p, "x"), -1);
    CHECK_EQ("said something unasked", write(b, "!", 1), 1);
    CHECK_EQ("that one", cay_pool_take(p, "y"), -1);
    close(b);
    cay_pool_free(p);
}

TEST(pool_lets_go)
{
    struct cay_pool *p = NULL;
    struct cay_error err = {0};
    char byte;
    int a, b;
    CHECK_EQ("new", cay_pool_new(&p, &err), 0);
    struct pollfd news = {.fd = cay_pool_fd(p), .events = POLLIN};
    cay_pool_give(p, "x", pair(&a), 0);
    cay_pool_give(p, "x", pair(&b), 0);
    cay_pool_sweep(p, 0);
    CHECK_EQ("quiet", poll(&news, 1, 0), 0);
    shutdown(a, SHUT_WR);
    CHECK_EQ("one ended", poll(&news, 1, 0), 1);
    cay_pool_sweep(p, 0);
    CHECK_EQ("closed", read(a, &byte, 1), 0);
    CHECK_EQ("the other is not", read(b, &byte, 1), -1);
    cay_pool_sweep(p, CAY_PROXY_POOL_MS);
    CHECK_EQ("too old", read(b, &byte, 1), 0);
    close(a);
    close(b);
    cay_pool_give(p, "x", pair(&a), 0);
    shutdown(a, SHUT_WR);
    cay_pool_sweep(p, 0);
    CHECK_EQ("ended before anybody looked", read(a, &byte, 1), 0);
    close(a);
    for (int i = 0; i < CAY_PROXY_POOL_EACH + 3; i++) {
        cay_pool_give(p, "x", pair(&a), 0);
        close(a);
    }
    cay_pool_free(p);
}
