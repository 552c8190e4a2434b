/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of /api/v1 share. */
#pragma once
#include "api/body.h"
#include "api/network.h"
#include "api/openapi.h"
#include "api/stream.h"
#include "http/response.h"
#include "model/limits.h"

extern const struct cay_route cay_v1_event_routes[], cay_v1_audit_routes[], cay_v1_update_routes[];
extern const struct cay_route cay_v1_file_routes[], cay_v1_file_data_routes[],
    cay_v1_sandbox_routes[], cay_v1_bulk_routes[], cay_v1_exec_routes[], cay_v1_input_routes[],
    cay_v1_attach_routes[], cay_v1_output_routes[], cay_v1_log_routes[], cay_v1_stats_routes[],
    cay_v1_health_routes[], cay_v1_kept_routes[], cay_v1_process_routes[], cay_v1_batch_routes[];
extern const struct cay_route cay_v1_access_routes[], cay_v1_status_routes[],
    cay_v1_network_routes[], cay_v1_history_routes[];
extern const struct cay_route cay_v1_image_routes[], cay_v1_job_routes[];
extern const struct cay_dialect cay_v1_dialect; /* schemas.c */
extern const struct cay_route cay_v1_port_routes[], cay_v1_expose_routes[], cay_v1_tunnel_routes[];

/* spec.c: bodies to specs. */
extern const struct cay_field cay_v1_spec_fields[], cay_v1_fork_fields[];
/* The spec comes with its defaults. count_out is for forks, NULL for a
 * create; 0 when the body names none. */
int cay_v1_decode_spec(struct cay_req *req, struct cay_spec *spec, int64_t *count_out,
                       struct cay_error *err);
/* The same as a part of something else. */
int cay_v1_decode_spec_of(struct cay_req *req, const struct cay_json *object, struct cay_arena *a,
                          struct cay_spec *spec, struct cay_error *err);
#define CAY_V1_LEASE_FIELDS(type)                                                                  \
    CAY_FIELD_INT(type, idle_ms, "idleTimeoutMs", .min = 0, .max = (double)CAY_MAX_IDLE_MS),       \
        CAY_FIELD_INT(type, idle_minutes, "idleTimeoutMinutes", .min = 0,                          \
                      .max = (double)(CAY_MAX_IDLE_MS / 60000)),                                   \
        CAY_FIELD_STRS(type, idle_when, "idleWhen"),                                               \
        CAY_FIELD_INT(type, lease_seconds, "leaseSeconds", .min = 0,                               \
                      .max = (double)(CAY_MAX_LEASE_MS / 1000))
#define CAY_V1_NO_TIMES                                                                            \
    .timeout_minutes = -1, .timeout_ms = -1, .idle_minutes = -1, .idle_ms = -1, .lease_seconds = -1
/* "cpu", "output", "requests", "commands" as bits. */
int cay_v1_idle_when(const struct cay_strs *words, unsigned *out, struct cay_error *err);
/* titles.c: does this client take names for titles? */
bool cay_v1_titles(const struct cay_req *req);
/* Is it for its name that a create failed? */
bool cay_v1_title_refused(const struct cay_error *err);
/* A name made of a title, `alone` or told apart from others of that title; NULL when nothing of it
 * can be one. */
const char *cay_v1_title_name(struct cay_arena *a, const char *title, bool alone);
/* status.c: errorType, errorMessage and exitCode of one that ended by itself; null else. */
void cay_v1_shape_failure(struct cay_json_writer *w, const char *type, const char *message,
                          const struct cay_sandbox *sb);
#define CAY_V1_GB 1e9
#define CAY_V1_GIB 1073741824.0

/* What the document says of the sizes of a create, a fork and a change. */
#define CAY_V1_ABOUT_VCPUS                                                                         \
    "Stands for cores and memory: 2048 MiB each, unless memory is named. More memory than the "    \
    "host can give is refused with the bound."
#define CAY_V1_ABOUT_MEMORY                                                                        \
    "In GiB. At most what all sandboxes together may have, which is 85 % of the host's."
#define CAY_V1_ABOUT_DISK                                                                          \
    "In 10^9 bytes. A cap, no reservation, and at most what is free on the sandboxes' disk and "   \
    "what that may still grow by."
/* "512m", "2g", "1048576k": a whole number and its unit. */
int cay_v1_parse_memory(const char *text, uint64_t *out, struct cay_error *err);
/* exec_spec.c: a command with all that goes with it. */
extern const struct cay_field cay_v1_exec_fields[], cay_v1_window_fields[];
struct cay_v1_exec {
    struct cay_exec_spec spec;
    bool detach;
    size_t output_limit;
};
/* out->output_limit is what an absent one stands for. */
int cay_v1_decode_exec(struct cay_arena *a, const struct cay_json *object, struct cay_v1_exec *out,
                       struct cay_error *err);
/* ISO-8601 in UTC, with or without milliseconds. */
int cay_v1_moment(struct cay_arena *a, const char *text, const char *field, int64_t *out,
                  struct cay_error *err);
/* ports.c: a list of numbers or objects; NULL leaves all as it is. */
int cay_v1_decode_ports(struct cay_arena *a, const struct cay_json *v,
                        struct cay_port out[CAY_MAX_PORTS], size_t *count_out,
                        struct cay_error *err);
void cay_v1_shape_port(struct cay_json_writer *w, const char *key, const char *sandbox_id,
                       const struct cay_port *port);

/* shape.c: answers. `full` adds what only the answer about one sandbox tells. */
void cay_v1_shape_sandbox(struct cay_json_writer *w, const char *key, struct cay_core *core,
                          const struct cay_sandbox *sb, bool full);
/* cpu, memory, pids, disk and io, into the object that is open. */
void cay_v1_shape_usage(struct cay_json_writer *w, struct cay_core *core,
                        const struct cay_spec *limits, const struct cay_stats *stats);
void cay_v1_shape_execution(struct cay_json_writer *w, const char *key,
                            const struct cay_execution *ex);
void cay_v1_shape_page(struct cay_json_writer *w, int64_t total, int64_t page, int64_t per_page);
/* jobs.c */
/* 202, and where to look. */
int cay_v1_answer_job(struct cay_req *req, struct cay_resp *resp, const char *id,
                      struct cay_error *err);

/* exec.c: how it ended and what it wrote, at most limit bytes of each stream, into the object that
 * is open. */
void cay_v1_shape_result(struct cay_json_writer *w, const struct cay_execution *ex, int log_fd,
                         size_t limit);
