/* SPDX-License-Identifier: Apache-2.0 */
/* A provider in memory, for the tests of every layer above. Commands end at once with a canned log:
 *
 *   ["exit", "3"]   exits with 3
 *   ["sleep", …]    runs until it is killed, stopped or destroyed
 *   ["write", "x"]  puts a word into the root and into the workspace
 *   ["read"]        prints the word of the root and the word of the workspace
 *   anything else   prints its arguments, separated by blanks, and exits with 0
 *
 * Every image is there whose name does not begin with `missing`. There are recipes for two of
 * those: `missing-built`, and `missing-broken`, which fails.
 *
 * A sandbox uses half of one core, paused or not. */
#pragma once
#include "provider/provider.h"

struct cay_provider *cay_provider_fake_new(struct cay_queue *events);
/* The n-th call from now on (1 is the next) fails with CAY_ERR_PROVIDER and does nothing; 0 never.
 * Destroys can be left out of the count, for undo that must work. */
void cay_provider_fake_fail_at(struct cay_provider *p, int n);
void cay_provider_fake_spare_destroy(struct cay_provider *p, bool spare);
/* Disk that is free; 0, as at first, cannot be told. */
void cay_provider_fake_set_room(struct cay_provider *p, uint64_t bytes);
/* True when the failure that was ordered has happened. */
bool cay_provider_fake_failed(struct cay_provider *p);
size_t cay_provider_fake_count(struct cay_provider *p);
bool cay_provider_fake_runs(struct cay_provider *p, const char *id);
/* What happens behind our back. */
void cay_provider_fake_die(struct cay_provider *p, const char *id, const char *reason, bool tell);
void cay_provider_fake_vanish(struct cay_provider *p, const char *id);
void cay_provider_fake_add(struct cay_provider *p, const char *id, int64_t started_at_ms);
void cay_provider_fake_oom(struct cay_provider *p, const char *id, const char *exec_id);
void cay_provider_fake_keep(struct cay_provider *p, const char *kept_id);
/* What a file operation answers, to the letter; borrowed. At first nothing, but to STAT
 * of a path that ends in `/.`: all is there but the user `nobody-here` and /nowhere. */
void cay_provider_fake_file_says(struct cay_provider *p, const void *data, size_t len);
size_t cay_provider_fake_kept_count(struct cay_provider *p); /* those a sandbox has, too */
/* It needs so much memory; and what it may have. */
void cay_provider_fake_hold(struct cay_provider *p, const char *id, uint64_t bytes);
uint64_t cay_provider_fake_memory(struct cay_provider *p, const char *id);
/* It uses no processor any more; or one core at each look. */
void cay_provider_fake_quiet(struct cay_provider *p, const char *id);
void cay_provider_fake_busy(struct cay_provider *p, const char *id);
/* Its disk is full from now on. */
void cay_provider_fake_full(struct cay_provider *p, const char *id);
/* Builds do not end until they are let go; and how many were begun. */
void cay_provider_fake_hold_builds(struct cay_provider *p, bool hold);
int cay_provider_fake_builds(struct cay_provider *p);
