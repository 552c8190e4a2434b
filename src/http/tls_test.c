/* SPDX-License-Identifier: Apache-2.0 */
/* The server and the client under TLS, with each other and with those who break the rules. */
#include "base/clock.h"
#include "base/packet.h"
#include "http/client.h"
#include "http/tls.h"
#include "http/toy_test.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define UPLOAD (3 * 1000 * 1000 + 1)

struct identity {
    char ca[256]; /* the certificate, a file: signed by itself */
    char cert[4096], key[4096];
    int fd; /* as a server takes it */
};

static void add_names(X509 *x, const char *names)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
    CHECK_EQ("names", X509_add_ext(x, e, -1), 1);
    X509_EXTENSION_free(e);
}

static void write_pem(struct identity *id, const char *file, X509 *x, EVP_PKEY *key)
{
    FILE *f = fopen(file, "w");
    (void)snprintf(id->ca, sizeof id->ca, "%s", file);
    CHECK_EQ("a certificate file", PEM_write_X509(f, x), 1);
    (void)fclose(f);
    BIO *out = BIO_new(BIO_s_mem());
    CHECK_EQ("a certificate", PEM_write_bio_X509(out, x), 1);
    id->cert[BIO_read(out, id->cert, sizeof id->cert - 1)] = 0;
    CHECK_EQ("a key", PEM_write_bio_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
    id->key[BIO_read(out, id->key, sizeof id->key - 1)] = 0;
    BIO_free(out);
}

/* names as "DNS:localhost,IP:127.0.0.1". */
static void make_identity(struct identity *id, const char *title, const char *names)
{
    char file[256];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    (void)X509_set_version(x, 2);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(x), -60);
    (void)X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    (void)X509_set_pubkey(x, key);
    X509_NAME *name = X509_get_subject_name(x);
    (void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)title, -1, -1,
                                     0);
    (void)X509_set_issuer_name(x, name);
    add_names(x, names);
    CHECK("signed", X509_sign(x, key, EVP_sha256()) > 0);
    (void)snprintf(file, sizeof file, "%s/%s.pem", test_dir(), title);
    write_pem(id, file, x, key);
    X509_free(x);
    EVP_PKEY_free(key);
    (void)snprintf(file, sizeof file, "%s/%s.both", test_dir(), title);
    id->fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK("both", write(id->fd, id->cert, strlen(id->cert) + 1) > 0 &&
                      write(id->fd, id->key, strlen(id->key)) > 0);
}

static void open_toy(struct toy *t, struct identity *id, int workers, const char *names)
{
    make_identity(id, "one", names);
    toy_init_tls(t, workers, id->fd, 0);
    toy_start(t);
}

static void close_toy(struct toy *t, struct identity *id)
{
    toy_stop(t);
    cay_close_fd(&id->fd);
}

static struct cay_client *new_client(const struct toy *t, const char *host, const char *ca)
{
    char url[64];
    struct cay_error err;
    struct cay_client *c = NULL;
    (void)snprintf(url, sizeof url, "https://%s:%d", host, t->port);
    CHECK_EQ("a client", cay_client_new(url, NULL, &c, &err), 0);
    cay_client_trust(c, ca);
    return c;
}

static int get(struct cay_client *c, const char *path, struct cay_client_answer *out,
               struct cay_error *err)
{
    struct cay_client_request req = {.method = "GET", .path = path, .idle_ms = 5000};
    return cay_client_call(c, &req, out, err);
}

static void check_hello(const char *what, struct cay_client *c)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_error err = {0};
    CHECK_EQ(what, get(c, "/hello", &answer, &err), 0);
    CHECK_EQ(what, answer.status, 200);
    CHECK(what, answer.body.data && strcmp(answer.body.data, "hello") == 0);
}

