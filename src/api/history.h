/* SPDX-License-Identifier: Apache-2.0 */
/* Code history, as every dialect tells it: document 004, §13. */
#pragma once
#include "base/fields.h"
#include "http/response.h"

/* What their answers are, in the notation of api/schema.h. */
#define CAY_HISTORY_SCHEMAS                                                                        \
    {"History", "history [Version], full? boolean"},                                               \
        {"Version",                                                                                \
         "id string, commitId string, timestamp string, message string, files [string], "          \
         "fileCount? integer, leftOut? [string], leftOutCount? integer"},                          \
        {"Diff", "diff {string}"},                                                                 \
    {                                                                                              \
        "RolledBack", "status 'rolled_back', containerId string, executionId string, "             \
                      "commitId string, files [string]"                                            \
    }

extern const struct cay_field cay_history_diff_fields[], cay_history_back_fields[];
int cay_history_get(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
int cay_history_post_diff(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
int cay_history_post_back(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
int cay_history_get_bundle(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
