/* SPDX-License-Identifier: Apache-2.0 */
/* The way to a sandbox's pid 1, and what its image says of executions. */
#include "base/packet.h"
#include "base/path.h"
#include "engine/dispatcher.h"
#include "engine/image.h"
#include "engine/socket.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int cay_connect_pid1(const struct cay_dispatcher *d, const char *id, int *fd_out,
                     struct cay_error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    CAY_AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/%s/init.sock",
             d->engine.files_fd, id);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot reach pid 1 of %s", id);
    *fd_out = cay_take_fd(&fd);
    return 0;
}

/* How many of them fit, each with its NUL. */
static uint32_t pack_strs(const struct cay_strs *list, char *out, size_t size, size_t *len)
{
    uint32_t count = 0;
    for (; count < list->count; count++) {
        size_t n = strlen(list->at[count]) + 1;
        if (*len + n > size)
            break;
        memcpy(out + *len, list->at[count], n);
        *len += n;
    }
    return count;
}

static size_t pack_image(const struct cay_image *image, const struct cay_engine_copied *copied,
                         char *out, size_t size)
{
    struct cay_engine_image head = {.copied = *copied};
    size_t len = sizeof head;
    bool root =
        !*image->user || strcmp(image->user, "root") == 0 || strncmp(image->user, "0", 1) == 0;
    cay_str_copy(head.user, sizeof head.user, root ? CAY_DEFAULT_USER : image->user);
    cay_str_copy(head.workdir, sizeof head.workdir,
                 *image->workdir ? image->workdir : CAY_DEFAULT_WORKDIR);
    head.argc = pack_strs(&image->entrypoint, out, size, &len);
    head.argc += pack_strs(&image->cmd, out, size, &len);
    if (head.argc < image->entrypoint.count + image->cmd.count) { /* half of it is another one */
        head.argc = 0;
        len = sizeof head;
    }
    head.argv_len = (uint32_t)(len - sizeof head);
    /* an image with more environment than a message: the rest is left out */
    head.env_count = pack_strs(&image->env, out, size, &len);
    head.env_len = (uint32_t)(len - sizeof head - head.argv_len);
    memcpy(out, &head, sizeof head);
    return len;
}

static int read_image(const struct cay_dispatcher *d, const char *id, struct cay_arena *a,
                      struct cay_image *out, struct cay_error *err)
{
    char *text, path[64];
    snprintf(path, sizeof path, "%s/image", id);
    int r = cay_path_read(d->engine.files_fd, path, CAY_MAX_IMAGE_TEXT, a, &text, NULL, err);
    cay_disk_forget(&d->engine.disk, d->engine.files_fd, path);
    return r < 0 ? r : cay_image_parse(a, text, out, err);
}

int cay_connect_stop_signal(const struct cay_dispatcher *d, const char *id)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error ignored; /* then it is SIGTERM */
    struct cay_image image;
    return read_image(d, id, &a, &image, &ignored) < 0 ? 0 : image.stop_signal;
}

void cay_connect_answer(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_CLEANUP(cay_sockets_close) struct cay_sockets s = {0};
    struct cay_error err, ignored;
    struct cay_image image;
    char packed[CAY_MESSAGE_MAX - sizeof(struct cay_engine_reply)];
    int r = read_image(d, box->record.entry.id, &a, &image, &err);
    if (r == 0)
        cay_trust_name(&a, &d->engine.trust, &image.env);
    if (r == 0)
        r = cay_connect_pid1(d, box->record.entry.id, &s.fds[0], &err);
    s.count = r == 0;
    if (r < 0 && box->record.intent != CAY_INTENT_NONE) /* it is on its way down */
        r = cay_fail_as(&err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "sandbox is not running");
    if (r < 0) {
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
        return;
    }
    size_t len = pack_image(&image, &box->copied, packed, sizeof packed);
    /* Where it fails, who asks for it alone hears why. */
    if (p->request.socket == CAY_SOCKET_OUT)
        (void)cay_sockets_of(box, CAY_SOCKET_OUT, &s, &ignored);
    cay_dispatcher_answer_fds(d, p, NULL, packed, len, s.fds, s.count);
}
