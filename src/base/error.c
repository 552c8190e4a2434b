/* SPDX-License-Identifier: Apache-2.0 */
/* Filling errors. A sentence is formatted aside first: its arguments may point into the error. */
#include "base/error.h"
#include "base/str.h"
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum cay_err code;
    const char *name;
} names[] = {
    {CAY_OK, "OK"},
    {CAY_ERR_INVALID, "VALIDATION_ERROR"},
    {CAY_ERR_NOT_FOUND, "NOT_FOUND"},
    {CAY_ERR_FORBIDDEN, "FORBIDDEN"},
    {CAY_ERR_CONFLICT, "CONFLICT"},
    {CAY_ERR_LIMIT, "LIMIT_EXCEEDED"},
    {CAY_ERR_TIMEOUT, "TIMEOUT"},
    {CAY_ERR_UNSUPPORTED, "UNSUPPORTED"},
    {CAY_ERR_PROVIDER, "PROVIDER_ERROR"},
    {CAY_ERR_STORE, "DATABASE_ERROR"},
    {CAY_ERR_INTERNAL, "INTERNAL_ERROR"},
    {CAY_ERR_UNAUTHORIZED, "UNAUTHORIZED"},
    {CAY_ERR_TOO_LARGE, "PAYLOAD_TOO_LARGE"},
    {CAY_ERR_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE"},
    {CAY_ERR_UNAVAILABLE, "SERVICE_UNAVAILABLE"},
    {CAY_ERR_METHOD, "METHOD_NOT_ALLOWED"},
    {CAY_ERR_MISDIRECTED, "MISDIRECTED_REQUEST"},
    {CAY_ERR_HOST_BUSY, "HOST_BUSY"},
    {CAY_ERR_HOST_FULL, "HOST_DISK_FULL"},
};

/* Copies with truncation between characters: the text may be the caller's, and in any script. */
static void put(char *dst, size_t size, const char *src)
{
    size_t len = strlen(src);
    if (len >= size)
        len = cay_str_utf8_whole(src, size - 1);
    memcpy(dst, src, len);
    dst[len] = 0;
}

static void fill(struct cay_error *err, enum cay_err code, const char *name, const char *fmt,
                 va_list args)
{
    char msg[2 * sizeof err->msg];
    (void)vsnprintf(msg, sizeof msg, fmt, args); /* truncation is fine */
    err->code = code;
    err->name = name;
    err->field[0] = err->cause[0] = err->tried[0] = 0;
    err->quota = NULL;
    put(err->msg, sizeof err->msg, msg);
}

int cay_fail(struct cay_error *err, enum cay_err code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, code, NULL, fmt, args);
    va_end(args);
    return code;
}

int cay_fail_as(struct cay_error *err, enum cay_err code, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, code, name, fmt, args);
    va_end(args);
    return code;
}

int cay_fail_field(struct cay_error *err, const char *field, const char *fmt, ...)
{
    char aside[sizeof err->field];
    va_list args;
    put(aside, sizeof aside, field);
    va_start(args, fmt);
    fill(err, CAY_ERR_INVALID, "VALIDATION_ERROR", fmt, args);
    va_end(args);
    put(err->field, sizeof err->field, aside);
    return CAY_ERR_INVALID;
}

int cay_fail_quota(struct cay_error *err, const char *quota, double limit, double used)
{
    int r = cay_fail_as(err, CAY_ERR_LIMIT, "QUOTA_EXCEEDED",
                        "the quota of %s is %.15g, and %.15g of it are in use", quota, limit, used);
    err->quota = quota;
    err->limit = limit;
    err->used = used;
    return r;
}

/* What an errno says of the host; 0: nothing. A quota is not the host's. */
static enum cay_err want(int number)
{
    switch (number) {
    case EAGAIN:
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
    case EUSERS:
        return CAY_ERR_HOST_BUSY;
    case ENOSPC:
        return CAY_ERR_HOST_FULL;
    default:
        return CAY_OK;
    }
}

static int fill_errno(struct cay_error *err, enum cay_err code, int number, const char *fmt,
                      va_list args)
{
    bool blames = code == CAY_ERR_PROVIDER || code == CAY_ERR_STORE || code == CAY_ERR_INTERNAL;
    if (blames && want(number) != CAY_OK)
        code = want(number);
    fill(err, code, NULL, fmt, args);
    put(err->cause, sizeof err->cause, strerror(number));
    errno = number;
    return code;
}

int cay_fail_errno(struct cay_error *err, enum cay_err code, const char *fmt, ...)
{
    int number = errno;
    va_list args;
    va_start(args, fmt);
    int r = fill_errno(err, code, number, fmt, args);
    va_end(args);
    return r;
}

int cay_fail_count(struct cay_error *err, const char *fmt, ...)
{
    int number = errno == ENOSPC ? EAGAIN : errno;
    va_list args;
    va_start(args, fmt);
    int r = fill_errno(err, CAY_ERR_PROVIDER, number, fmt, args);
    va_end(args);
    return r;
}

int cay_fail_inside(struct cay_error *err, const char *fmt, ...)
{
    char field[sizeof err->field];
    va_list args;
    memcpy(field, err->field, sizeof field);
    va_start(args, fmt);
    (void)vsnprintf(err->field, sizeof err->field, fmt, args); /* as much as fits, here and below */
    va_end(args);
    size_t len = strlen(err->field);
    if (field[0] && len + 1 < sizeof err->field) {
        err->field[len++] = '.';
        cay_str_copy(err->field + len, sizeof err->field - len, field);
    }
    return err->code;
}

int cay_wrap(struct cay_error *err, const char *fmt, ...)
{
    char msg[2 * sizeof err->msg], cause[sizeof err->msg + sizeof err->cause + 2];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    (void)snprintf(cause, sizeof cause, "%s%s%s", err->msg, err->cause[0] ? ": " : "", err->cause);
    put(err->msg, sizeof err->msg, msg);
    put(err->cause, sizeof err->cause, cause);
    return err->code;
}

void cay_error_tried(struct cay_error *err, const char *what, const char *why)
{
    size_t len = strlen(err->tried), room = sizeof err->tried - len;
    int n = snprintf(err->tried + len, room, "%s\t%s\n", what, why);
    if (n < 0 || (size_t)n >= room)
        err->tried[len] = 0; /* half of it would be another one */
}

const char *cay_error_name(const struct cay_error *err)
{
    if (err->name)
        return err->name;
    for (size_t i = 0; i < CAY_COUNT(names); i++)
        if (names[i].code == err->code)
            return names[i].name;
    return "INTERNAL_ERROR";
}
