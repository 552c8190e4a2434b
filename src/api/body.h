/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of requests and answers that more than one dialect has. */
#pragma once
#include "base/fields.h"
#include "base/json.h"
#include "core/service.h"
#include "http/response.h"

/* The header Idempotency-Key, or what the body has as `key`; NULL when there is neither. */
int cay_api_once(struct cay_req *req, const char *key, const struct cay_once **out,
                 struct cay_error *err);
/* The answer that the request got when it came before; false when none is known. */
bool cay_api_answered(struct cay_resp *resp, int status, const struct cay_sandbox *made);
/* This one is for when it comes again. */
void cay_api_keep_answer(struct cay_req *req, const struct cay_resp *resp,
                         const struct cay_sandbox *made);
/* Times of a body with these members; -1 is absent. */
#define CAY_API_TIMEOUT_FIELDS(type)                                                               \
    CAY_FIELD_INT(type, timeout_minutes, "timeoutMinutes", .min = 0,                               \
                  .max = (double)(CAY_MAX_TIMEOUT_MS / 60000)),                                    \
        CAY_FIELD_INT(type, timeout_ms, "timeoutMs", .min = 0, .max = (double)CAY_MAX_TIMEOUT_MS)
/* ms, or else so many of a unit; false when both are absent. */
bool cay_api_time(int64_t ms, int64_t count, int64_t unit_ms, int64_t *out);
uint64_t cay_api_bytes(double count, double unit);
/* A delete's word on the workspace; absent, NULL, is neither of both. */
#define CAY_API_KEEP_FIELD(type, member)                                                           \
    CAY_FIELD_STR(type, member, "preserveVolume", .choices = cay_api_truths)
extern const char *const cay_api_truths[];
enum cay_workspace cay_api_workspace(const char *preserve_volume);
extern const char *const cay_api_tracks[]; /* off, files, workspace */
extern const char *const cay_api_pulls[];  /* always, missing, never */
/* Known, and not to be had yet: refused unless it is absent or says nothing. */
int cay_api_refuse(const struct cay_json *v, const char *field, struct cay_error *err);

/* A command: a string for the shell, or an array. text_out is NULL for an array. */
int cay_api_decode_command(struct cay_arena *a, const struct cay_json *v, const char *field,
                           struct cay_strs *argv_out, const char **text_out, struct cay_error *err);
/* The same as a start command, into the spec; "image" is the image's own. NULL: there is none. */
int cay_api_decode_start(struct cay_arena *a, const struct cay_json *v, struct cay_spec *spec,
                         struct cay_error *err);
/* {path: text | {base64}}, into the spec. */
int cay_api_decode_files(struct cay_arena *a, const struct cay_json *v, struct cay_exec_spec *spec,
                         struct cay_error *err);
/* SIGTERM, TERM or 15; NULL is SIGTERM. */
int cay_api_decode_signal(const struct cay_json *v, int *out, struct cay_error *err);
/* exitCode, signal, reason: null where nobody knows. */
void cay_api_shape_exit(struct cay_json_writer *w, const struct cay_execution *ex);
