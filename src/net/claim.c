/* SPDX-License-Identifier: Apache-2.0 */
/* A view is what is left to read; every length is held against it before a byte is touched. The
 * handshake is gathered out of its records first, because a ClientHello may be cut anywhere. */
#include "net/claim.h"
#include <string.h>

struct view {
    const uint8_t *at;
    size_t len;
};

static bool take(struct view *v, size_t len, struct view *out)
{
    if (len > v->len)
        return false;
    *out = (struct view){v->at, len};
    v->at += len;
    v->len -= len;
    return true;
}

static bool take_number(struct view *v, size_t bytes, size_t *out)
{
    struct view number;
    if (!take(v, bytes, &number))
        return false;
    *out = 0;
    for (size_t i = 0; i < bytes; i++)
        *out = *out << 8 | number.at[i];
    return true;
}

/* A vector with its length before it. */
static bool take_vector(struct view *v, size_t length_bytes, struct view *out)
{
    size_t len;
    return take_number(v, length_bytes, &len) && take(v, len, out);
}

/* TLS */

#define TLS_CLIENT_HELLO 1
#define TLS_FIRST_TYPE 20 /* of a record, and the last */
#define TLS_LAST_TYPE 24
#define TLS_SERVER_NAME 0

static enum cay_claim_result read_server_names(struct view v, struct cay_claim *out)
{
    struct view list, name;
    size_t type;
    if (!take_vector(&v, 2, &list) || v.len > 0)
        return CAY_CLAIM_BAD;
    if (!take_number(&list, 1, &type) || type != 0 || !take_vector(&list, 2, &name) || list.len > 0)
        return CAY_CLAIM_BAD; /* one name of a host, and no more: as every client sends it */
    if (cay_host_read((const char *)name.at, name.len, out->name))
        return CAY_CLAIM_NAMED;
    for (size_t i = 0; i < name.len; i++)
        if (!memchr("0123456789abcdefABCDEF:.", name.at[i], 24))
            return CAY_CLAIM_BAD; /* nor an address, which some say although they should not */
    return CAY_CLAIM_NONE;
}

static enum cay_claim_result read_extensions(struct view list, struct cay_claim *out)
{
    enum cay_claim_result result = CAY_CLAIM_NONE;
    bool seen = false;
    while (list.len > 0) {
        struct view body;
        size_t type;
        if (!take_number(&list, 2, &type) || !take_vector(&list, 2, &body))
            return CAY_CLAIM_BAD;
        if (type != TLS_SERVER_NAME)
            continue;
        if (seen)
            return CAY_CLAIM_BAD;
        seen = true;
        result = read_server_names(body, out);
        if (result == CAY_CLAIM_BAD)
            return result;
    }
    return result;
}

static enum cay_claim_result read_hello(struct view v, struct cay_claim *out)
{
    struct view skipped, extensions;
    if (!take(&v, 2 + 32, &skipped) ||   /* version, random */
        !take_vector(&v, 1, &skipped) || /* session */
        !take_vector(&v, 2, &skipped) || /* ciphers */
        !take_vector(&v, 1, &skipped))   /* compression */
        return CAY_CLAIM_BAD;
    if (v.len == 0)
        return CAY_CLAIM_NONE;
    if (!take_vector(&v, 2, &extensions) || v.len > 0)
        return CAY_CLAIM_BAD;
    return read_extensions(extensions, out);
}

/* The handshake's bytes out of the records, as far as they have come. Some read records of any
 * version. */
