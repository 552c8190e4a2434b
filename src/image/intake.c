/* SPDX-License-Identifier: Apache-2.0 */
#include "image/intake.h"
#include "model/limits.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#define LOOK_BYTES (16 * CAY_MIB) /* between two looks at the free space */

static void begin_sum(struct cay_intake *in)
{
    if (!in->sum || EVP_DigestInit_ex(in->sum, EVP_sha256(), NULL) != 1)
        abort(); /* memory is out */
}

void cay_intake_init(struct cay_intake *in)
{
    in->sum = EVP_MD_CTX_new();
    begin_sum(in);
}

void cay_intake_done(struct cay_intake *in)
{
    EVP_MD_CTX_free(in->sum);
    in->sum = NULL;
}

void cay_intake_restart(struct cay_intake *in)
{
    (void)in->step(in->arg, -(int64_t)in->got); /* asked again with the next piece */
    in->got = in->looked = 0;
    in->broken = NULL;
    if (in->text)
        in->text->len = 0;
    begin_sum(in);
}

/* Others live on that disk, who must not hear of ENOSPC because of us. */
static bool has_room(struct cay_intake *in)
{
    struct statvfs st;
    if (in->text || in->got < in->looked)
        return true;
    in->looked = in->got + LOOK_BYTES;
    if (fstatvfs(in->fd, &st) < 0 || st.f_blocks == 0 || /* it has no bound of its own */
        (uint64_t)st.f_bavail * st.f_frsize >= in->keep_free + LOOK_BYTES)
        return true;
    in->error = ENOSPC;
    return false;
}

static bool put(struct cay_intake *in, const char *bytes, size_t len)
{
    if (!has_room(in))
        return false;
    if (in->text)
        cay_buf_add(in->text, bytes, len);
    for (size_t at = 0; !in->text && at < len;) {
        ssize_t n = pwrite(in->fd, bytes + at, len - at, (off_t)(in->got + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            in->error = n < 0 ? errno : ENOSPC;
            return false;
        }
        at += (size_t)n;
    }
    return true;
}

bool cay_intake_take(void *arg, uint64_t from, const char *bytes, size_t len)
{
    struct cay_intake *in = arg;
    if (in->fresh && from == 0 && in->got > 0)
        cay_intake_restart(in); /* one that does not do parts */
    else if (in->fresh && from != in->got)
        in->broken = "it sent another part than was asked for";
    in->fresh = false;
    if (!in->broken && len > in->size - in->got)
        in->broken = "it sent more bytes than it may";
    if (in->broken || !put(in, bytes, len))
        return false;
    if (EVP_DigestUpdate(in->sum, bytes, len) != 1)
        abort();
    in->got += len;
    return in->step(in->arg, (int64_t)len);
}

bool cay_intake_go_on(void *arg)
{
    struct cay_intake *in = arg;
    return in->step(in->arg, 0);
}

int cay_intake_problem(const struct cay_intake *in, struct cay_error *err)
{
    if (in->broken)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_REGISTRY", "%s", in->broken);
    errno = in->error;
    if (in->error == ENOSPC || in->error == EDQUOT || in->error == EFBIG)
        return cay_fail_as(err, CAY_ERR_LIMIT, "DISK_FULL",
                           "there is no room for what is downloaded");
    if (in->error)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot keep what is downloaded");
    return 0;
}

void cay_intake_digest(struct cay_intake *in, char out[CAY_DIGEST_HEX + 1])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    if (EVP_DigestFinal_ex(in->sum, sum, NULL) != 1)
        abort();
    for (size_t i = 0; i < CAY_DIGEST_HEX / 2; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", sum[i]); /* two digits */
}
