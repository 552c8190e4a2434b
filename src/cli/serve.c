/* SPDX-License-Identifier: Apache-2.0 */
/* cay serve, cay down: the server on this machine. */
#include "cli/serve.h"
#include "base/crash.h"
#include "base/path.h"
#include "cli/cli.h"
#include "model/limits.h"
#include "supervisor/supervisor.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(struct cay_serve_options, member)
#define RATE_MAX 1000000000

struct down_options {
    const char *data;
};

static const char *const pull_kinds[] = {"always", "missing", "never", NULL};
static const char *const auth_kinds[] = {"off", "keys", "jwt", NULL};

const struct cay_option cay_serve_table[] = {
    {CAY_OPTION_STRING, "data", AT(config.data), .arg = "DIR", .help = "where all is kept",
     .variable = "CAY_DATA", .otherwise = "/var/lib/cay"},
    {CAY_OPTION_STRING, "listen", AT(config.listen), .arg = "ADDR:PORT",
     .help = "where to listen; port 0 picks one", .variable = "CAY_LISTEN",
     .otherwise = "127.0.0.1:3000"},
    {CAY_OPTION_STRING, "provider", AT(config.provider), .arg = "NAME",
     .help = "what sandboxes run on: native or docker", .variable = "CAY_PROVIDER",
     .otherwise = "native"},
    {CAY_OPTION_STRING, "store", AT(config.store), .arg = "NAME", .help = "where records are kept",
     .variable = "CAY_STORE", .otherwise = "sqlite"},
    {CAY_OPTION_STRING, "images", AT(config.images), .arg = "DIR",
     .help = "image store; by default images/ in the data directory", .variable = "CAY_IMAGES"},
    {CAY_OPTION_STRING, "recipes", AT(config.recipes), .arg = "DIR",
     .help = "recipes that images are built by; by default those that came with cay",
     .variable = "CAY_RECIPES"},
    {CAY_OPTION_PAIRS, "alias", AT(config.aliases), .arg = "NAME=IMAGE",
     .help = "another name for an image; in the file: alias.NAME = IMAGE", .variable = "CAY_ALIAS"},
    {CAY_OPTION_STRING, "rate-limit", AT(rate_limit), .arg = "N/SECONDS|off",
     .help = "requests of one client in so many seconds", .variable = "CAY_RATE_LIMIT",
     .otherwise = "1000/60"},
    {CAY_OPTION_STRING, "auth", AT(config.auth), .arg = "off|keys|jwt", .help = "who may call",
     .variable = "CAY_AUTH", .otherwise = "off", .choices = auth_kinds},
    {CAY_OPTION_STRING, "jwt-key", AT(jwt_key), .arg = "FILE",
     .help = "what verifies a JWT: a secret for HS256, a public key for RS256 or EdDSA",
     .variable = "CAY_JWT_KEY"},
    {CAY_OPTION_STRING, "jwt-issuer", AT(config.jwt_issuer), .arg = "TEXT",
     .help = "the iss that a JWT must have", .variable = "CAY_JWT_ISSUER"},
    {CAY_OPTION_STRING, "jwt-audience", AT(config.jwt_audience), .arg = "TEXT",
     .help = "the aud that it must have", .variable = "CAY_JWT_AUDIENCE"},
    {CAY_OPTION_STRING, "jwt-claim", AT(config.jwt_claim), .arg = "NAME",
     .help = "which of its claims names the account", .variable = "CAY_JWT_CLAIM",
     .otherwise = "sub"},
    {CAY_OPTION_STRING, "tls-cert", AT(config.tls_cert), .arg = "FILE",
     .help = "speak TLS with this certificate and those that sign it (PEM); read again at SIGHUP",
     .variable = "CAY_TLS_CERT"},
    {CAY_OPTION_STRING, "tls-key", AT(config.tls_key), .arg = "FILE",
     .help = "its private key (PEM), which only root need be able to read",
     .variable = "CAY_TLS_KEY"},
    {CAY_OPTION_STRING, "preview-domain", AT(config.preview_domain),
     .arg = "[https://]DOMAIN[:PORT]",
     .help = "below which sandboxes' ports have names; none that the API is called by",
     .variable = "CAY_PREVIEW_DOMAIN", .otherwise = "localhost"},
    {CAY_OPTION_STRING, "docker-host", AT(config.docker_host), .arg = "URL",
     .help = "the Docker Engine, for that provider: unix://PATH or tcp://ADDR:PORT",
     .variable = "CAY_DOCKER_HOST"},
    {CAY_OPTION_STRING, "docker-runtime", AT(config.docker_runtime), .arg = "NAME",
     .help = "what runs its containers, as the Engine calls it; by default as the Engine is set up",
     .variable = "CAY_DOCKER_RUNTIME"},
    {CAY_OPTION_FLAG, "docker-read-only", AT(config.docker_read_only),
     .help = "nobody can write to their roots; /tmp, /run and the home are memory",
     .variable = "CAY_DOCKER_READ_ONLY"},
    {CAY_OPTION_STRING, "docker-cert-path", AT(config.docker_certs), .arg = "DIR",
     .help = "speak TLS with it: ca.pem whom to trust, cert.pem and key.pem who we are",
     .variable = "CAY_DOCKER_CERT_PATH"},
    {CAY_OPTION_STRING, "egress-allow", AT(config.egress_allow), .arg = "NET[:PORT],…",
     .help = "private addresses that sandboxes may reach, where their policy allows them",
     .variable = "CAY_EGRESS_ALLOW"},
    {CAY_OPTION_STRING, "egress-proxy", AT(config.egress_proxy), .arg = "URL",
     .help = "an HTTP proxy for sandboxes' connections; it must itself refuse private networks",
     .variable = "CAY_EGRESS_PROXY"},
    {CAY_OPTION_STRING, "egress-no-proxy", AT(config.egress_no_proxy), .arg = "HOST,NET,…",
     .help = "whom they reach without it", .variable = "CAY_EGRESS_NO_PROXY"},
    {CAY_OPTION_STRING, "trust-ca", AT(config.trust_ca), .arg = "FILE",
     .help = "authorities that sandboxes believe as well (PEM); by default the host's own",
     .variable = "CAY_TRUST_CA"},
    {CAY_OPTION_STRING, "resolv-conf", AT(config.resolv_conf), .arg = "FILE",
     .help = "whom sandboxes' names are asked of; by default /etc/resolv.conf",
     .variable = "CAY_RESOLV_CONF"},
    {CAY_OPTION_STRING, "pull", AT(config.pull), .arg = "always|missing|never",
     .help = "when a create asks the registry of its image", .variable = "CAY_PULL",
     .otherwise = "missing", .choices = pull_kinds},
    {CAY_OPTION_STRING, "registry-insecure", AT(config.registry_insecure), .arg = "HOST[:PORT],…",
     .help = "registries that are spoken to without TLS", .variable = "CAY_REGISTRY_INSECURE"},
    {CAY_OPTION_STRING, "registry-auth", AT(registry_auth), .arg = "FILE",
     .help = "names and passwords as Docker keeps them; by default ~/.docker/config.json",
     .variable = "CAY_REGISTRY_AUTH"},
    {CAY_OPTION_PAIRS, "registry", AT(config.registries), .arg = "HOST.KEY=VALUE",
     .help = "what is to be known of a registry, in the file: registry.HOST.KEY = VALUE",
     .variable = "CAY_REGISTRY", .unspoken = true},
    {CAY_OPTION_STRING, "user", AT(config.user), .arg = "NAME",
     .help = "whom the server runs as; by default cay, or a number when there is no such user",
     .variable = "CAY_USER"},
    {CAY_OPTION_SIZE, "log-head", AT(config.log_head_bytes), .arg = "SIZE",
     .help = "kept from the beginning of each command's output", .variable = "CAY_LOG_HEAD",
     .otherwise = "8m", .min = 1},
    {CAY_OPTION_SIZE, "log-tail", AT(config.log_tail_bytes), .arg = "SIZE",
     .help = "kept from its end", .variable = "CAY_LOG_TAIL", .otherwise = "8m", .min = 1},
    {CAY_OPTION_STRING, "config", AT(file), .arg = "FILE", .help = "options as lines: key = value",
     .variable = "CAY_CONFIG"},
    {CAY_OPTION_FLAG, "crash-points", AT(crash_points),
     .help = "list the names that CAY_CRASH_AT takes, for tests, and end"},
    CAY_OPTION_END,
};

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 &&
           (IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127));
}

