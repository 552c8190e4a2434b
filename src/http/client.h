/* SPDX-License-Identifier: Apache-2.0 */
/* A blocking HTTP/1.1 client on one kept-alive connection, for our own command line and for
 * providers that are asked by HTTP. One thread.
 *
 * Codes: CAY_ERR_UNAVAILABLE when there is no server ("NO_SERVER") or the connection broke
 * ("CONNECTION_LOST"), CAY_ERR_TIMEOUT when it was silent too long or the deadline passed,
 * CAY_ERR_CONFLICT "INTERRUPTED" when the interrupt descriptor became readable, CAY_ERR_PROVIDER
 * when the answer breaks the rules, CAY_ERR_TOO_LARGE when it is larger than asked for. An answer
 * with an error status is no failure here: look at its status. On https CAY_ERR_FORBIDDEN
 * "NOT_TRUSTED" when the server is not who it should be, CAY_ERR_PROVIDER "NO_TLS" when it does not
 * speak it. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "http/reply.h"
#include "http/wire.h"

#define CAY_CLIENT_CONNECT_MS 5000
#define CAY_CLIENT_IDLE_MS 120000
#define CAY_CLIENT_BODY_MAX (128u << 20)
#define CAY_CLIENT_ERROR_MAX (1u << 20) /* of an answer's body that is no 2xx */

struct cay_client;

struct cay_client_request {
    const char *method;
    const char *path;          /* with the query, encoded; put behind the URL's own path */
    const char *accept;        /* NULL: application/json */
    const char *last_event_id; /* or NULL */
    const char *body;          /* JSON; NULL none */
    size_t body_len;
    /* A body that comes in pieces instead: fills buf, len_out 0 is its end. It is sent once only,
     * and no further when the server answers before its end. more_length -1: it goes in chunks. */
    int (*more)(void *arg, char *buf, size_t room, size_t *len_out, struct cay_error *err);
    int64_t more_length;
    int64_t idle_ms;  /* longest silence; 0: CAY_CLIENT_IDLE_MS */
    int64_t until_ms; /* the monotonic clock's time by which all must be over; 0: no such time */
    /* Bytes of a 2xx answer as they come; NULL collects them. Negative results are passed on. */
    int (*on_data)(void *arg, const char *data, size_t len, struct cay_error *err);
    void *arg;
};

struct cay_client_answer {
    int status;
    char content_type[64];
    int64_t retry_after_s;
    struct cay_buf body; /* terminated; empty when on_data took it */
};

/* url: http[s]://HOST[:PORT][/PATH]; token may be NULL. Does not connect yet. */
int cay_client_new(const char *url, const char *token, struct cay_client **out,
                   struct cay_error *err);
void cay_client_free(struct cay_client *c);
/* Whom to trust on https: those signed by a certificate in this file, instead of by the system's.
 */
void cay_client_trust(struct cay_client *c, const char *ca);
/* On https: whom to trust, and who we are, as PEM. All are borrowed; the last two may be NULL. */
void cay_client_identify(struct cay_client *c, const char *ca, const char *cert, const char *key);
/* A wait for the server ends when this descriptor becomes readable; borrowed; -1 none. */
void cay_client_interrupt_on(struct cay_client *c, int fd);
/* The account on whose behalf the operator asks, by his socket. */
int cay_client_act_for(struct cay_client *c, const char *account, struct cay_error *err);
/* Uses this connected descriptor instead of connecting; takes it over. */
void cay_client_use_fd(struct cay_client *c, int fd);
/* Whenever it has to connect it asks for a connected descriptor here instead. */
void cay_client_dial_by(struct cay_client *c,
                        int (*dial)(void *arg, int *fd_out, struct cay_error *err), void *arg);
int cay_client_call(struct cay_client *c, const struct cay_client_request *req,
                    struct cay_client_answer *out, struct cay_error *err);
/* Asks for a WebSocket at path, on a connection of its own. Status 101: *wire_out is that
 * connection, the caller's from then on, and `more` has what came behind the answer. Any other
 * status: as of a call. */
int cay_client_upgrade(struct cay_client *c, const char *path, struct cay_client_answer *out,
                       struct cay_wire *wire_out, struct cay_buf *more, struct cay_error *err);
void cay_client_answer_done(struct cay_client_answer *answer);

#define CAY_AUTO_ANSWER CAY_CLEANUP(cay_client_answer_done)
