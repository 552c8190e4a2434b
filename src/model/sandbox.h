/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as its record tells it. Strings belong to the arena it was read into. */
#pragma once
#include "base/id.h"
#include "model/spec.h"
#include <signal.h>

enum cay_state {
    CAY_PENDING,
    CAY_PROVISIONING,
    CAY_RUNNING,
    CAY_PAUSED,
    CAY_STOPPED,
    CAY_ERROR,
    CAY_TERMINATED,
};
#define CAY_STATES (CAY_TERMINATED + 1)

const char *cay_state_name(enum cay_state state);            /* "RUNNING" */
bool cay_state_parse(const char *name, enum cay_state *out); /* upper case only */

/* How a sandbox ended, as observed. */
struct cay_death {
    const char *reason; /* a word: exited stopped deleted timeout idle lease oom signal error … */
    /* What takes it away, or took it: deleted timeout idle lease …; NULL: nothing. It is the reason
     * as well, unless it had ended of something before. */
    const char *removal;
    bool has_exit, has_signal;
    int exit_code, signal;
    const char *message; /* or NULL */
    uint64_t peak_bytes, cpu_ms;
    uint64_t sent_bytes, received_bytes; /* of the network, out of it and into it */
};

/* One that a process brings upon itself. */
static inline bool cay_signal_is_crash(int sig)
{
    return sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE || sig == SIGABRT ||
           sig == SIGTRAP || sig == SIGSYS;
}

/* How files were copied for a snapshot or a fork. */
struct cay_copied {
    const char *method; /* "btrfs-snapshot", "reflink", "copy"; NULL: nothing was */
    int64_t ms;
    uint64_t bytes; /* what the copy holds beside the image, where the filesystem can tell */
};

struct cay_sandbox {
    char id[CAY_ID_SIZE];
    const char *account_id;
    struct cay_spec spec;
    enum cay_state state;
    const char *status_reason;    /* why it is ERROR; or NULL */
    const char *server;           /* node name */
    char start_exec[CAY_ID_SIZE]; /* execution of the start command, or empty */
    int64_t created_at_ms, started_at_ms, updated_at_ms, stopped_at_ms;
    int64_t expires_at_ms; /* 0: never */
    int64_t deleted_at_ms; /* 0: alive */
    int64_t created_in_ms; /* what the create took */
    bool answered;         /* before it was made: a failure is told by the row */
    bool has_death;
    struct cay_death death;
    struct cay_copied copied; /* when spec.from is set */
    char keeps[CAY_ID_SIZE];  /* the volume that outlives it, or empty */
    /* Of the request that made it, if that may be repeated: its fingerprint, and what was answered.
     */
    const char *fingerprint, *first_answer;
};

/* A process that was killed for want of memory. */
struct cay_victim {
    char name[16]; /* empty: none */
    int64_t at_ms;
};

/* What a running one uses now; counters begin anew with each start. */
struct cay_usage {
    uint64_t cpu_us, memory_bytes, memory_peak_bytes;
    uint32_t pids;
    uint64_t oom_kills;
    uint64_t pids_refused;                  /* forks that the limit refused */
    uint64_t disk_bytes, disk_limit_bytes;  /* 0: cannot be told */
    uint64_t io_read_bytes, io_write_bytes; /* of disks; 0 where nobody counts */
    struct cay_victim victims[CAY_VICTIMS]; /* the latest first; none where nobody names them */
};

/* A reading of them, and what it says beside an earlier one. */
struct cay_stats {
    struct cay_usage usage;
    int64_t read_at_us;                  /* monotonic */
    uint64_t sent_bytes, received_bytes; /* as above */
    double cpu_percent; /* since the reading before, 100 is one core; negative: there was none */
};