static bool is_address(const char *host, bool bracket)
{
    unsigned char any[sizeof(struct in6_addr)];
    return bracket ? inet_pton(AF_INET6, host, any) == 1
                   : inet_pton(AF_INET, host, any) == 1 || strcmp(host, "localhost") == 0;
}

static int check_listen(const char *listen, bool *loopback_out, struct cay_error *err)
{
    char host[64];
    uint64_t port;
    const char *colon = strrchr(listen, ':');
    bool bracket = listen[0] == '[' && colon > listen && colon[-1] == ']';
    size_t trim = bracket ? 1 : 0;
    size_t len = colon ? (size_t)(colon - listen) - 2 * trim : sizeof host;
    if (len < sizeof host) {
        memcpy(host, listen + trim, len);
        host[len] = 0;
    }
    if (len >= sizeof host || !cay_str_u64(colon + 1, 65535, &port) || !is_address(host, bracket))
        return cay_fail(err, CAY_ERR_INVALID,
                        "cannot listen on %s: it must be ADDR:PORT, like 127.0.0.1:3000", listen);
    *loopback_out = is_loopback(host);
    return 0;
}

static int read_rate_limit(const char *text, int64_t *requests_out, int64_t *seconds_out,
                           struct cay_error *err)
{
    char requests[24];
    uint64_t n, seconds;
    const char *slash = strchr(text, '/');
    if (strcmp(text, "off") == 0) {
        *requests_out = 0;
        *seconds_out = 1;
        return 0;
    }
    if (!slash || (size_t)(slash - text) >= sizeof requests)
        return cay_fail(err, CAY_ERR_INVALID, "rate limit %s is neither N/SECONDS nor off", text);
    cay_str_copy(requests, (size_t)(slash - text) + 1, text);
    if (!cay_str_u64(requests, RATE_MAX, &n) || !cay_str_u64(slash + 1, 86400, &seconds) || !n ||
        !seconds)
        return cay_fail(err, CAY_ERR_INVALID, "rate limit %s is neither N/SECONDS nor off", text);
    *requests_out = (int64_t)n;
    *seconds_out = (int64_t)seconds;
    return 0;
}

