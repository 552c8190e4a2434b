/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/certificate.h"
#include "base/path.h"
#include "http/tls.h"
#include "model/limits.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

static int read_pem(const char *path, struct cay_arena *a, char **out, size_t *len_out,
                    struct cay_error *err)
{
    CAY_AUTO_FREE char *real = realpath(path, NULL); /* whoever renews them has links there */
    if (!real)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot read %s", path);
    int r = cay_path_read(AT_FDCWD, real, CAY_TLS_PEM_MAX, a, out, len_out, err);
    if (r < 0)
        return r;
    if (strlen(*out) != *len_out)
        return cay_fail(err, CAY_ERR_INVALID, "%s holds a NUL", path);
    return 0;
}

static int keep(const char *cert, size_t cert_len, const char *key, size_t key_len, int *fd_out,
                struct cay_error *err)
{
    CAY_AUTO_FD int fd = memfd_create("certificate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || write(fd, cert, cert_len + 1) != (ssize_t)cert_len + 1 ||
        write(fd, key, key_len) != (ssize_t)key_len || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot keep the certificate");
    *fd_out = cay_take_fd(&fd);
    return 0;
}

int cay_certificate_read(const struct cay_config *cfg, int *fd_out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct ssl_ctx_st *tls;
    char *cert, *key;
    size_t cert_len, key_len;
    int r = read_pem(cfg->tls_cert, &a, &cert, &cert_len, err);
    if (r == 0)
        r = read_pem(cfg->tls_key, &a, &key, &key_len, err);
    if (r < 0)
        return r;
    r = cay_tls_server(cert, cert_len, key, key_len, &tls, err);
    if (r < 0) {
        (void)cay_wrap(err, "cannot use the certificate %s with the key %s", cfg->tls_cert,
                       cfg->tls_key);
    } else {
        cay_tls_free(tls);
        r = keep(cert, cert_len, key, key_len, fd_out, err);
    }
    explicit_bzero(key, key_len); /* engines are forked from here */
    return r;
}
