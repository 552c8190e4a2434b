/* SPDX-License-Identifier: Apache-2.0 */
/* Random ids: sandboxes `sb-` + 20 of [a-z0-9], snapshots and volumes `sn-` and `vo-` + as many,
 * accounts, teams and keys `ac-`, `tm-` and `ky-`; executions `exec_` and batches `batch_` + 16 hex
 * digits. */
#pragma once
#include <stdbool.h>

#define CAY_ID_SIZE 24 /* either form and its NUL */

void cay_id_sandbox(char out[CAY_ID_SIZE]);
void cay_id_snapshot(char out[CAY_ID_SIZE]);
/* The volume of a sandbox: its own id with the other prefix, so that nobody need remember it. */
void cay_id_volume(char out[CAY_ID_SIZE], const char *sandbox_id);
void cay_id_account(char out[CAY_ID_SIZE]);
void cay_id_team(char out[CAY_ID_SIZE]);
void cay_id_key(char out[CAY_ID_SIZE]);
void cay_id_execution(char out[CAY_ID_SIZE]);
void cay_id_batch(char out[CAY_ID_SIZE]);
/* The same forms, made of 32 bytes that look random. */
void cay_id_sandbox_of(char out[CAY_ID_SIZE], const unsigned char seed[32]);
void cay_id_snapshot_of(char out[CAY_ID_SIZE], const unsigned char seed[32]);
void cay_id_execution_of(char out[CAY_ID_SIZE], const unsigned char seed[32]);
void cay_id_batch_of(char out[CAY_ID_SIZE], const unsigned char seed[32]);
void cay_id_hex(char *out, unsigned digits); /* digits + NUL */
bool cay_id_is_sandbox(const char *s);
bool cay_id_is_snapshot(const char *s);
bool cay_id_is_volume(const char *s);
bool cay_id_is_team(const char *s);
bool cay_id_is_execution(const char *s);
bool cay_id_is_batch(const char *s);
