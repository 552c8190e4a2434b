/* SPDX-License-Identifier: Apache-2.0 */
/* The log of the start command. */
#pragma once
#include "api/stream.h"
#include "base/fields.h"

extern const struct cay_field cay_api_logs_fields[];
int cay_api_logs_as(struct cay_req *req, struct cay_resp *resp, enum cay_api_form form,
                    struct cay_error *err);
