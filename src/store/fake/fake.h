/* SPDX-License-Identifier: Apache-2.0 */
/* The store under tests: the real one in a directory of its own, that fails when it is told to. */
#pragma once
#include "store/store.h"

/* The n-th call from now on fails with CAY_ERR_STORE and does nothing; 0: none does. */
void cay_store_fake_fail_at(struct cay_store *s, int n);
