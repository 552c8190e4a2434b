/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for events, by a loop that many wait for.
 *
 * To be woken takes longer than most answers do. So while events come one soon after the other, the
 * next one is looked for a while before the thread sleeps; others who want the processor have it.
 */
#pragma once
#include <stdbool.h>
#include <sys/epoll.h>

/* As epoll_wait. *brisk is the loop's own, between two calls: the last event came soon. */
int cay_await(int epoll_fd, struct epoll_event *events, int max, int wait_ms, bool *brisk);
