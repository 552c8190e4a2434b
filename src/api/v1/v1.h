/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of /api/v1 share. */
#pragma once
#include "api/openapi.h"
#include "core/service.h"
#include "http/response.h"
#include "log/reader.h"
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
/* The header Idempotency-Key, or what the body has as `key`; NULL when there is neither. */
int cay_v1_once(struct cay_req *req, const char *key, const struct cay_once **out,
                struct cay_error *err);
/* The answer that the request got when it came before; false when none is known. */
bool cay_v1_answered(struct cay_resp *resp, int status, const struct cay_sandbox *made);
/* This one is for when it comes again. */
void cay_v1_keep_answer(struct cay_req *req, const struct cay_resp *resp,
                        const struct cay_sandbox *made);
/* Times of a body with these members; -1 is absent. */
#define CAY_V1_TIMEOUT_FIELDS(type)                                                                \
    CAY_FIELD_INT(type, timeout_minutes, "timeoutMinutes", .min = 0,                               \
                  .max = (double)(CAY_MAX_TIMEOUT_MS / 60000)),                                    \
        CAY_FIELD_INT(type, timeout_ms, "timeoutMs", .min = 0, .max = (double)CAY_MAX_TIMEOUT_MS)
#define CAY_V1_LEASE_FIELDS(type)                                                                  \
    CAY_FIELD_INT(type, idle_ms, "idleTimeoutMs", .min = 0, .max = (double)CAY_MAX_IDLE_MS),       \
        CAY_FIELD_INT(type, idle_minutes, "idleTimeoutMinutes", .min = 0,                          \
                      .max = (double)(CAY_MAX_IDLE_MS / 60000)),                                   \
        CAY_FIELD_STRS(type, idle_when, "idleWhen"),                                               \
        CAY_FIELD_INT(type, lease_seconds, "leaseSeconds", .min = 0,                               \
                      .max = (double)(CAY_MAX_LEASE_MS / 1000))
#define CAY_V1_NO_TIMES                                                                            \
    .timeout_minutes = -1, .timeout_ms = -1, .idle_minutes = -1, .idle_ms = -1, .lease_seconds = -1
/* ms, or else so many of a unit; false when both are absent. */
bool cay_v1_time(int64_t ms, int64_t count, int64_t unit_ms, int64_t *out);
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
uint64_t cay_v1_bytes(double count, double unit);
/* "512m", "2g", "1048576k": a whole number and its unit. */
int cay_v1_parse_memory(const char *text, uint64_t *out, struct cay_error *err);
/* A command: a string for the shell, or an array. text_out is NULL for an array. */
int cay_v1_decode_command(struct cay_arena *a, const struct cay_json *v, const char *field,
                          struct cay_strs *argv_out, const char **text_out, struct cay_error *err);
/* The same as a start command, into the spec; "image" is the image's own. NULL: there is none. */
int cay_v1_decode_start(struct cay_arena *a, const struct cay_json *v, struct cay_spec *spec,
                        struct cay_error *err);
/* exec_spec.c: {path: text | {base64}}, into the spec. */
int cay_v1_decode_files(struct cay_arena *a, const struct cay_json *v, struct cay_exec_spec *spec,
                        struct cay_error *err);
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
extern const char *const cay_v1_tracks[]; /* off, files, workspace */
extern const char *const cay_v1_pulls[];  /* always, missing, never */
/* network.c: what may be reached, in any of the forms that it is asked for in. */
struct cay_v1_network {
    const struct cay_json *access, *policy, *allowlist, *denylist;
};
#define CAY_V1_NETWORK_FIELDS(body)                                                                \
    CAY_FIELD_ANY(body, network.access, "networkAccess", .type = "boolean|null"),                  \
        CAY_FIELD_ANY(body, network.policy, "networkPolicy", .type = "NetworkPolicy|string|null"), \
        CAY_FIELD_ANY(body, network.allowlist, "networkAllowlist", .type = "[string]|null"),       \
        CAY_FIELD_ANY(body, network.denylist, "networkDenylist", .type = "[string]|null")
extern const struct cay_field cay_v1_policy_fields[];
/* Nothing is written when nothing was said; given_out, unless NULL, tells. */
int cay_v1_decode_network(struct cay_arena *a, const struct cay_v1_network *asked,
                          struct cay_network *out, bool *given_out, struct cay_error *err);
