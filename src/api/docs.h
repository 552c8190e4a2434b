/* SPDX-License-Identifier: Apache-2.0 */
/* The page that shows the OpenAPI document to people: docs.html, built in. It loads nothing but
 * that document, and its policy lets it do nothing else. */
#pragma once
#include "http/response.h"

int cay_docs_page(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
