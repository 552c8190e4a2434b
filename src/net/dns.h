/* SPDX-License-Identifier: Apache-2.0 */
/* DNS messages: the questions of sandboxes and our answers, our questions and the answers of the
 * resolver above. Bytes only; who asks and when is not known here. Over TCP two bytes of length
 * come before a message: they are the caller's. */
#pragma once
#include "net/name.h"
#include <netinet/in.h>
#include <stdint.h>

enum cay_dns_type {
    CAY_DNS_A = 1,
    CAY_DNS_CNAME = 5,
    CAY_DNS_SOA = 6,
    CAY_DNS_AAAA = 28,
    CAY_DNS_OPT = 41,
};

enum cay_dns_code {
    CAY_DNS_OK = 0,
    CAY_DNS_FORMAT = 1,
    CAY_DNS_FAILED = 2,   /* SERVFAIL: ask again later */
    CAY_DNS_NO_NAME = 3,  /* NXDOMAIN */
    CAY_DNS_NOT_DONE = 4, /* NOTIMP */
    CAY_DNS_REFUSED = 5,
};

#define CAY_DNS_QUESTION (255 + 4) /* bytes of the longest */

/* A question, with what is needed to answer it as it was asked. */
struct cay_dns_query {
    uint16_t id;
    uint16_t type;
    bool recursion;
    bool edns;
    uint16_t udp_bytes;                 /* the longest answer that it takes by UDP */
    char name[CAY_HOST_SIZE];           /* in its one form; empty: no name of a host */
    uint8_t question[CAY_DNS_QUESTION]; /* as it came: some check its spelling */
    size_t question_len;
};

/* Reads a question. CAY_DNS_OK, or the code to answer with, then with id (and what of the question
 * could be read) filled; -1 for what must not be answered at all. */
int cay_dns_query_read(const void *msg, size_t len, struct cay_dns_query *out);

struct cay_dns_reply {
    enum cay_dns_code code;
    uint32_t ttl_s;
    const struct in6_addr *addresses; /* IPv4 as ::ffff:…; those of another family are left out */
    size_t address_count;
};
/* Writes an answer of at most `cap` bytes (udp_bytes for UDP): what does not fit is left out and
 * the answer says that it is cut. Returns its length; 0 when cap is less than the question needs.
 */
size_t cay_dns_reply_write(const struct cay_dns_query *q, const struct cay_dns_reply *reply,
                           void *out, size_t cap);

/* Our own question, of the one form of a name, for A or AAAA. 0 when it is no name or does not fit.
 */
size_t cay_dns_query_write(uint16_t id, const char *name, uint16_t type, void *out, size_t cap);

struct cay_dns_found {
    enum cay_dns_code code;
    bool cut;       /* ask again by TCP */
    uint32_t ttl_s; /* the least of all records on the way; of "nothing there" too */
    struct in6_addr addresses[CAY_DNS_ADDRESSES];
    size_t address_count;
};
/* Reads the answer to such a question: follows aliases and gathers addresses. False for anything
 * that is not the whole and well-formed answer to this very question; out is not written then. */
bool cay_dns_reply_read(const void *msg, size_t len, uint16_t id, const char *name, uint16_t type,
                        struct cay_dns_found *out);
