/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of a data directory: 256 random bits in a file that only the server reads. */
#pragma once
#include "base/error.h"
#include <stdint.h>

#define CAY_SECRET_SIZE 32

/* Reads it, or makes it at the first start. */
int cay_secret_open(int data_fd, const char *name, uint8_t out[CAY_SECRET_SIZE],
                    struct cay_error *err);
