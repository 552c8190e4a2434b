/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenAPI 3.1 document, and a page to read it.
 *
 * It is written out of the route tables and of the field tables that the handlers decode with, so
 * it cannot say anything else than what the server does. What a table does not hold stands in the
 * route's row, by CAY_DOC. Tests hold all of it: tests/api/openapi_test.c,
 * tests/e2e/test_openapi.py and tests/abuse. */
#pragma once
#include "api/schema.h"
#include "http/request.h"

struct cay_doc {
    const char *summary; /* one line */
    /* What comes back when all is well: "Sandbox" is 200 with that type (as in schema.h);
     * "201 Sandbox; 202 Sandbox", "Result, text/event-stream; 202 Execution", "text/plain", "101".
     * A status of an error stands there alone, when it is one of 5xx: "Sandbox; 501". Any error of
     * 4xx goes without saying, and so does 503. */
    const char *answer;
    const char *topic;             /* given by the first row of a table */
    const struct cay_field *query; /* what the handler decodes them with */
    const struct cay_field *body;
    const char *media;   /* of a body that is no JSON; NULL: application/octet-stream */
    const char *headers; /* that are heeded: "Range, If-Match" */
    /* An example that a test runs: with the parameters of `ask` ("path=hello.txt"), and `send` as
     * its body. In JSON, ' stands for ". Path parameters are filled in by who runs it. */
    const char *ask, *send;
};

#define CAY_DOC(text, gives, ...)                                                                  \
    &(const struct cay_doc)                                                                        \
    {                                                                                              \
        .summary = text, .answer = gives, __VA_ARGS__                                              \
    }

struct cay_dialect {
    const char *prefix; /* of its patterns */
    const struct cay_schema *schemas;
    const char *error; /* which of them an error has */
    /* Tells one in that form. */
    void (*tell)(const struct cay_req *req, const struct cay_error *err, struct cay_resp *resp);
};

/* Whose the route is: the one with the longest prefix. */
const struct cay_dialect *cay_openapi_dialect(const struct cay_route *route);
extern const struct cay_route cay_openapi_routes[];
