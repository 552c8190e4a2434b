/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"
#include "base/await.h"
#include "base/clock.h"
#include "tests/test.h"
#include <sys/eventfd.h>

TEST(await_is_brisk_only_while_events_come)
{
    struct epoll_event ev = {.events = EPOLLIN}, got;
    CAY_AUTO_FD int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    CAY_AUTO_FD int fd = eventfd(1, EFD_CLOEXEC);
    bool brisk = true;
    CHECK_EQ("watched", epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev), 0);
    CHECK_EQ("what is there", cay_await(epoll_fd, &got, 1, 1000, &brisk), 1);
    eventfd_t count;
    CHECK_EQ("is taken", eventfd_read(fd, &count), 0);
    brisk = true;
    int64_t began = cay_clock_mono_ms();
    CHECK_EQ("nothing comes", cay_await(epoll_fd, &got, 1, 20, &brisk), 0);
    CHECK("which is waited for", cay_clock_mono_ms() - began >= 19);
    CHECK("so it sleeps the next time", !brisk);
    CHECK_EQ("nor now", cay_await(epoll_fd, &got, 1, 0, &brisk), 0);
}
