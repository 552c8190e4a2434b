/* SPDX-License-Identifier: Apache-2.0 */
/* cay and Docker, each through its own API. Every call ends the program when it fails. */
#pragma once
#include "wire.h"

struct peer {
    const char *name;
    void (*create)(struct wire *w, const char *name, char id[128]); /* until it runs */
    void (*run)(struct wire *w, const char *id);                    /* `true`, and its exit code */
    void (*destroy)(struct wire *w, const char *id);
};

const struct peer *peer_find(const char *name);
