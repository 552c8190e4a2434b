/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that come in from outside, perhaps in several goes, held against their size and digest. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "model/image.h"
#include <openssl/evp.h>

struct cay_intake {
    /* The caller's: */
    uint64_t size; /* that it must have; at most so much when nobody knows it: */
    bool open;
    struct cay_buf *text;                  /* where it goes; NULL: */
    int fd;                                /* here, from the file's beginning */
    uint64_t keep_free;                    /* bytes that others need on that disk */
    bool (*step)(void *arg, int64_t more); /* as struct cay_registry_watch */
    void *arg;
    /* Ours: */
    EVP_MD_CTX *sum;
    uint64_t got, looked; /* so far the disk was seen to have room */
    bool fresh;           /* an answer begins */
    const char *broken;   /* why it was ended; NULL: not by its own fault */
    int error;            /* of the file */
};

void cay_intake_init(struct cay_intake *in); /* the caller's members are set */
void cay_intake_done(struct cay_intake *in);
/* All of it from the beginning again. */
void cay_intake_restart(struct cay_intake *in);
/* As `data` of struct cay_web_request; a new answer goes on where the last one was cut, or begins
 * again.
 */
bool cay_intake_take(void *in, uint64_t from, const char *bytes, size_t len);
bool cay_intake_go_on(void *in);
/* Why it was ended by us: CAY_ERR_UNPROCESSABLE, "BAD_REGISTRY"; CAY_ERR_LIMIT, "DISK_FULL"; 0 when
 * it was not. */
int cay_intake_problem(const struct cay_intake *in, struct cay_error *err);
/* Of what came; it goes on from here only after a restart. */
void cay_intake_digest(struct cay_intake *in, char out[CAY_DIGEST_HEX + 1]);

#define CAY_AUTO_INTAKE CAY_CLEANUP(cay_intake_done)
