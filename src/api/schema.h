/* SPDX-License-Identifier: Apache-2.0 */
/* Types in one line of text, written out as JSON Schema.
 *
 *     string  integer  number  boolean  null  any      time is a string like
 * 2026-01-01T00:00:00.000Z 'running'        this string            Sandbox   the schema of that
 * name [string]         a list                 {string}  an object with such values string|null one
 * of several
 *
 * An object is its members: "id string, name? string|null": one with a ? may be absent. */
#pragma once
#include "base/fields.h"
#include "base/json.h"

struct cay_schema {
    const char *name;               /* NULL ends a table */
    const char *members;            /* as above; or */
    const struct cay_field *fields; /* the table that such a thing is decoded with */
};

void cay_schema_type(struct cay_json_writer *w, const char *key, const char *type, size_t len);
void cay_schema_members(struct cay_json_writer *w, const char *key, const char *members);
/* Unknown members are refused, unless the table is open. */
void cay_schema_table(struct cay_json_writer *w, const char *key, const struct cay_field *table);
/* One field of such a table. */
void cay_schema_field(struct cay_json_writer *w, const char *key, const struct cay_field *f);