/* networkAccess, networkPolicy and both lists, into the object that is open. */
void cay_v1_shape_network(struct cay_json_writer *w, const struct cay_network *n);
void cay_v1_shape_policy(struct cay_json_writer *w, const char *key, const struct cay_network *n);
/* The two lists by these names; null unless it was asked for by a list. */
void cay_v1_shape_lists(struct cay_json_writer *w, const char *allow, const char *deny,
                        const struct cay_network *n);
/* Known, and not to be had yet: refused unless it is absent or says nothing. */
int cay_v1_refuse(const struct cay_json *v, const char *field, struct cay_error *err);

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
/* exitCode, signal, reason: null where nobody knows. */
void cay_v1_shape_exit(struct cay_json_writer *w, const struct cay_execution *ex);

/* ticket.c: a sandbox that others make ready; no thread waits for it. */
struct cay_v1_waiting {
    char id[CAY_ID_SIZE];
    int status;       /* to be answered then */
    bool once;        /* see cay_core_answered */
    const char *data; /* the caller's */
    int verdict;
    struct cay_error err;
};
/* `answer` is called when the ticket, which is taken, is over. Of `how` status, once and data are
 * kept. */
int cay_v1_wait(struct cay_req *req, struct cay_resp *resp, struct cay_ticket *ticket,
                const struct cay_sandbox *sb, struct cay_v1_waiting how,
                int (*answer)(struct cay_req *req, struct cay_resp *resp, struct cay_error *err));
/* In there: how it went, and the sandbox as it is now. */
int cay_v1_waited(struct cay_req *req, struct cay_sandbox *out, struct cay_error *err);

/* jobs.c */
void cay_v1_shape_job(struct cay_json_writer *w, const char *key, const struct cay_job *job);
/* 202, and where to look. */
int cay_v1_answer_job(struct cay_req *req, struct cay_resp *resp, const char *id,
                      struct cay_error *err);

/* stream.c: an execution's log, as it grows. */
enum cay_v1_form { CAY_V1_TEXT, CAY_V1_SSE, CAY_V1_NDJSON, CAY_V1_SOCKET };

struct cay_v1_place {
    uint64_t offset;  /* of a record */
    uint64_t skip;    /* bytes of output behind it that are left out */
    char carry[2][4]; /* of stdout and stderr: the begun character before this place */
    unsigned carried[2];
};

/* As `id:` says it: the offset, and in hex what was held back: "4096", "4096.e282", "4096..f0". */
bool cay_v1_place_parse(const char *text, struct cay_v1_place *out);
enum cay_v1_form cay_v1_form_of(const struct cay_req *req);
const char *cay_v1_form_type(enum cay_v1_form form);

struct cay_v1_follow {
    enum cay_v1_form form;
    bool follow;               /* until it ends, not only what is there */
    bool named;                /* an event's id begins with the execution's, and a colon */
    enum cay_record_kind only; /* CAY_RECORD_PAD: both streams */
    struct cay_v1_place from;
};
/* Takes over the descriptor. */
struct cay_stream *cay_v1_follow(struct cay_core *core, const struct cay_execution *ex, int log_fd,
                                 const struct cay_v1_follow *how);
/* Answers with the stream and the headers it needs. */
int cay_v1_answer_stream(struct cay_resp *resp, const struct cay_execution *ex,
                         enum cay_v1_form form, struct cay_stream *stream);

/* Handlers that another dialect has under its own names. */
extern const struct cay_field cay_v1_logs_fields[], cay_v1_attach_fields[],
    cay_v1_terminal_fields[];
int cay_v1_logs_as(struct cay_req *req, struct cay_resp *resp, enum cay_v1_form form,
                   struct cay_error *err);
int cay_v1_attach(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
int cay_v1_terminal(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
int cay_v1_health(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);

/* exec.c: how it ended and what it wrote, at most limit bytes of each stream, into the object that
 * is open. */
void cay_v1_shape_result(struct cay_json_writer *w, const struct cay_execution *ex, int log_fd,
                         size_t limit);
/* SIGTERM, TERM or 15; NULL is SIGTERM. */
int cay_v1_decode_signal(const struct cay_json *v, int *out, struct cay_error *err);

/* output.c */
/* CAY_ERR_INVALID, field "offset", where no record begins. */
int cay_v1_check_place(int log_fd, const struct cay_v1_place *place, struct cay_error *err);
/* The place where the last `lines` lines begin. */
void cay_v1_tail(int log_fd, int64_t lines, struct cay_v1_place *out);
