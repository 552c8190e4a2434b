/* SPDX-License-Identifier: Apache-2.0 */
/* A failing function returns a negative code and fills the error of whoever began the work. */
#pragma once
#include "base/attr.h"

enum cay_err {
    CAY_OK = 0,
    CAY_ERR_INVALID = -1, /* the request cannot be accepted as it is */
    CAY_ERR_NOT_FOUND = -2,
    CAY_ERR_FORBIDDEN = -3,
    CAY_ERR_CONFLICT = -4, /* fine in itself, not in the present state */
    CAY_ERR_LIMIT = -5,    /* a quota or a rate */
    CAY_ERR_TIMEOUT = -6,
    CAY_ERR_UNSUPPORTED = -7, /* this provider cannot do it */
    CAY_ERR_PROVIDER = -8,
    CAY_ERR_STORE = -9,
    CAY_ERR_INTERNAL = -10,
    CAY_ERR_UNAUTHORIZED = -11,
    CAY_ERR_TOO_LARGE = -12,
    CAY_ERR_MEDIA_TYPE = -13,    /* a body in a form that is not taken */
    CAY_ERR_UNAVAILABLE = -14,   /* not now: draining, overloaded, the engine is away */
    CAY_ERR_METHOD = -15,        /* the path is known, the method is not */
    CAY_ERR_MISDIRECTED = -16,   /* a Host that is not ours */
    CAY_ERR_UNPROCESSABLE = -17, /* understood, and contradicts what was said before */
    CAY_ERR_HOST_BUSY = -18,     /* the host has no process, memory or the like left for it */
    CAY_ERR_HOST_FULL = -19,     /* nor room on a disk of its own */
    CAY_ERR_LAST = CAY_ERR_HOST_FULL,
};

struct cay_error {
    enum cay_err code;
    const char *name; /* on the wire, static: "NAME_TAKEN"; NULL takes the code's own */
    char field[48];   /* the request field at fault, or empty */
    char msg[160];    /* what failed, as the caller knows it */
    char cause[320];  /* why, from below; empty when msg says it all */
    /* Of a quota that is used up, in its own unit; NULL: it is something else. */
    const char *quota;
    double limit, used;
    char tried[480]; /* what was tried and why it failed: "WHAT\tWHY\n"…; or empty */
};

/* Each fills err and returns its code, so that `return cay_fail(…)` is the whole error path.
 * cay_wrap puts a new sentence on top and moves the old one into cause; the code stays. */
int cay_fail(struct cay_error *err, enum cay_err code, const char *fmt, ...) CAY_PRINTF(3, 4);
int cay_fail_as(struct cay_error *err, enum cay_err code, const char *name, const char *fmt, ...)
    CAY_PRINTF(4, 5);
/* A field of the request is at fault: CAY_ERR_INVALID, VALIDATION_ERROR. */
int cay_fail_field(struct cay_error *err, const char *field, const char *fmt, ...) CAY_PRINTF(3, 4);
/* One more would pass a quota: CAY_ERR_LIMIT, QUOTA_EXCEEDED. */
int cay_fail_quota(struct cay_error *err, const char *quota, double limit, double used);
/* The cause is what errno says. If that is a want of the host's, whoever met it, it is no fault of
 * the provider, the store or ours: those codes become CAY_ERR_HOST_BUSY or CAY_ERR_HOST_FULL. */
int cay_fail_errno(struct cay_error *err, enum cay_err code, const char *fmt, ...) CAY_PRINTF(3, 4);
/* The same of a provider's thing that the kernel has a count of: it says of a full one what it says
 * of a full disk. */
int cay_fail_count(struct cay_error *err, const char *fmt, ...) CAY_PRINTF(2, 3);
int cay_wrap(struct cay_error *err, const char *fmt, ...) CAY_PRINTF(2, 3);
/* Names what holds the field at fault: with "commands[%zu]" cwd becomes commands[3].cwd. */
int cay_fail_inside(struct cay_error *err, const char *fmt, ...) CAY_PRINTF(2, 3);

/* One more that was tried; as many as fit. */
void cay_error_tried(struct cay_error *err, const char *what, const char *why);
/* The name on the wire: err->name, or the code's own ("NOT_FOUND"). */
const char *cay_error_name(const struct cay_error *err);
