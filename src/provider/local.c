/* SPDX-License-Identifier: Apache-2.0 */
/* How such providers begin and end, and the thread by which each hears of deaths. */
#include "provider/local.h"
#include "model/limits.h"
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

void cay_local_init(struct cay_local *l, const struct cay_config *cfg, struct cay_queue *events)
{
    l->data_fd = cfg->data_fd;
    l->log_head_bytes = (uint64_t)(cfg->log_head_bytes ? cfg->log_head_bytes : CAY_LOG_HEAD_BYTES);
    l->log_tail_bytes = (uint64_t)(cfg->log_tail_bytes ? cfg->log_tail_bytes : CAY_LOG_TAIL_BYTES);
    l->events = events;
    l->closing = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&l->lock, NULL);
    cay_turns_init(&l->turns);
}

int cay_local_listen(struct cay_local *l, void *(*listener)(void *), struct cay_error *err)
{
    errno = l->closing < 0 ? EMFILE : pthread_create(&l->listener, NULL, listener, l);
    if (errno != 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot start the %s provider",
                              l->base.ops->name);
    l->listens = true;
    return 0;
}

bool cay_local_closing(struct cay_local *l, int fd, int64_t wait_ms)
{
    struct pollfd fds[] = {{.fd = l->closing, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    return poll(fds, CAY_COUNT(fds), (int)wait_ms) > 0 && fds[0].revents;
}

void cay_local_tell(struct cay_local *l, const struct cay_provider_entry *e)
{
    struct cay_provider_entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        abort();
    if (e)
        *entry = *e;
    if (!cay_queue_push(l->events, entry))
        free(entry); /* full: reconcile finds it */
}

void cay_local_done(struct cay_local *l)
{
    uint64_t one = 1;
    if (l->listens) {
        (void)!write(l->closing, &one, sizeof one);
        pthread_join(l->listener, NULL);
    }
    cay_close_fd(&l->closing);
    for (size_t i = 0; i < CAY_LOCAL_BUCKETS; i++)
        while (l->pid1s[i])
            cay_pid1_forget(l, l->pid1s[i]->id);
    while (l->engine_count)
        close(l->engine[--l->engine_count]);
    pthread_mutex_destroy(&l->lock);
    cay_turns_done(&l->turns);
}
