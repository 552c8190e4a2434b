/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake remembers of a sandbox, and how its commands pretend to run. */
#pragma once
#include "log/record.h"
#include "provider/fake/trees.h"
#include "provider/provider.h"

struct cay_fake_run { /* a command that goes on */
    struct cay_fake_run *next;
    char exec_id[CAY_ID_SIZE];
    int log_fd;
    int input_fd; /* the latest input, which nobody reads; -1: none */
    bool takes_input, has_terminal;
};

struct cay_fake_box {
    struct cay_fake_box *next;
    struct cay_provider_entry entry;
    struct cay_fake_run *runs;
    uint64_t oom_kills, disk_bytes;
    uint64_t memory_limit_bytes, memory_held_bytes;
    bool quiet, busy; /* it computes nothing; or much between two looks */
    uint64_t cpu_us;  /* of one that is quiet or busy */
    struct cay_fake_files files;
};

/* A signal of 0 leaves no exit record behind. Frees it. */
void cay_fake_end_run(struct cay_fake_run *run, int sig, uint8_t reason);
void cay_fake_end_runs(struct cay_fake_box *b, int sig);
/* A command that ends at once, with its log. */
void cay_fake_run(struct cay_fake_box *b, const struct cay_exec_spec *spec, int log_fd);
/* Out of the list; NULL when it ended. */
struct cay_fake_run *cay_fake_take_run(struct cay_fake_box *b, const char *exec_id);