static int check_jwt(const struct cay_serve_options *o, struct cay_error *err)
{
    const struct cay_config *cfg = &o->config;
    if (strcmp(cfg->auth, "jwt") != 0)
        return 0;
    if (!o->jwt_key || !cfg->jwt_issuer || !cfg->jwt_audience)
        return cay_fail(err, CAY_ERR_INVALID,
                        "--auth jwt needs --jwt-key, --jwt-issuer and --jwt-audience");
    return 0;
}

static int check_aliases(const struct cay_pairs *aliases, struct cay_error *err)
{
    if (aliases->count > CAY_MAX_ALIASES)
        return cay_fail(err, CAY_ERR_INVALID, "more than %d aliases", CAY_MAX_ALIASES);
    for (size_t i = 0; i < aliases->count; i++) {
        const char *value = aliases->at[i].value;
        if (!*value || strlen(value) > CAY_MAX_IMAGE_NAME || strpbrk(value, " \t="))
            return cay_fail(err, CAY_ERR_INVALID, "the alias %s stands for no image: \"%s\"",
                            aliases->at[i].key, value);
    }
    return 0;
}

static int check_docker(const struct cay_config *cfg, struct cay_error *err)
{
    const char *host = cfg->docker_host;
    bool tcp = host && strncmp(host, "tcp://", 6) == 0;
    const char *port = tcp ? strrchr(host + 6, ':') : NULL;
    uint64_t number;
    if (!host || strcmp(cfg->provider, "docker") != 0)
        return 0;
    if (strncmp(host, "unix:///", 8) == 0 && strlen(host + 7) > CAY_MAX_SOCKET_PATH)
        return cay_fail(err, CAY_ERR_INVALID,
                        "%s is too long: a socket's path has at most %d bytes", host,
                        CAY_MAX_SOCKET_PATH);
    if (strncmp(host, "unix:///", 8) != 0 &&
        (!port || port == host + 6 || !cay_str_u64(port + 1, 65535, &number) || number == 0))
        return cay_fail(err, CAY_ERR_INVALID,
                        "no Docker Engine can be at %s: it must be unix:///PATH or tcp://ADDR:PORT",
                        host);
    return 0;
}