TEST(tls_carries_answers_of_every_size)
{
    struct identity id;
    struct toy t;
    open_toy(&t, &id, 2, "DNS:localhost,IP:127.0.0.1");
    struct cay_client *c = new_client(&t, "localhost", id.ca);
    check_hello("the first", c);
    check_hello("on the same connection", c);
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_error err = {0};
    CHECK_STR("more than sockets hold", get(c, "/big", &answer, &err) < 0 ? err.msg : "", "");
    CHECK_EQ("all of it", answer.body.len, 32 * CAY_MIB);
    CHECK("to its end", answer.body.len && answer.body.data[answer.body.len - 1] == 'b');
    check_hello("after it", c);
    cay_client_free(c);
    c = new_client(&t, "127.0.0.1", id.ca);
    check_hello("by its address", c);
    cay_client_free(c);
    close_toy(&t, &id);
}

static int give_pieces(void *arg, char *buf, size_t room, size_t *len_out, struct cay_error *err)
{
    size_t *left = arg;
    (void)err;
    *len_out = room < *left ? room : *left;
    memset(buf, 'u', *len_out);
    *left -= *len_out;
    return 0;
}

static void *drain(void *arg)
{
    struct toy *t = arg;
    char data[65536];
    size_t *total = calloc(1, sizeof *total);
    CHECK("it is taken", toy_until(toy_taken, 1));
    for (struct pollfd fd = {.fd = t->sink_fd, .events = POLLIN}; poll(&fd, 1, 5000) > 0;) {
        ssize_t n = read(t->sink_fd, data, sizeof data);
        if (n <= 0)
            break;
        *total += (size_t)n;
    }
    return total;
}

TEST(tls_carries_bodies_in_pieces)
{
    static const int64_t lengths[] = {UPLOAD, -1};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct identity id;
        struct toy t;
        pthread_t reader;
        void *total;
        open_toy(&t, &id, 2, "DNS:localhost");
        struct cay_client *c = new_client(&t, "localhost", id.ca);
        CHECK_EQ("a reader", pthread_create(&reader, NULL, drain, &t), 0);
        size_t left = UPLOAD;
        struct cay_client_request req = {
            .method = "PUT", .path = "/take?alone", .more = give_pieces, .arg = &left};
        req.more_length = lengths[i];
        CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
        struct cay_error err = {0};
        CHECK_EQ("an upload", cay_client_call(c, &req, &answer, &err), 0);
        (void)pthread_join(reader, &total);
        CHECK_EQ("all of it", *(size_t *)total, UPLOAD);
        free(total);
        CHECK("and its end", answer.body.data && strncmp(answer.body.data, "whole", 5) == 0);
        cay_client_free(c);
        close_toy(&t, &id);
    }
}

static const struct {
    const char *name, *host, *names;
    bool other_ca;
    const char *want;
} trust_cases[] = {
    {"signed by nobody we know", "localhost", "DNS:localhost", true, "NOT_TRUSTED"},
    {"for another name", "localhost", "DNS:elsewhere.example", false, "NOT_TRUSTED"},
    {"a name for an address", "127.0.0.1", "DNS:localhost", false, "NOT_TRUSTED"},
    {"an address for a name", "localhost", "IP:127.0.0.1", false, "NOT_TRUSTED"},
};

TEST(tls_client_trusts_no_other)
{
    for (size_t i = 0; i < COUNT(trust_cases); i++) {
        struct identity id, other;
        struct toy t;
        make_identity(&other, "other", "DNS:localhost");
        open_toy(&t, &id, 1, trust_cases[i].names);
        struct cay_client *c =
            new_client(&t, trust_cases[i].host, trust_cases[i].other_ca ? other.ca : id.ca);
        struct cay_client_answer answer = {0};
        struct cay_error err = {0};
        CHECK_EQ(trust_cases[i].name, get(c, "/hello", &answer, &err), CAY_ERR_FORBIDDEN);
        CHECK_STR(trust_cases[i].name, err.name, trust_cases[i].want);
        CHECK_EQ("nothing was asked", toy_logged(), 0);
        cay_client_free(c);
        close_toy(&t, &id);
        cay_close_fd(&other.fd);
    }
}

TEST(tls_client_knows_a_plain_server)
{
    struct identity id;
    struct toy t;
    make_identity(&id, "one", "DNS:localhost");
    toy_init(&t, 1);
    toy_start(&t);
    struct cay_client *c = new_client(&t, "localhost", id.ca);
    struct cay_client_answer answer = {0};
    struct cay_error err = {0};
    CHECK_EQ("no TLS there", get(c, "/hello", &answer, &err), CAY_ERR_PROVIDER);
    CHECK_STR("and it is said", err.name, "NO_TLS");
    cay_client_free(c);
    close_toy(&t, &id);
}

