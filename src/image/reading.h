/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the folder: reading strangers' JSON. */
#pragma once
#include "base/error.h"
#include "base/json.h"

int cay_image_bad(struct cay_error *err, const char *what); /* BAD_IMAGE */
/* "" where it is missing or null; another type is an error. */
int cay_image_str(const struct cay_json *object, const char *key, const char **out,
                  struct cay_error *err);