int cay_serve_check(struct cay_serve_options *o, bool root, struct cay_error *err)
{
    bool loopback = false;
    struct cay_config *cfg = &o->config;
    int r = check_listen(cfg->listen, &loopback, err);
    if (r >= 0)
        r = read_rate_limit(o->rate_limit, &cfg->rate_limit, &cfg->rate_seconds, err);
    if (r < 0)
        return r;
    r = check_aliases(&cfg->aliases, err);
    if (r == 0)
        r = check_jwt(o, err);
    if (r == 0)
        r = check_docker(cfg, err);
    if (r < 0)
        return r;
    if (!cfg->tls_cert != !cfg->tls_key)
        return cay_fail(err, CAY_ERR_INVALID, "--tls-cert and --tls-key need each other");
    if (!loopback && strcmp(cfg->auth, "off") == 0)
        return cay_fail(err, CAY_ERR_INVALID,
                        "will not listen on %s without authentication: anyone who reaches it could "
                        "run code here; use a loopback address or --auth",
                        cfg->listen);
    if (strcmp(cfg->provider, "fake") != 0 && !root)
        return cay_fail(err, CAY_ERR_FORBIDDEN, "the engine needs root; try `sudo cay serve`");
    return 0;
}

/* What nobody said to us is taken from where everybody else finds it. */
static void find_docker(struct cay_config *cfg, struct cay_arena *a)
{
    const char *verify = getenv("DOCKER_TLS_VERIFY"), *dir = getenv("DOCKER_CERT_PATH");
    const char *host = getenv("DOCKER_HOST"), *home = getenv("HOME");
    if (!cfg->docker_host && host && *host)
        cfg->docker_host = host;
    if (!cfg->docker_certs && verify && *verify)
        cfg->docker_certs = dir && *dir ? dir : cay_arena_printf(a, "%s/.docker", home ? home : "");
    if (!cfg->docker_host || strncmp(cfg->docker_host, "tcp://", 6) != 0)
        cfg->docker_certs = NULL; /* a socket has no need of any */
}

static const char *config_file(struct cay_arena *a, const void *values)
{
    (void)a;
    return ((const struct cay_serve_options *)values)->file;
}

/* Read here, while it can be: the server has no rights to. */
static int read_jwt_key(struct cay_serve_options *o, struct cay_arena *a, struct cay_error *err)
{
    char *text;
    size_t len;
    int r = cay_path_read(AT_FDCWD, o->jwt_key, CAY_JWT_KEY_MAX, a, &text, &len, err);
    if (r < 0)
        return cay_wrap(err, "cannot read the JWT key %s", o->jwt_key);
    if (strlen(text) != len)
        return cay_fail(err, CAY_ERR_INVALID, "the JWT key %s holds a NUL", o->jwt_key);
    o->config.jwt_key = text;
    return 0;
}