TEST(tls_port_tells_those_who_speak_plainly)
{
    static const char *const plain[] = {"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "DELETE /items/1 HTTP/1.1\r\n", "x", "\r\n"};
    static struct toy_client c;
    static struct toy_answer answer;
    struct identity id;
    struct toy t;
    open_toy(&t, &id, 1, "DNS:localhost");
    for (size_t i = 0; i < COUNT(plain); i++) {
        toy_connect(&t, &c);
        toy_send(&c, plain[i]);
        toy_read(&c, &answer);
        CHECK_EQ(plain[i], answer.status, 400);
        CHECK_STR(plain[i], answer.body, "TLS_REQUIRED");
        CHECK(plain[i], toy_is_closed(&c));
        toy_close(&c);
    }
    close_toy(&t, &id);
}

static int64_t unmet(void)
{
    return atomic_load(&cay_http_unmet.value);
}

/* Silence, a beginning and then silence, and a step now and then: all end at the one deadline. */
TEST(tls_handshake_has_a_deadline)
{
    static const char half[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    static struct toy_client c[3];
    struct identity id;
    struct toy t;
    int64_t before = unmet();
    make_identity(&id, "one", "DNS:localhost");
    toy_init_tls(&t, 1, id.fd, 0);
    t.server->times.head_ms = (int64_t)test_ms(200);
    toy_start(&t);
    for (size_t i = 0; i < COUNT(c); i++)
        toy_connect(&t, &c[i]);
    (void)!send(c[1].fd, half, sizeof half - 1, MSG_NOSIGNAL);
    bool cut = false;
    for (int i = 0; i < 2000 && !cut; i++) { /* one byte at a time, a whole record's worth */
        (void)usleep(5000);
        cut = send(c[2].fd, i < (int)sizeof half - 1 ? half + i : "x", 1, MSG_NOSIGNAL) < 0;
    }
    CHECK("drop by drop", cut);
    for (size_t i = 0; i < 2; i++)
        CHECK("silent", toy_is_closed(&c[i]));
    for (size_t i = 0; i < COUNT(c); i++)
        toy_close(&c[i]);
    close_toy(&t, &id);
    CHECK_EQ("and are counted, who began", unmet() - before, 2);
}

TEST(tls_certificate_is_renewed_for_those_who_come)
{
    struct identity before, after;
    struct toy t;
    int news[2];
    make_identity(&before, "before", "DNS:localhost");
    make_identity(&after, "after", "DNS:localhost");
    CHECK_EQ("pair", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, news),
             0);
    toy_init_tls(&t, 2, before.fd, news[1]);
    toy_start(&t);
    struct cay_client *old = new_client(&t, "localhost", before.ca);
    check_hello("before", old);

    char path[128];
    (void)snprintf(path, sizeof path, "%s/broken", test_dir());
    CAY_AUTO_FD int broken = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK("broken", write(broken, "nothing", 7) == 7);
    CHECK_EQ("a broken one", cay_packet_send(news[0], "1", 1, NULL, 0, &broken, 1), 0);
    CHECK_EQ("a good one", cay_packet_send(news[0], "1", 1, NULL, 0, &after.fd, 1), 0);

    struct cay_error err = {0};
    bool renewed = false;
    for (int64_t until = cay_clock_mono_ms() + 5000; !renewed && cay_clock_mono_ms() < until;) {
        CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
        struct cay_client *c = new_client(&t, "localhost", after.ca);
        renewed = get(c, "/hello", &answer, &err) == 0;
        cay_client_free(c);
    }
    CHECK("renewed", renewed);
    check_hello("on the connection from before", old);
    cay_client_free(old);
    old = new_client(&t, "localhost", before.ca);
    struct cay_client_answer none = {0};
    CHECK_EQ("the old one is gone", get(old, "/hello", &none, &err), CAY_ERR_FORBIDDEN);
    cay_client_free(old);
    toy_stop(&t);
    cay_close_fd(&news[0]);
    cay_close_fd(&news[1]);
    cay_close_fd(&before.fd);
    cay_close_fd(&after.fd);
}

/* Every test of the server once more, with its clients in tunnels. */
TEST(tls_carries_everything)
{
    struct identity id;
    char path[64];
    int status = -1;
    make_identity(&id, "one", "DNS:localhost");
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), id.fd);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGALRM); /* where we last too long, one of these does */
        (void)setenv("CAY_TEST_TLS", path, 1);
        (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* the counts that matter are ours */
        execl("/proc/self/exe", "unit", "http_", (char *)NULL);
        _exit(127);
    }
    (void)waitpid(pid, &status, 0);
    CHECK_EQ("all passed", status, 0);
    cay_close_fd(&id.fd);
}

