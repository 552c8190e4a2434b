/* SPDX-License-Identifier: Apache-2.0 */
/* A view is what is left to read; every length is held against it before a byte is touched. The
 * handshake is gathered out of its records first, because a ClientHello may be cut anywhere. */
#include "net/claim.h"
#include <string.h>
#include <strings.h>

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

#define TLS_HANDSHAKE 22
#define TLS_CLIENT_HELLO 1
#define TLS_SERVER_NAME 0

static enum cay_claim_result read_server_names(struct view v, struct cay_claim *out)
{
    struct view list, name;
    size_t type;
    if (!take_vector(&v, 2, &list) || v.len > 0)
        return CAY_CLAIM_BAD;
    if (!take_number(&list, 1, &type) || type != 0 || !take_vector(&list, 2, &name) || list.len > 0)
        return CAY_CLAIM_BAD; /* one name of a host, and no more: as every client sends it */
    return cay_host_read((const char *)name.at, name.len, out->name) ? CAY_CLAIM_NAMED
                                                                     : CAY_CLAIM_NONE;
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

/* The handshake's bytes out of the records, as far as they have come. */
static bool gather(struct view v, uint8_t *out, size_t *len_out)
{
    size_t len = 0, type, version, size;
    while (v.len > 0) {
        if (!take_number(&v, 1, &type))
            break;
        if (type != TLS_HANDSHAKE)
            return false;
        if (!take_number(&v, 2, &version))
            break;
        if (version >> 8 != 3)
            return false;
        if (!take_number(&v, 2, &size))
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

static enum cay_claim_result read_tls(struct view v, struct cay_claim *out)
{
    uint8_t bytes[CAY_CLAIM_MAX];
    struct view handshake = {bytes, 0}, hello;
    size_t type, size;
    if (!gather(v, bytes, &handshake.len))
        return CAY_CLAIM_NONE;
    if (!take_number(&handshake, 1, &type))
        return CAY_CLAIM_MORE;
    if (type != TLS_CLIENT_HELLO)
        return CAY_CLAIM_NONE;
    out->protocol = CAY_CLAIM_TLS;
    if (!take_number(&handshake, 3, &size))
        return CAY_CLAIM_MORE;
    if (size > CAY_CLAIM_MAX)
        return CAY_CLAIM_BAD;
    return take(&handshake, size, &hello) ? read_hello(hello, out) : CAY_CLAIM_MORE;
}

/* HTTP */

/* The host of "host", "host:80" or "[::1]:80". */
static enum cay_claim_result read_authority(struct view v, struct cay_claim *out)
{
    const uint8_t *colon = memchr(v.at, ':', v.len);
    size_t len = colon ? (size_t)(colon - v.at) : v.len;
    return cay_host_read((const char *)v.at, len, out->name) ? CAY_CLAIM_NAMED : CAY_CLAIM_NONE;
}

static bool take_line(struct view *v, struct view *out)
{
    const uint8_t *end = memchr(v->at, '\n', v->len);
    if (!end || !take(v, (size_t)(end - v->at) + 1, out))
        return false;
    out->len--;
    if (out->len > 0 && out->at[out->len - 1] == '\r')
        out->len--;
    return true;
}

static struct view trimmed(struct view v)
{
    while (v.len > 0 && (v.at[0] == ' ' || v.at[0] == '\t')) {
        v.at++;
        v.len--;
    }
    while (v.len > 0 && (v.at[v.len - 1] == ' ' || v.at[v.len - 1] == '\t'))
        v.len--;
    return v;
}

static bool begins(struct view v, const char *text)
{
    return v.len >= strlen(text) && strncasecmp((const char *)v.at, text, strlen(text)) == 0;
}

/* "GET http://host/path HTTP/1.1" has the host in its target; "GET /path" has none. */
static bool target_host(struct view line, struct view *out)
{
    const uint8_t *space = memchr(line.at, ' ', line.len);
    struct view v = {space + 1, line.len - (size_t)(space - line.at) - 1};
    if (!begins(v, "http://"))
        return false;
    v.at += 7;
    v.len -= 7;
    size_t len = 0;
    while (len < v.len && !memchr("/?# ", v.at[len], 4))
        len++;
    *out = (struct view){v.at, len};
    return true;
}

static bool same(struct view a, struct view b)
{
    return a.len == b.len && strncasecmp((const char *)a.at, (const char *)b.at, a.len) == 0;
}

static enum cay_claim_result read_headers(struct view v, struct view line, struct cay_claim *out)
{
    struct view host = {0};
    bool named = target_host(line, &host), ended = false;
    while (take_line(&v, &line)) {
        ended = line.len == 0;
        if (ended)
            break;
        if (line.at[0] == ' ' || line.at[0] == '\t')
            return CAY_CLAIM_BAD; /* folded: some join it, some do not */
        if (!begins(line, "host") || line.len < 5 || !memchr(" \t:", line.at[4], 3))
            continue;
        if (line.at[4] != ':')
            return CAY_CLAIM_BAD;
        struct view value = trimmed((struct view){line.at + 5, line.len - 5});
        if (named && !same(host, value))
            return CAY_CLAIM_BAD;
        named = true;
        host = value;
    }
    if (!ended) /* a second Host may come */
        return CAY_CLAIM_MORE;
    return named ? read_authority(host, out) : CAY_CLAIM_NONE;
}

/* "GET /path HTTP/1.1": a method of capitals, and a version that we know. */
static bool is_request(struct view line)
{
    static const char version[] = " HTTP/1.";
    size_t method = 0;
    while (method < line.len && line.at[method] >= 'A' && line.at[method] <= 'Z')
        method++;
    size_t tail = strlen(version) + 1;
    return method > 0 && method < line.len && line.at[method] == ' ' && line.len > method + tail &&
           memcmp(line.at + line.len - tail, version, tail - 1) == 0;
}

static enum cay_claim_result read_http(struct view v, struct cay_claim *out)
{
    struct view line;
    size_t method = 0;
    while (method < v.len && v.at[method] >= 'A' && v.at[method] <= 'Z')
        method++;
    if (method > 32 || (method < v.len && v.at[method] != ' '))
        return CAY_CLAIM_NONE;
    if (!take_line(&v, &line))
        return CAY_CLAIM_MORE;
    if (!is_request(line))
        return CAY_CLAIM_NONE;
    out->protocol = CAY_CLAIM_HTTP;
    return read_headers(v, line, out);
}

enum cay_claim_result cay_claim_read(const void *data, size_t len, bool ended,
                                     struct cay_claim *out)
{
    struct view v = {data, len < CAY_CLAIM_MAX ? len : CAY_CLAIM_MAX};
    struct cay_claim claim = {0};
    enum cay_claim_result result = CAY_CLAIM_MORE;
    if (v.len > 0 && v.at[0] == TLS_HANDSHAKE)
        result = read_tls(v, &claim);
    else if (v.len > 0)
        result = v.at[0] >= 'A' && v.at[0] <= 'Z' ? read_http(v, &claim) : CAY_CLAIM_NONE;
    if (result == CAY_CLAIM_MORE && (ended || v.len == CAY_CLAIM_MAX))
        result = CAY_CLAIM_NONE;
    if (result != CAY_CLAIM_MORE)
        *out = claim;
    return result;
}