/* A registry's CA is named by its file; what is handed on is the text. */
static int read_cas(struct cay_serve_options *o, struct cay_arena *a, struct cay_error *err)
{
    struct cay_pairs *all = &o->config.registries;
    for (size_t i = 0; i < all->count; i++) {
        char *text;
        const char *file = all->at[i].value;
        if (!cay_str_ends(all->at[i].key, ".ca"))
            continue;
        if (cay_path_read(AT_FDCWD, file, CAY_TLS_PEM_MAX, a, &text, NULL, err) < 0)
            return cay_wrap(err, "cannot read the registry's CA %s", file);
        all->at[i].value = text;
    }
    return 0;
}

/* The file that nobody named need not be there. */
static int read_registry_auth(struct cay_serve_options *o, struct cay_arena *a,
                              struct cay_error *err)
{
    const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    const char *file = o->registry_auth ? o->registry_auth
                       : dir && *dir    ? cay_arena_printf(a, "%s/config.json", dir)
                       : home && *home  ? cay_arena_printf(a, "%s/.docker/config.json", home)
                                        : NULL;
    char *text;
    size_t len;
    if (!file)
        return 0;
    int r = cay_path_read(AT_FDCWD, file, CAY_REGISTRY_CONFIG_BYTES, a, &text, &len, err);
    if (r == CAY_ERR_NOT_FOUND && !o->registry_auth)
        return 0;
    if (r < 0)
        return cay_wrap(err, "cannot read %s", file);
    if (strlen(text) != len)
        return cay_fail(err, CAY_ERR_INVALID, "%s holds a NUL", file);
    o->config.registry_docker = text;
    return 0;
}

static int serve(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_serve_options o = *(const struct cay_serve_options *)cli->options;
    if (o.crash_points) {
        for (const char *const *name = cay_crash_points; *name; name++)
            puts(*name);
        return 0;
    }
    /* what whoever starts us left open is no business of an engine's, nor of what it starts */
    (void)close_range(STDERR_FILENO + 1, ~0U, 0);
    find_docker(&o.config, &cli->arena);
    o.config.data_fd = o.config.listen_fd = o.config.admin_fd = -1;
    o.config.tls_fd = o.config.tls_news_fd = -1;
    int r = cay_serve_check(&o, geteuid() == 0, err);
    if (r == 0 && o.jwt_key)
        r = read_jwt_key(&o, &cli->arena, err);
    if (r == 0)
        r = read_cas(&o, &cli->arena, err);
    if (r == 0)
        r = read_registry_auth(&o, &cli->arena, err);
    return r < 0 ? r : cay_supervisor_run(&o.config);
}

const struct cay_command cay_command_serve = {
    .name = "serve",
    .args = "",
    .summary = "run the server",
    .notes = "An option stands over its variable, that over its key in the file, that over the "
             "default.\n"
             "SIGTERM ends the server; sandboxes stay, and are there again at its next start. "
             "Under TLS\n"
             "SIGHUP takes a new certificate for those who connect from then on.",
    .options = cay_serve_table,
    .size = sizeof(struct cay_serve_options),
    .file = config_file,
    .run = serve,
};

static int down(struct cay_cli *cli, struct cay_error *err)
{
    const struct down_options *o = cli->options;
    if (geteuid() != 0)
        return cay_fail(err, CAY_ERR_FORBIDDEN, "`cay down` needs root");
    return cay_supervisor_down(o->data);
}

static const struct cay_option down_table[] = {
    {CAY_OPTION_STRING, "data", offsetof(struct down_options, data), .arg = "DIR",
     .help = "the server's data directory", .variable = "CAY_DATA", .otherwise = "/var/lib/cay"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_down = {
    .name = "down",
    .args = "",
    .summary = "end every sandbox of a data directory, and its engine",
    .options = down_table,
    .size = sizeof(struct down_options),
    .run = down,
};
