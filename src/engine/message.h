/* SPDX-License-Identifier: Apache-2.0 */
/* Between the server and the engine: seqpacket, one request at a time on a connection.
 *
 * The engine treats every message as a stranger's. Lists that do not fit come in a memfd. */
#pragma once
#include "base/error.h"
#include "base/id.h"
#include "model/limits.h"
#include "model/network.h"
#include <stdint.h>

#define CAY_ENGINE_VERSION 1

enum cay_engine_op {
    CAY_ENGINE_HELLO = 1,   /* answer: struct cay_engine_hello */
    CAY_ENGINE_CREATE = 2,  /* new sandbox, running; answer: as CONNECT, with `copied` */
    CAY_ENGINE_START = 3,   /* a stopped one, with its files; answer: as CONNECT */
    CAY_ENGINE_STOP = 4,    /* SIGTERM, grace, SIGKILL; answered when it is down */
    CAY_ENGINE_DESTROY = 5, /* killed, reaped, nothing left; answer: its last entry, if any */
    CAY_ENGINE_CONNECT = 6, /* answer: struct cay_engine_image, descriptor of a socket to pid 1 */
    CAY_ENGINE_USAGE = 7,   /* answer: struct cay_usage */
    CAY_ENGINE_LIST = 8,    /* answer: memfd with array of struct cay_engine_entry */
    CAY_ENGINE_EVENTS = 9,  /* from now on this connection only gets struct cay_engine_entry */
    CAY_ENGINE_DOWN = 10,   /* destroy every sandbox; root only */
    CAY_ENGINE_PAUSE = 11,
    CAY_ENGINE_RESUME = 12,
    CAY_ENGINE_SNAPSHOT = 13, /* of `id`, as `other`; answer: struct cay_engine_copied */
    CAY_ENGINE_DROP = 14,     /* `id` is a snapshot or a volume that no sandbox has */
    CAY_ENGINE_KEPT = 15,   /* answer: memfd with ids of snapshots and volumes, CAY_ID_SIZE each */
    CAY_ENGINE_LIMIT = 16,  /* memory, disk, cpu and pids of one that runs, from now on */
    CAY_ENGINE_SOCKET = 17, /* answer: a descriptor made in the net namespace of `id` */
    CAY_ENGINE_BUILD = 18,  /* `image` by its recipe, or that of a file that comes with it, or with
                               no image: which can be; answer: a descriptor to read of it from, see
                               engine/build.h */
    /* A backup, root's only; see engine/backup.c. It ends with the connection. */
    CAY_ENGINE_BACKUP = 32, /* answered when everything stands still: descriptor of all trees */
    CAY_ENGINE_BACKUP_HOLD = 33, /* the tree `id` stays as it is */
    CAY_ENGINE_BACKUP_GO = 34,   /* what is not held goes on */
    CAY_ENGINE_BACKUP_TAKE = 35, /* copied, and held no longer; answer: struct cay_engine_copied */
    CAY_ENGINE_BACKUP_FREE = 36, /* held no longer */
    /* Images; see engine/images.c. These, and BUILD, may bring descriptors. What lasts ends with
     * the connection. */
    CAY_ENGINE_IMAGE_HAS = 48,    /* the layer; answer: a byte */
    CAY_ENGINE_IMAGE_LAYER = 49,  /* a file to unpack it from; answer: cay_engine_unpacked */
    CAY_ENGINE_IMAGE_PUT = 50,    /* `image`; a file with its text */
    CAY_ENGINE_IMAGE_LIST = 51,   /* `image`, or all; answer: memfd of cay_engine_listed */
    CAY_ENGINE_IMAGE_REMOVE = 52, /* `image`, the name alone */
    CAY_ENGINE_IMAGE_PRUNE = 53,  /* answer: struct cay_engine_pruned */
    CAY_ENGINE_IMAGE_EXPORT = 54, /* `image`, or the snapshot `id` as `image`; a file to write to */
    /* Of the engine beside another provider, which makes the sandboxes; see engine/opener.c. */
    CAY_ENGINE_DIAL = 64,     /* answer: descriptor of a connection to the Docker Engine */
    CAY_ENGINE_PROGRAMS = 65, /* answer: descriptors of cay-init, cay-file, and of certificates */
    CAY_ENGINE_EXPORT =
        66, /* answer: text of `image`, descriptor that its files come from as tar */
    CAY_ENGINE_SETTLE = 67, /* the network of `pid`, once after each start; answer: as JOIN */
    CAY_ENGINE_JOIN = 68,   /* answer: descriptor of a socket to cay-init, which is `pid` */
    CAY_ENGINE_HOLD = 69,   /* `pid` stands still; these two: see engine/foreign.h */
    CAY_ENGINE_COPY = 70,   /* the volume `id` to `other`, in Docker's directory `image` */
};

