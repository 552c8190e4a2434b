/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process is: its number and its start, for numbers are used again. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Start time of a living process in clock ticks since boot; 0 when there is none. */
uint64_t cay_process_start(pid_t pid);
/* It has begun to end, or is gone. One whose descriptors the kernel has closed at its death has;
 * one that closed them by itself, or by exec, has not. */
bool cay_process_ends(pid_t pid);
/* Kills that one. A number that says "nobody" is left alone: kill() takes 0 for the caller's whole
 * group and -1 for everybody. */
void cay_process_kill(pid_t pid);
