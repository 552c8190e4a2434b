/* SPDX-License-Identifier: Apache-2.0 */
/* The store under tests: the real one in a directory of its own, that fails when it is told to. */
#pragma once
#include "store/store.h"

/* The n-th call from now on fails with CAY_ERR_STORE and does nothing; 0: none does. */
void cay_store_fake_fail_at(struct cay_store *s, int n);
/* The same, and so do all that follow. */
void cay_store_fake_fail_from(struct cay_store *s, int n);
int cay_store_fake_failures(struct cay_store *s); /* how many have failed so */
/* How many updates and puts have asked to be on the disk when they return. */
int cay_store_fake_synced(struct cay_store *s);

/* Between the files of this folder: counts the call; the store behind, or NULL when it fails. */
struct cay_store *cay_store_fake_enter(struct cay_store *s, struct cay_error *err);
extern const struct cay_access_ops cay_fake_access;