#define CAY_ENGINE_FDS 2 /* that a request may bring: the one above; one to tell progress to */

struct cay_engine_layer {
    char digest[65], diff_id[65]; /* hex; the digest may be empty */
    uint64_t offset, size;        /* of its bytes in the file */
};

struct cay_engine_request {
    uint32_t version;
    uint32_t op;
    char id[CAY_ID_SIZE];
    char image[CAY_MAX_IMAGE_NAME + 1]; /* CREATE */
    char hostname[CAY_MAX_NAME + 1];    /* CREATE, START */
    uint64_t memory_bytes, disk_bytes;
    uint32_t cpu_milli, pids;
    uint32_t grace_ms;        /* STOP */
    uint32_t persistent;      /* files must survive the host: fsync inside waits for the disk */
    char other[CAY_ID_SIZE];  /* CREATE: sandbox or snapshot to copy, or empty; SNAPSHOT: its id */
    char volume[CAY_ID_SIZE]; /* CREATE: to take as /workspace; DESTROY: to keep /workspace as */
    uint32_t drop_volume;     /* DESTROY: /workspace goes, given at create or not */
    uint32_t socket;          /* SOCKET: enum cay_socket_kind; CREATE, START: 0 or SOCKET_OUT */
    struct cay_engine_layer layer; /* IMAGE_HAS, IMAGE_LAYER */
    uint32_t pid;                  /* of a sandbox that another provider made, as the host counts */
    uint32_t again;                /* BUILD: also when there is one of that name */
    char container[65];            /* its name there, 64 hex digits: the pid's must be the same */
};

struct cay_engine_reply {
    uint32_t version;
    int32_t code;  /* 0, or enum cay_err */
    char name[32]; /* error name on the wire, or empty */
    char msg[160], cause[320];
    uint32_t len; /* bytes that follow in the same packet */
};

/* How files were copied; an empty method: nothing was. */
struct cay_engine_copied {
    char method[16]; /* as struct cay_copied has it */
    int64_t ms;
    uint64_t bytes;
};

/* How a HOLD began, or a COPY ended. */
struct cay_engine_done {
    struct cay_engine_reply reply;
    struct cay_engine_copied copied;
};

/* The image's own settings, as far as executions need them. */
struct cay_engine_image {
    char user[64]; /* never root; "user" when the image names none */
    char workdir[256];
    uint32_t argc, argv_len;     /* of its own command, each with its NUL; they follow */
    uint32_t env_count, env_len; /* "K=V\0"… follow them */
    struct cay_engine_copied copied;
};

struct cay_engine_unpacked {
    uint32_t found; /* it was there already */
    uint64_t bytes, entries;
};

/* One image; `text_len` bytes of text follow, then the next. */
struct cay_engine_listed {
    char name[CAY_MAX_IMAGE_NAME + 1];
    uint64_t bytes;
    uint32_t uses, text_len;
};

struct cay_engine_pruned {
    uint64_t bytes;
    uint32_t layers;
};

enum cay_engine_state {
    CAY_ENGINE_RUNNING = 1,
    CAY_ENGINE_STOPPED = 2,
    CAY_ENGINE_PAUSED = 3,  /* runs, and stands still */
    CAY_ENGINE_UNKNOWN = 4, /* is there, and cannot be looked at: it can only be destroyed */
};

/* One sandbox as the engine knows it; also the event of its death. */
struct cay_engine_entry {
    char id[CAY_ID_SIZE];
    uint32_t state;
    char reason[16]; /* of the death: stopped, deleted, oom, signal, exited, error, host_restart */
    int32_t exit_code, signal; /* of pid 1; -1 unknown */
    int64_t started_at_ms, ended_at_ms;
    uint64_t cpu_us, memory_peak_bytes, oom_kills;
};

/* What the trial at start found. */
struct cay_engine_problem {
    char what[64], why[256], fix[256];
    uint32_t fatal; /* a create needs it */
};

struct cay_engine_hello {
    char version[32];
    uint32_t cgroup_version;        /* 1 or 2 */
    char disk[16];                  /* see struct cay_disk */
    uint64_t room_bytes;            /* of disk that sandboxes may still take, growth included */
    uint32_t pool_ready, pool_size; /* namespaces made ahead */
    uint32_t problem_count;         /* struct cay_engine_problem follow */
};
