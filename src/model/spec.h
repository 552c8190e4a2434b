/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller asked a sandbox to be. One unit per quantity; dialects convert. */
#pragma once
#include "base/str.h"
#include "model/image.h"
#include "model/limits.h"
#include "model/once.h"
#include "model/port.h"
#include "model/reach.h"
#include "model/source.h"

/* What keeps a sandbox from being idle. */
enum cay_activity {
    CAY_ACTIVE_CPU = 1,      /* it computes */
    CAY_ACTIVE_OUTPUT = 2,   /* a command writes */
    CAY_ACTIVE_REQUESTS = 4, /* calls name it, or are open */
    CAY_ACTIVE_COMMANDS = 8, /* one runs beside the start command */
    CAY_ACTIVE_ALL = 15,
};

/* When a sandbox counts as running. */
struct cay_ready {
    uint16_t port;      /* somebody listens there, inside; 0: that does not matter */
    const char *line;   /* a line of the start command's output holds this; or NULL */
    int64_t timeout_ms; /* later is too late */
};

struct cay_spec {
    const char *name;          /* never NULL once core has seen it */
    const char *image;         /* as the caller wrote it */
    const char *image_used;    /* which one that was, when it was made; NULL: not yet */
    const char *runtime;       /* what the image was chosen by; or NULL */
    enum cay_pull_policy pull; /* of this create alone: it is not kept */
    struct cay_strs start;     /* argv of the start command */
    const char *start_text;    /* as the caller wrote it, when it was one string; without argv it is
                                  the image's own command that is meant */
    struct cay_ready ready;
    uint32_t cpu_milli; /* 1000 is one core */
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    /* Nobody asked for so much: it may be less where the host has less. */
    bool memory_fits, disk_fits;
    bool memory_by_vcpus; /* it is what they bring; of the request, never kept */
    uint32_t pids;
    uint32_t gpu_count;
    struct cay_network network;
    bool persistent;
    bool stop_when_start_ends;
    int64_t timeout_ms; /* 0 is no expiry */
    int64_t exec_ms;    /* that a command of /api/sandbox may take; 0: as usual there */
    int64_t idle_ms;    /* it ends after so long without activity; 0: never */
    unsigned idle_when; /* bits of enum cay_activity that count */
    int64_t lease_ms;   /* it ends after so long without a call that names it; 0: never */
    struct cay_pairs env;
    struct cay_pairs secrets;     /* as core/seal.h keeps them */
    struct cay_pairs new_secrets; /* of the request, as they were said; never kept */
    struct cay_strs labels;
    struct cay_pairs tags;
    struct cay_port ports[CAY_MAX_PORTS]; /* that may be reached, by number */
    size_t port_count;
    const char *user;    /* NULL: the image's, or `user` */
    const char *workdir; /* NULL: the image's, or /workspace */
    const char *team_id;
    const char *track;             /* what history keeps: "files", "workspace"; NULL: nothing */
    const char *from;              /* sandbox or snapshot whose files it begins with; or NULL */
    const char *at;                /* version of `from` it begins with: of a fork's request, never
                                      kept; or NULL */
    struct cay_spec_source source; /* that is fetched into its working directory */
    const char *volume;            /* that becomes its /workspace; or NULL */
    const struct cay_once *once;   /* of the request, never kept; or NULL */
    const char *isolation;         /* that must hold it; never kept either; NULL: what there is */
};

static inline bool cay_spec_has_start(const struct cay_spec *spec)
{
    return spec->start.count > 0 || spec->start_text;
}

static inline bool cay_spec_waits(const struct cay_spec *spec)
{
    return spec->ready.port > 0 || spec->ready.line;
}

/* Is making it no matter of an instant? */
static inline bool cay_spec_lasts(const struct cay_spec *spec)
{
    return cay_spec_waits(spec) || spec->source.kind != CAY_SOURCE_NONE;
}

/* Defaults of every field; name stays NULL. */
struct cay_spec cay_spec_default(void);
/* The entry of that port; NULL when it is not among them. */
const struct cay_port *cay_spec_port(const struct cay_spec *spec, unsigned port);
/* What a fork has of its source unless it is told otherwise: all but the name, the volume, where
 * the source's own files came from and what it waited for. */
struct cay_spec cay_spec_fork(const struct cay_spec *source);
