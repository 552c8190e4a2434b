/* SPDX-License-Identifier: Apache-2.0 */
/* Who was killed for want of memory. The kernel counts kills by cgroup, and says names in its log
 * alone: "Killed process 14102 (python3) total-vm:…, UID:1055392744 …". The id tells whose it was,
 * for each sandbox has a range of its own; the cgroup stands in a line that is left out when kills
 * are many. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* To be read from its end on. -1: not every host lets us, and in some containers what has its name
 * is something else. */
int cay_kernel_log_open(void);

/* One record, as /dev/kmsg has it; the name as text. False: it tells of something else. */
bool cay_victim_parse(const char *record, uint32_t *uid_out, char name_out[16]);
