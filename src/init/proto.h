/* SPDX-License-Identifier: Apache-2.0 */
/* Between the host and a sandbox's pid 1: seqpacket messages, host asks, pid 1 answers, in order.
 *
 * An old pid 1 outlives an upgrade of the server, so a message begins with the version and grows
 * only at its end. Descriptors travel from the host into the sandbox, never back. A message with
 * more than CAY_MESSAGE_MAX bytes of strings brings them in a sealed memfd (its first descriptor).
 */
#pragma once
#include "base/id.h"
#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>

#define CAY_INIT_VERSION 1
#define CAY_INIT_AWAIT_MAX 100
#define CAY_INIT_BEGUN 1
#define CAY_INIT_UID 65535 /* pid 1's own, inside; refused as `user` */
#define CAY_CAP(name) (UINT64_C(1) << CAP_##name)
/* What root inside has, and what pid 1 has: the same, and the right to hand less to a child. */
#define CAY_ROOT_CAPS                                                                              \
    (CAY_CAP(CHOWN) | CAY_CAP(DAC_OVERRIDE) | CAY_CAP(FOWNER) | CAY_CAP(FSETID) |                  \
     CAY_CAP(SETUID) | CAY_CAP(SETGID) | CAY_CAP(SETFCAP) | CAY_CAP(KILL) |                        \
     CAY_CAP(NET_BIND_SERVICE))
#define CAY_INIT_CAPS (CAY_ROOT_CAPS | CAY_CAP(SETPCAP))
/* What cay-init is exec'ed with: its listening socket at 3, and argv {"cay-init", "BYTES"}, how
 * large a file may become. */
#define CAY_INIT_LISTEN_FD 3
/* Held for its lock on the id range only: pid 1 keeps it open and never looks at it. */
#define CAY_INIT_LOCK_FD 4
/* cay-file, a sealed memfd. A pid 1 that is older than that has none, and refuses FILE. */
#define CAY_INIT_FILE_FD 5
/* The kernel's counts of kills for want of memory (a line "oom_kill N") and of refused processes
 * ("max N"), each to be read again and again; either may be absent. */
#define CAY_INIT_OOM_FD 6
#define CAY_INIT_PIDS_FD 7

/* A cay-init that no engine began (argv[2] says so) opens these by itself: it listens at this name
 * in its own network, and answers nobody who is inside. */
#define CAY_INIT_ALONE "alone"
#define CAY_INIT_NAME "cay-init"
#define CAY_INIT_DIR "/.cay" /* where it finds cay-file */

enum cay_init_op {
    CAY_INIT_PING = 1,
    CAY_INIT_EXEC = 2, /* answered when the command was exec'ed, or could not be */
    CAY_INIT_KILL = 3, /* a signal to the process group of an execution */
    CAY_INIT_STOP =
        4, /* SIGTERM, or `signal`, to all, after grace_ms SIGKILL to all, then pid 1 ends */
    CAY_INIT_LIST = 5,   /* ids of the executions that run: answer carries them as strings */
    CAY_INIT_INPUT = 6,  /* bytes for the stdin of an execution: descriptors are input [end] */
    CAY_INIT_RESIZE = 7, /* the terminal of an execution */
    CAY_INIT_FILE = 8,   /* starts cay-file, which answers by its own pipe */
};

enum {
    CAY_INIT_HAS_STDIN = 1,  /* the last descriptor is its stdin (pipe or memfd), else /dev/null */
    CAY_INIT_BY_MEMFD = 2,   /* strings come in the first descriptor */
    CAY_INIT_TTY = 4,        /* a terminal is its stdin, stdout and stderr, and takes INPUT */
    CAY_INIT_OPEN_STDIN = 8, /* its stdin is a pipe that takes INPUT */
    /* INPUT: at the input's end stdin is closed (a terminal gets its end-of-file character), if
     * there is a byte in `end`: without it the writer did not come to its end. */
    CAY_INIT_CLOSE = 16,
    CAY_INIT_HAS_END = 32, /* FILE: the last descriptor is its CAY_FILE_COMMIT_FD */
};

/* EXEC: descriptors are [memfd of strings] log [stdin].
 * strings: user, cwd, argc × argv, envc × "K=V", each with its NUL. An empty user or cwd is
 * 400-able and never sent. argv[0] is looked up in PATH of the given environment. */
/* FILE: descriptors are stdout [stdin] [end], pipes all. strings: user, argc × argv. After
 * timeout_ms it is killed. */
struct cay_init_request {
    uint32_t version;
    uint32_t op;
    char exec_id[CAY_ID_SIZE]; /* EXEC, KILL */
    uint32_t flags;
    uint32_t argc, envc;
    uint32_t strings_len;
    union {
        uint32_t signal; /* KILL; STOP: 0 is SIGTERM */
        uint32_t window; /* RESIZE, EXEC with a terminal: columns, and rows << 16 */
        /* EXEC without one: its answer waits for its end, if that comes so soon. That it was
         * begun is seen before: its log, which is written by offset only, is moved to
         * CAY_INIT_BEGUN. Who is older than this answers at once. */
        uint32_t await_ms;
    };
    uint32_t grace_ms;   /* STOP; EXEC: between SIGTERM and SIGKILL of its timeout */
    uint64_t timeout_ms; /* EXEC; 0 is none */
    uint64_t log_head_bytes, log_tail_bytes; /* EXEC */
};

enum cay_init_result {
    CAY_INIT_OK = 0,
    CAY_INIT_BAD_REQUEST = 1,  /* error: EEXIST when an execution of that id runs */
    CAY_INIT_NO_SUCH_EXEC = 2, /* or it ended already */
    CAY_INIT_TOO_MANY = 3,
    CAY_INIT_NO_USER = 4,    /* user not in the sandbox's /etc/passwd, or not allowed */
    CAY_INIT_NO_CWD = 5,     /* error: errno of chdir */
    CAY_INIT_NO_PROCESS = 6, /* error: errno of fork (pids limit); ETIMEDOUT: stuck before exec */
    CAY_INIT_NO_EXEC = 7,    /* E2BIG only; any other failure is an exit of 126 or 127 */
    CAY_INIT_STOPPING = 8,
    /* error: EPIPE its stdin is closed or never took input, EBUSY too many inputs, ENOTTY it has
     * no terminal; of EXEC: why none could be made */
    CAY_INIT_NO_STREAM = 9,
};

struct cay_init_reply {
    uint32_t version;
    uint32_t result;
    int32_t error; /* errno, where the result tells of one */
    int32_t pid;   /* EXEC: inside the sandbox */
    union {
        uint32_t count;  /* LIST */
        uint32_t ran_us; /* EXEC: it has ended, and its log says how; 0: it has not */
    };
    uint32_t strings_len; /* LIST */
};

/* For pid 1: whether a message of msg_len bytes with that many descriptors may be acted upon. */
enum cay_init_result cay_init_check(const struct cay_init_request *req, size_t msg_len,
                                    unsigned fd_count);
/* Cuts the strings of a message: exactly count of them, none longer than the kernel takes. */
bool cay_init_unpack(const char *strings, size_t len, size_t count, const char **out);
