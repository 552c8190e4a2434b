/* SPDX-License-Identifier: Apache-2.0 */
/* An execution's log, as it grows. */
#pragma once
#include "core/service.h"
#include "http/response.h"
#include "log/reader.h"

enum cay_api_form { CAY_API_TEXT, CAY_API_SSE, CAY_API_NDJSON, CAY_API_SOCKET };

struct cay_api_place {
    uint64_t offset;  /* of a record */
    uint64_t skip;    /* bytes of output behind it that are left out */
    char carry[2][4]; /* of stdout and stderr: the begun character before this place */
    unsigned carried[2];
};

/* As `id:` says it: the offset, and in hex what was held back: "4096", "4096.e282", "4096..f0". */
bool cay_api_place_parse(const char *text, struct cay_api_place *out);
enum cay_api_form cay_api_form_of(const struct cay_req *req);
const char *cay_api_form_type(enum cay_api_form form);

struct cay_api_follow {
    enum cay_api_form form;
    bool follow;               /* until it ends, not only what is there */
    bool named;                /* an event's id begins with the execution's, and a colon */
    enum cay_record_kind only; /* CAY_RECORD_PAD: both streams */
    struct cay_api_place from;
};
/* Takes over the descriptor. */
struct cay_stream *cay_api_follow(struct cay_core *core, const struct cay_execution *ex, int log_fd,
                                  const struct cay_api_follow *how);
/* Answers with the stream and the headers it needs. */
int cay_api_answer_stream(struct cay_resp *resp, const struct cay_execution *ex,
                          enum cay_api_form form, struct cay_stream *stream);

/* CAY_ERR_INVALID, field "offset", where no record begins. */
int cay_api_check_place(int log_fd, const struct cay_api_place *place, struct cay_error *err);
/* The place where the last `lines` lines begin. */
void cay_api_tail(int log_fd, int64_t lines, struct cay_api_place *out);