static bool gather(struct view v, uint8_t *out, size_t *len_out)
{
    size_t len = 0, type, version, size;
    while (v.len > 0) {
        if (!take_number(&v, 1, &type))
            break;
        if (type != CAY_CLAIM_TLS_BYTE)
            return false;
        if (!take_number(&v, 2, &version) || !take_number(&v, 2, &size))
            break;
        if (size == 0 || size > CAY_CLAIM_MAX)
            return false;
        struct view part;
        (void)take(&v, size < v.len ? size : v.len, &part); /* what is there of it */
        memcpy(out + len, part.at, part.len);
        len += part.len;
        size_t hello = len < 4 ? SIZE_MAX : (size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3];
        if (len >= 4 && (hello > CAY_CLAIM_MAX || len >= 4 + hello))
            break; /* what comes behind it is not looked at */
    }
    *len_out = len;
    return true;
}

/* Another record amid the hello, an empty one, one too long: some read on. What has no version that
 * anybody takes for TLS's need not be TLS at all. */
static enum cay_claim_result read_tls(struct view v, struct cay_claim *out)
{
    uint8_t bytes[CAY_CLAIM_MAX];
    struct view handshake = {bytes, 0}, hello;
    size_t type, size;
    const enum cay_claim_result odd = v.len > 1 && v.at[1] < 0x10 ? CAY_CLAIM_BAD : CAY_CLAIM_NONE;
    if (!gather(v, bytes, &handshake.len))
        return odd;
    if (!take_number(&handshake, 1, &type))
        return CAY_CLAIM_MORE;
    if (type != TLS_CLIENT_HELLO)
        return CAY_CLAIM_NONE;
    out->protocol = CAY_CLAIM_TLS;
    if (!take_number(&handshake, 3, &size))
        return CAY_CLAIM_MORE;
    if (size > CAY_CLAIM_MAX)
        return odd;
    if (!take(&handshake, size, &hello))
        return CAY_CLAIM_MORE;
    enum cay_claim_result result = read_hello(hello, out);
    return result == CAY_CLAIM_BAD ? odd : result;
}

static enum cay_claim_result read_http(struct view v, bool ended, struct cay_claim *out)
{
    switch (cay_request_read(v.at, v.len, ended, &out->request)) {
    case CAY_REQUEST_MORE:
        return CAY_CLAIM_MORE;
    case CAY_REQUEST_NOT:
        return CAY_CLAIM_NONE;
    case CAY_REQUEST_BAD:
        return CAY_CLAIM_BAD;
    case CAY_REQUEST_WHOLE:
        break;
    }
    out->protocol = CAY_CLAIM_HTTP;
    memcpy(out->name, out->request.host, sizeof out->name);
    return out->name[0] ? CAY_CLAIM_NAMED : CAY_CLAIM_NONE;
}

/* Some servers pass over an alert that only warns, and read the hello behind it. */
static enum cay_claim_result read_other_record(struct view v)
{
    if (v.len < 2)
        return CAY_CLAIM_MORE;
    return v.at[1] == 3 ? CAY_CLAIM_BAD : CAY_CLAIM_NONE;
}

enum cay_claim_result cay_claim_read(const void *data, size_t len, bool ended,
                                     struct cay_claim *out)
{
    struct view v = {data, len < CAY_CLAIM_MAX ? len : CAY_CLAIM_MAX};
    struct cay_claim claim = {0};
    enum cay_claim_result result = CAY_CLAIM_MORE;
    ended = ended && len < CAY_CLAIM_MAX; /* else there is more, that is not seen here */
    if (v.len > 0 && v.at[0] == CAY_CLAIM_TLS_BYTE)
        result = read_tls(v, &claim);
    else if (v.len > 0 && v.at[0] >= TLS_FIRST_TYPE && v.at[0] <= TLS_LAST_TYPE)
        result = read_other_record(v);
    else if (v.len > 0)
        result = read_http(v, ended, &claim);
    if (result == CAY_CLAIM_MORE && v.len == CAY_CLAIM_MAX)
        result = CAY_CLAIM_BAD; /* others may read on, and find a name */
    if (result == CAY_CLAIM_MORE && ended)
        result = CAY_CLAIM_NONE;
    if (result != CAY_CLAIM_MORE)
        *out = claim;
    return result;
}
