/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process is: its number and its start, for numbers are used again. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

/* Start time of a living process in clock ticks since boot; 0 when there is none. */
uint64_t cay_process_start(pid_t pid);
