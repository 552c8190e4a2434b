/* SPDX-License-Identifier: Apache-2.0 */
/* Is all well, and if not, what to do about it. */
#pragma once
#include "http/response.h"

int cay_api_health(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
