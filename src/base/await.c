/* SPDX-License-Identifier: Apache-2.0 */
#include "base/await.h"
#include "base/clock.h"
#include <sched.h>

#define SOON_US 50

int cay_await(int epoll_fd, struct epoll_event *events, int max, int wait_ms, bool *brisk)
{
    int64_t began = cay_clock_mono_us();
    int n = 0;
    while (*brisk && wait_ms > 0 && n == 0 && cay_clock_mono_us() - began < SOON_US) {
        n = epoll_wait(epoll_fd, events, max, 0);
        if (n == 0)
            (void)sched_yield(); /* cannot fail */
    }
    if (n == 0)
        n = epoll_wait(epoll_fd, events, max, wait_ms);
    *brisk = cay_clock_mono_us() - began < SOON_US;
    return n;
}
