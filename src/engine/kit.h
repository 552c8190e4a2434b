/* SPDX-License-Identifier: Apache-2.0 */
/* What of the engine's a berth and its hull are made with. Spawners have it in their memory;
 * cay-berths, a program of its own, is sent it as its first message. */
#pragma once
#include "engine/cgroup.h"
#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

/* Of this, of an order (plan.h) and of a berth as it is sent: raised when one of them changes. The
 * program is read anew by each engine, and may have been replaced beside one that runs. */
#define CAY_KIT_FORM 1

struct cay_kit {
    uint32_t form;
    int ids_fd;  /* see berth.h */
    int init_fd; /* cay-init, a sealed memfd */
    int file_fd; /* cay-file, the same */
    bool guards; /* see cay_network_catch */
    struct cay_cgroups cgroups;
    struct sock_fprog seccomp;
};

/* -1 with errno. */
int cay_kit_send(const struct cay_kit *kit, int sock);
/* Waits for it. NULL: nobody sends one. */
const struct cay_kit *cay_kit_receive(int sock);
