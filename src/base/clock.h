/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int64_t cay_clock_ms(void); /* wall clock, since 1970 */
int64_t cay_clock_mono_ms(void);
int64_t cay_clock_booted_at_ms(void);
/* by the present wall clock */ /* for waits and durations; never jumps */
int64_t cay_clock_mono_us(void);

#define CAY_ISO_SIZE 25 /* 2026-11-15T09:48:00.123Z and its NUL */
const char *cay_clock_iso(int64_t time_ms, char out[CAY_ISO_SIZE]);
/* Reads exactly that form back. */
bool cay_clock_parse(const char *iso, int64_t *out);
