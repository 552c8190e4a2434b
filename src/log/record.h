/* SPDX-License-Identifier: Apache-2.0 */
/* The durable log of one execution: its form on disk.
 *
 * A file is a row of blocks of CAY_LOG_BLOCK bytes. Records never cross a block's border, so every
 * border is the start of a record, and blocks from the middle can be punched out of the file while
 * all offsets stay. What is left of a block after its last record is zero: kind 0 means "go on at
 * the next border". Numbers are little-endian, as the machines we run on are.
 *
 *   first record   SPEC   JSON of the execution spec, written by the server
 *   then           STDOUT, STDERR   bytes as they came; GAP where some could not be kept
 *   once           EXIT   struct cay_record_exit, from waitid
 *   after it       STDOUT, STDERR   of children that outlived the process
 *
 * Whoever reads treats it as hostile: it is the sandbox's testimony about itself. */
#pragma once
#include "base/attr.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cay_record_kind {
    CAY_RECORD_PAD = 0,
    CAY_RECORD_SPEC = 1,
    CAY_RECORD_STDOUT = 2,
    CAY_RECORD_STDERR = 3,
    CAY_RECORD_GAP = 4, /* uint64_t: bytes that were dropped because the disk was full */
    CAY_RECORD_EXIT = 5,
};

struct cay_record_head {
    uint8_t kind;
    uint8_t version; /* 1 */
    uint16_t reserved;
    uint32_t len;    /* of the bytes behind this head */
    int64_t time_ms; /* wall clock */
};

_Static_assert(sizeof(struct cay_record_head) == 16, "on disk");

enum cay_record_reason {
    CAY_REASON_EXITED = 1,
    CAY_REASON_SIGNAL = 2,
    CAY_REASON_TIMEOUT = 3, /* pid 1 ended it because its time was over */
    CAY_REASON_KILLED = 4,  /* a signal that was asked for through the API */
};

struct cay_record_exit {
    uint8_t reason; /* enum cay_record_reason */
    uint8_t exit_code;
    uint8_t signal;  /* 0: none */
    uint8_t gaps;    /* 1: some output before this was dropped, a GAP record tells where */
    uint8_t counted; /* 1: oom_kills and forks_refused are known */
    uint8_t reserved[3];
    uint64_t cpu_us, peak_bytes; /* from rusage */
    uint64_t duration_us;
    uint64_t stdout_bytes, stderr_bytes; /* all that came until now */
    /* From here on absent in what an older pid 1 wrote. */
    char process[16];                  /* name of who was ended by the signal; empty: not known */
    uint32_t oom_kills, forks_refused; /* in the whole sandbox while this ran */
};

_Static_assert(sizeof(struct cay_record_exit) == 72, "on disk");
#define CAY_RECORD_EXIT_MIN offsetof(struct cay_record_exit, process)

/* As it may be shown: what is absent is 0, and the name is plain text. False when it is too short
 * to be one. */
bool cay_record_exit_read(const void *data, uint32_t len, struct cay_record_exit *out);
/* exited, signal, timeout, killed; oom or pids where the counters say so. Static. */
const char *cay_record_exit_reason(const struct cay_record_exit *e);

/* No record but SPEC, which stands first, is moved to the next border for want of more than this.
 * So more zero bytes than this are a hole, not padding. */
#define CAY_RECORD_PAD_MAX 128

/* Room for bytes in one record that begins at this offset; 0 when only padding fits. */
uint32_t cay_record_room(uint64_t offset);
