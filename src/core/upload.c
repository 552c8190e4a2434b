/* SPDX-License-Identifier: Apache-2.0 */
/* An archive that a client sends: a job takes it out of a pipe into a file without a name, then
 * loads it. Half an archive is none: only the byte in the second pipe says that all of it came. */
#include "base/buf.h"
#include "base/log.h"
#include "core/core.h"
#include "core/images.h"
#include "core/load.h"
#include "image/packed.h"
#include "image/ref.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MS 250 /* between two looks whether it is still wanted */
#define CHUNK (256 * 1024)
#define HEAD 4 /* bytes that tell how it is packed */

static const char load_kind[] = "load";

struct upload {
    int data_fd, end_fd; /* to read */
    char as[CAY_MAX_IMAGE_NAME + 1];
};

static void drop_upload(void *arg)
{
    struct upload *u = arg;
    cay_close_fd(&u->data_fd);
    cay_close_fd(&u->end_fd);
    free(u);
}

static int keep(int fd, const char *data, size_t len, struct cay_error *err)
{
    return cay_write_all(fd, data, len)
               ? 0
               : cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot keep the archive");
}

/* An archive on its way into its file; a whole that is packed is unpacked. */
struct intake {
    struct cay_packed *unpacker;
    int to;
    uint64_t packed, plain;
    char *in, *out; /* CHUNK each */
    size_t held;    /* of `in`, until there is enough to tell how it is packed */
};

static void intake_done(struct intake *k)
{
    cay_packed_free(k->unpacker);
    free(k->in);
    free(k->out);
}

static int too_large(uint64_t plain, uint64_t packed, struct cay_error *err)
{
    if (plain > (uint64_t)CAY_ARCHIVE_BYTES)
        return cay_fail(err, CAY_ERR_TOO_LARGE, "an archive of more than %lld bytes",
                        (long long)CAY_ARCHIVE_BYTES);
    if (plain > (uint64_t)CAY_LAYER_RATIO_BYTES && plain / CAY_LAYER_RATIO > packed)
        return cay_fail(err, CAY_ERR_TOO_LARGE,
                        "the archive unpacks to more than %d times its size", CAY_LAYER_RATIO);
    return 0;
}

/* All that is held; and at the end what the unpacker holds. */
static int take(struct intake *k, struct cay_error *err)
{
    struct cay_packed_in in = {(unsigned char *)k->in, k->held};
    const char *why;
    long n;
    k->held = 0;
    do {
        n = cay_packed_step(k->unpacker, &in, k->out, CHUNK, &why);
        if (n < 0)
            return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_ARCHIVE",
                               "the archive cannot be unpacked: %s", why);
        k->plain += (uint64_t)n;
        int r = too_large(k->plain, k->packed, err);
        if (r == 0)
            r = keep(k->to, k->out, (size_t)n, err);
        if (r < 0)
            return r;
    } while (in.len > 0 || n == CHUNK);
    return 0;
}

static int end_intake(struct intake *k, struct cay_error *err)
{
    int r = take(k, err);
    if (r == 0 && cay_packed_is_inside(k->unpacker))
        r = take(k, err);
    if (r == 0 && cay_packed_is_inside(k->unpacker))
        r = cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_ARCHIVE",
                        "the archive cannot be unpacked: it ends in the middle");
    return r;
}

static int receive(struct cay_task *task, const struct upload *u, int to, struct cay_error *err)
{
    CAY_CLEANUP(intake_done)
    struct intake k = {
        .unpacker = cay_packed_new(), .to = to, .in = malloc(CHUNK), .out = malloc(CHUNK)};
    struct pollfd p = {.fd = u->data_fd, .events = POLLIN};
    char whole;
    int r = 0;
    if (!k.in || !k.out)
        abort();
    cay_task_at(task, "receiving");
    while (r == 0) {
        if (!cay_task_goes_on(task))
            return cay_fail_as(err, CAY_ERR_CONFLICT, "CANCELLED", "it was given up");
        if (poll(&p, 1, LOOK_MS) <= 0)
            continue;
        ssize_t n = read(u->data_fd, k.in + k.held, CHUNK - k.held);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read the archive");
        k.held += n > 0 ? (size_t)n : 0;
        k.packed += n > 0 ? (uint64_t)n : 0;
        if (k.packed >= HEAD)
            r = take(&k, err);
    }
    if (r == 0 && read(u->end_fd, &whole, 1) != 1)
        r = cay_fail(err, CAY_ERR_INVALID, "the archive did not come to its end");
    return r < 0 ? r : end_intake(&k, err);
}

struct telling {
    struct cay_task *task;
    uint64_t told;
};

static bool step(void *arg, uint64_t done)
{
    struct telling *t = arg;
    bool goes_on = cay_task_more(t->task, 0, (int64_t)(done - t->told));
    t->told = done;
    return goes_on;
}

static int run_load(struct cay_core *core, struct cay_task *task, void *arg, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct upload *u = arg;
    struct telling telling = {.task = task};
    struct cay_progress progress = {step, &telling};
    struct cay_strs names;
    CAY_AUTO_FD int file = openat(core->pulls_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a file for the archive");
    int r = receive(task, u, file, err);
    if (r < 0)
        return r;
    cay_task_at(task, "unpacking");
    r = cay_load_images(core->provider, file, *u->as ? u->as : NULL, &progress, &a, &names, err);
    if (r < 0)
        return r;
    CAY_AUTO_BUF struct cay_buf note = {0};
    for (size_t i = 0; i < names.count; i++)
        cay_buf_addf(&note, "%s%s", i ? ", " : "", names.at[i]);
    cay_buf_addc(&note, 0);
    cay_task_note(task, note.data);
    return 0;
}

/* Ends of pipes; the server's are non-blocking. */
static int make_pipes(struct upload *u, struct cay_load_ends *out, struct cay_error *err)
{
    int data[2], end[2];
    if (pipe2(data, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot make a pipe");
    u->data_fd = data[0];
    CAY_AUTO_FD int into = data[1];
    if (pipe2(end, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot make a pipe");
    u->end_fd = end[0];
    (void)fcntl(into, F_SETFL, O_NONBLOCK);
    (void)fcntl(end[1], F_SETFL, O_NONBLOCK);
    *out = (struct cay_load_ends){cay_take_fd(&into), end[1]};
    return 0;
}

int cay_core_image_load(struct cay_core *core, const struct cay_account *owner, const char *as,
                        struct cay_load_ends *out, char job_out[CAY_ID_SIZE], struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_ref ref;
    struct cay_load_ends ends;
    if (as) {
        int r = cay_ref_parse(&a, as, &ref, err);
        if (r < 0)
            return cay_fail_field(err, "name", "not the name of an image: %.100s", as);
    }
    struct upload *u = calloc(1, sizeof *u);
    if (!u)
        abort();
    *u = (struct upload){-1, -1, ""};
    cay_str_copy(u->as, sizeof u->as, as ? as : "");
    int r = make_pipes(u, &ends, err);
    if (r < 0) {
        drop_upload(u);
        return r;
    }
    struct cay_task_spec spec = {.kind = load_kind,
                                 .subject = as ? as : "archive",
                                 .run = run_load,
                                 .drop = drop_upload,
                                 .arg = u};
    r = cay_task_begin(core, owner, &spec, job_out, err);
    if (r < 0) {
        (void)close(ends.data_fd);
        (void)close(ends.end_fd);
        return r;
    }
    *out = ends;
    return 0;
}