/* A client of OpenSSL's own, which may do what ours would not. */
struct raw {
    SSL_CTX *ctx;
    SSL *ssl;
    struct toy_client at;
};

static bool greet(struct raw *r, struct toy *t, int version, const char *protocols)
{
    r->ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(r->ctx, 0);
    (void)SSL_CTX_set_min_proto_version(r->ctx, version);
    (void)SSL_CTX_set_max_proto_version(r->ctx, version);
    if (protocols)
        (void)SSL_CTX_set_alpn_protos(r->ctx, (const unsigned char *)protocols,
                                      (unsigned)strlen(protocols));
    r->ssl = SSL_new(r->ctx);
    toy_connect(t, &r->at);
    (void)SSL_set_fd(r->ssl, r->at.fd);
    return SSL_connect(r->ssl) == 1;
}

static void part(struct raw *r)
{
    SSL_free(r->ssl);
    SSL_CTX_free(r->ctx);
    toy_close(&r->at);
}

/* As a client that does not know the authority: an alert, and a socket that is reset behind it. The
 * loop may hear of the end before a worker has read what was said. */
TEST(tls_who_leaves_in_the_middle_is_counted)
{
    static struct raw r;
    struct linger at_once = {.l_onoff = 1};
    struct identity id;
    struct toy t;
    const int64_t before = unmet();
    open_toy(&t, &id, 1, "DNS:localhost");
    for (int i = 0; i < 20; i++) {
        r.ctx = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_verify(r.ctx, SSL_VERIFY_PEER, NULL);
        r.ssl = SSL_new(r.ctx);
        toy_connect(&t, &r.at);
        (void)SSL_set_fd(r.ssl, r.at.fd);
        CHECK("refuses", SSL_connect(r.ssl) != 1);
        (void)setsockopt(r.at.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        part(&r);
    }
    close_toy(&t, &id);
    CHECK_EQ("each", unmet() - before, 20);
}

static const struct {
    const char *name;
    int version;
    const char *protocols;
    bool want;
} greetings[] = {
    {"TLS 1.3", TLS1_3_VERSION, NULL, true},
    {"TLS 1.2", TLS1_2_VERSION, NULL, true},
    {"TLS 1.1", TLS1_1_VERSION, NULL, false},
    {"HTTP/1.1 among others", TLS1_3_VERSION, "\x02h2\x08http/1.1", true},
    {"HTTP/2 alone", TLS1_3_VERSION, "\x02h2", false},
};

TEST(tls_versions_and_protocols)
{
    static struct raw r;
    struct identity id;
    struct toy t;
    open_toy(&t, &id, 1, "DNS:localhost");
    for (size_t i = 0; i < COUNT(greetings); i++) {
        const unsigned char *chosen;
        unsigned len = 0;
        CHECK_EQ(greetings[i].name, greet(&r, &t, greetings[i].version, greetings[i].protocols),
                 greetings[i].want);
        SSL_get0_alpn_selected(r.ssl, &chosen, &len);
        CHECK_EQ(greetings[i].name, len, greetings[i].want && greetings[i].protocols ? 8u : 0u);
        part(&r);
    }
    close_toy(&t, &id);
}

/* Whatever it has to say before; without an end the test has one. */
static bool is_cut(struct raw *r)
{
    char rest[64];
    ssize_t n;
    while ((n = recv(r->at.fd, rest, sizeof rest, 0)) > 0)
        ;
    return n == 0 || errno == ECONNRESET || errno == EPIPE;
}

/* Neither is refused before it is understood; but nobody may keep the loop busy with them. */
TEST(tls_floods_of_handshakes_are_cut)
{
    static struct raw r;
    struct identity id;
    struct toy t;
    open_toy(&t, &id, 1, "DNS:localhost");
    CHECK("TLS 1.2", greet(&r, &t, TLS1_2_VERSION, NULL));
    CHECK_EQ("asked", SSL_renegotiate(r.ssl), 1);
    CHECK("and refused", SSL_do_handshake(r.ssl) != 1);
    CHECK("for good", is_cut(&r));
    part(&r);

    CHECK("TLS 1.3", greet(&r, &t, TLS1_3_VERSION, NULL));
    int sent = 0;
    while (sent < 100 * CAY_TLS_KEY_UPDATES &&
           SSL_key_update(r.ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 && SSL_do_handshake(r.ssl) == 1)
        sent++;
    CHECK("a good many are", sent >= CAY_TLS_KEY_UPDATES);
    CHECK("and then no more", is_cut(&r)); /* the sockets may have held all of them */
    part(&r);
    close_toy(&t, &id);
}

TEST(tls_proper_end)
{
    static const char ask[] = "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    static struct raw r;
    char answer[4096];
    struct identity id;
    struct toy t;
    open_toy(&t, &id, 1, "DNS:localhost");
    CHECK("TLS 1.3", greet(&r, &t, TLS1_3_VERSION, NULL));
    CHECK_EQ("asks", SSL_write(r.ssl, ask, sizeof ask - 1), sizeof ask - 1);
    int n;
    while ((n = SSL_read(r.ssl, answer, sizeof answer)) > 0)
        ;
    CHECK_EQ("a proper end", SSL_get_error(r.ssl, n), SSL_ERROR_ZERO_RETURN);
    part(&r);
    close_toy(&t, &id);
}

/* One that says goodbye together with its request and is gone before the answer. */
TEST(tls_answer_to_who_left)
{
    static const char ask[] = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";
    static struct raw r;
    struct linger reset = {.l_onoff = 1};
    struct identity id;
    struct toy t;
    int cork = 1;
    open_toy(&t, &id, 1, "DNS:localhost");
    CHECK("TLS 1.3", greet(&r, &t, TLS1_3_VERSION, NULL));
    (void)setsockopt(r.at.fd, IPPROTO_TCP, TCP_CORK, &cork,
                     sizeof cork); /* so that both come at once */
    CHECK_EQ("asks", SSL_write(r.ssl, ask, sizeof ask - 1), sizeof ask - 1);
    (void)SSL_shutdown(r.ssl);
    cork = 0;
    (void)setsockopt(r.at.fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof cork);
    CHECK("is heard", toy_until(toy_held, 1));
    (void)setsockopt(r.at.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    part(&r);
    toy_release(1);
    close_toy(&t, &id);
}

TEST(tls_refuses_what_it_cannot_use)
{
    struct identity one, other;
    make_identity(&one, "one", "DNS:localhost");
    make_identity(&other, "other", "DNS:localhost");
    const struct {
        const char *name, *cert, *key;
        int want;
    } cases[] = {
        {"a pair", one.cert, one.key, 0},
        {"another's key", one.cert, other.key, CAY_ERR_INVALID},
        {"no key", one.cert, one.cert, CAY_ERR_INVALID},
        {"no certificate", one.key, one.key, CAY_ERR_INVALID},
        {"nothing", "", "", CAY_ERR_INVALID},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_error err = {0};
        struct ssl_ctx_st *tls = NULL;
        CHECK_EQ(cases[i].name,
                 cay_tls_server(cases[i].cert, strlen(cases[i].cert), cases[i].key,
                                strlen(cases[i].key), &tls, &err),
                 cases[i].want);
        cay_tls_free(tls);
    }
    cay_close_fd(&one.fd);
    cay_close_fd(&other.fd);
}
