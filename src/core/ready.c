/* SPDX-License-Identifier: Apache-2.0 */
/* A look at a log is a read of what was added; a look at a port is a file operation inside, on the
 * kernel's table of sockets, because only the sandbox itself sees its network. That may take as
 * long as its pid 1 likes: whoever was slow is looked at more rarely, so he does not hold up the
 * rest.
 *
 * The id is held all the time, so that a row which says PENDING and is not held is one that a
 * server left behind. Who deletes the sandbox cancels this first. */
#include "core/ready.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core.h"
#include "core/network.h"
#include "core/source.h"
#include "core/ticket.h"
#include "log/files.h"
#include "log/reader.h"
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define FIRST_LOOK_MS 10
#define LOOK_MAX_MS 500
#define SLOW 4            /* who takes a time to answer is left alone for so many of it */
#define RECORDS_MAX 65536 /* of a log, in one look */
#define CONNECT_MS 100    /* a listener that is busy is looked at again */

struct cay_readying {
    struct cay_readying *next;
    struct cay_hold hold;
    struct cay_ticket *ticket;
    char id[CAY_ID_SIZE], start_exec[CAY_ID_SIZE];
    char *account_id, *line;
    uint16_t port;
    bool starts;
    bool busy; /* one of the threads looks at it; under the lock, as look_ms is */
    int64_t timeout_ms, began_ms, until_ms, look_ms, pause_ms; /* monotonic but the first */
    uint64_t offset;                                           /* in the log */
    struct cay_bringing fetch;                                 /* of its source, that comes first */
    struct cay_buf tail[2]; /* of stdout and stderr: what a line may have begun with */
};

enum look { NOT_YET, IS_READY, IS_OVER };

/* ---- looking ---- */

/* Lines have no end in them, so one is found wherever its bytes are. */
static bool has_line(struct cay_readying *j, const struct cay_record *rec)
{
    struct cay_buf *tail = &j->tail[rec->kind == CAY_RECORD_STDERR];
    size_t len = strlen(j->line);
    cay_buf_add(tail, rec->data, rec->len);
    if (memmem(tail->data, tail->len, j->line, len))
        return true;
    if (tail->len >= len) { /* all but what a line may begin with */
        memmove(tail->data, tail->data + tail->len - (len - 1), len - 1);
        tail->len = len - 1;
    }
    return false;
}

/* A start command that failed will not bring it about; one that ended well may have left others
 * behind that do. */
static bool has_failed(const struct cay_record *rec, struct cay_error *err)
{
    struct cay_record_exit end;
    if (!cay_record_exit_read(rec->data, rec->len, &end) || (!end.exit_code && !end.signal))
        return false;
    if (end.signal)
        (void)cay_fail(err, CAY_ERR_TIMEOUT, "the start command was ended by signal %d",
                       end.signal);
    else
        (void)cay_fail(err, CAY_ERR_TIMEOUT, "the start command exited with %d", end.exit_code);
    return true;
}

static enum look look_at_log(struct cay_core *core, struct cay_readying *j, struct cay_error *err)
{
    struct cay_reader reader;
    struct cay_record rec;
    struct cay_error ignored; /* a log that cannot be read has no such line */
    enum look found = NOT_YET;
    int fd;
    if (!j->start_exec[0] || cay_log_open(core->logs_fd, j->id, j->start_exec, &fd, &ignored) < 0)
        return NOT_YET;
    cay_reader_init(&reader, fd, j->offset);
    reader.headers_only = !j->line;
    for (int i = 0; i < RECORDS_MAX && found == NOT_YET; i++) {
        if (cay_reader_next(&reader, &rec, &ignored) != CAY_READ_RECORD)
            break;
        j->offset = rec.next;
        if (j->line && (rec.kind == CAY_RECORD_STDOUT || rec.kind == CAY_RECORD_STDERR) &&
            has_line(j, &rec))
            found = IS_READY;
        else if (rec.kind == CAY_RECORD_EXIT && has_failed(&rec, err))
            found = IS_OVER;
    }
    cay_reader_done(&reader);
    return found;
}

/* Does anybody take the connection? Within a machine that is known at once. */
static bool takes_calls(int fd, const struct sockaddr *to, socklen_t len)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof error;
    if (connect(fd, to, len) == 0)
        return true;
    return errno == EINPROGRESS && poll(&p, 1, CONNECT_MS) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

static enum look look_at_port(struct cay_core *core, const struct cay_readying *j)
{
    const struct sockaddr_in four = {.sin_family = AF_INET,
                                     .sin_port = htons(j->port),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons(j->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct {
        enum cay_socket_kind kind;
        const struct sockaddr *to;
        socklen_t len;
    } ways[] = {{CAY_SOCKET_TCP4, (const struct sockaddr *)&four, sizeof four},
                {CAY_SOCKET_TCP6, (const struct sockaddr *)&six, sizeof six}};
    for (size_t i = 0; i < CAY_COUNT(ways); i++) {
        CAY_AUTO_FD int fd = -1;
        struct cay_error ignored; /* who cannot be asked now may be later */
        if (cay_provider_socket(core->provider, j->id, ways[i].kind, &fd, &ignored) == 0 &&
            takes_calls(fd, ways[i].to, ways[i].len))
            return IS_READY;
    }
    return NOT_YET;
}

/* What has ended does not get ready. */
static enum look look_at_life(struct cay_core *core, const struct cay_readying *j,
                              struct cay_error *err)
{
    struct cay_usage usage;
    int r = cay_provider_usage(core->provider, j->id, &usage, err);
    if (r != CAY_ERR_NOT_FOUND && r != CAY_ERR_CONFLICT)
        return NOT_YET;
    (void)cay_fail(err, CAY_ERR_TIMEOUT, "the sandbox has ended");
    return IS_OVER;
}

/* The source is there: now the start command, and then what is waited for begins. */
static enum look go_on(struct cay_core *core, struct cay_readying *j, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox sb;
    int r = cay_store_get(core->store, j->account_id, j->id, &a, &sb, err);
    if (r == 0)
        r = cay_source_end(core, &sb, &j->fetch, err);
    if (r == 0)
        r = cay_core_begin_inside(core, &sb, err);
    if (r == 0) {
        cay_str_copy(j->start_exec, sizeof j->start_exec, sb.start_exec);
        j->until_ms = cay_clock_mono_ms() + j->timeout_ms;
        j->pause_ms = FIRST_LOOK_MS;
    }
    if (r == 0 && cay_spec_waits(&sb.spec))
        r = cay_store_update(core->store, &sb, CAY_SOON, err);
    if (r < 0)
        return IS_OVER;
    return cay_spec_waits(&sb.spec) ? NOT_YET : IS_READY;
}

static enum look look_at_source(struct cay_core *core, struct cay_readying *j, bool cancelled,
                                struct cay_error *err)
{
    struct cay_error ended;
    int r = cay_source_look(core, j->id, &j->fetch, err);
    if (r == 0 && cancelled)
        r = cay_fail_as(err, CAY_ERR_CONFLICT, "SOURCE_FAILED", "it was deleted meanwhile");
    else if (r == 0 && look_at_life(core, j, &ended) == IS_OVER)
        r = cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "SOURCE_FAILED", "the sandbox has ended");
    if (r > 0)
        return go_on(core, j, err);
    return r < 0 ? IS_OVER : NOT_YET;
}

static enum look look(struct cay_core *core, struct cay_readying *j, bool cancelled,
                      struct cay_error *err)
{
    struct cay_error why = {0};
    if (j->fetch.exec_id[0])
        return look_at_source(core, j, cancelled, err);
    enum look found = cancelled ? IS_OVER : look_at_log(core, j, &why);
    if (cancelled)
        (void)cay_fail(&why, CAY_ERR_TIMEOUT, "it was deleted meanwhile");
    if (found == NOT_YET && j->port)
        found = look_at_port(core, j);
    if (found == NOT_YET)
        found = look_at_life(core, j, &why);
    if (found == NOT_YET && cay_clock_mono_ms() >= j->until_ms) {
        found = IS_OVER;
        why.msg[0] = 0;
    }
    if (found != IS_OVER)
        return found;
    if (j->port)
        (void)cay_fail_as(err, CAY_ERR_TIMEOUT, "NOT_READY",
                          "nobody listened on port %d within %lld ms", j->port,
                          (long long)j->timeout_ms);
    else
        (void)cay_fail_as(err, CAY_ERR_TIMEOUT, "NOT_READY",
                          "the start command did not write the line within %lld ms",
                          (long long)j->timeout_ms);
    cay_str_copy(err->cause, sizeof err->cause, why.msg);
    cay_str_copy(err->field, sizeof err->field, "readyWhen");
    return IS_OVER;
}

/* ---- what follows ---- */

static int say_ready(struct cay_core *core, struct cay_readying *j, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox sb;
    int r = cay_store_get(core->store, j->account_id, j->id, &a, &sb, err);
    if (r < 0)
        return r;
    cay_str_copy(sb.start_exec, sizeof sb.start_exec, j->start_exec);
    if (!j->starts)
        return cay_core_say_made(core, &sb, j->began_ms, err);
    cay_core_mark_started(&sb, cay_clock_ms());
    cay_core_note(core, &sb, CAY_NOW);
    cay_core_tell(core, &sb, NULL);
    cay_core_mind_start(core, &sb);
    return 0;
}

/* The waiting caller has the error that matters, and if nobody waits, the row tells it. */
static void take_back(struct cay_core *core, const struct cay_readying *j,
                      const struct cay_error *why)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox sb;
    struct cay_error err = {0};
    if (j->starts) {
        cay_network_forget(core, j->id);
        if (cay_provider_stop(core->provider, j->id, 0, &err) < 0)
            cay_log_error(&err, "cannot stop sandbox %s, which did not get ready", j->id);
    } else if (cay_store_get(core->store, j->account_id, j->id, &a, &sb, &err) == 0) {
        cay_core_take_back(core, &sb, why);
    } else if (err.code != CAY_ERR_NOT_FOUND) { /* reconcile finds it PENDING */
        cay_log_error(&err, "cannot take back sandbox %s yet", j->id);
    }
}

static void job_free(struct cay_readying *j)
{
    cay_hold_end(&j->hold);
    cay_buf_done(&j->tail[0]);
    cay_buf_done(&j->tail[1]);
    free(j->account_id);
    free(j->line);
    free(j);
}

/* The id is free when the waiter hears of it. */
static void finish(struct cay_core *core, struct cay_readying *j, enum look found,
                   struct cay_error *why)
{
    struct cay_ticket *ticket = j->ticket;
    int r = found == IS_READY ? say_ready(core, j, why) : why->code;
    if (r < 0)
        take_back(core, j, why);
    if (r < 0 && !ticket)
        cay_log_error(why, "sandbox %s is not ready", j->id);
    job_free(j);
    cay_ticket_done(ticket, r < 0 ? why : NULL);
}

/* When to look again, at one that was asked at that time. */
static int64_t next_look(struct cay_readying *j, int64_t asked_ms)
{
    int64_t now_ms = cay_clock_mono_ms(), next_ms = j->pause_ms * 3 / 2;
    j->pause_ms = next_ms < LOOK_MAX_MS ? next_ms : LOOK_MAX_MS;
    if (j->pause_ms < SLOW * (now_ms - asked_ms))
        j->pause_ms = SLOW * (now_ms - asked_ms);
    return now_ms + j->pause_ms < j->until_ms ? now_ms + j->pause_ms : j->until_ms;
}

/* ---- the threads ---- */

static struct cay_readying *next_free(const struct cay_readier *r)
{
    struct cay_readying *next = NULL;
    for (struct cay_readying *j = r->first; j; j = j->next)
        if (!j->busy && (!next || j->look_ms < next->look_ms))
            next = j;
    return next;
}

/* Under the lock: the next one that is due; NULL when it is time to go. */
static struct cay_readying *wait_due(struct cay_readier *r)
{
    while (!r->closing) {
        struct cay_readying *j = next_free(r);
        if (!j) {
            pthread_cond_wait(&r->more, &r->lock);
        } else if (j->look_ms > cay_clock_mono_ms()) {
            const struct timespec until = {.tv_sec = j->look_ms / 1000,
                                           .tv_nsec = j->look_ms % 1000 * 1000000};
            (void)pthread_cond_timedwait(&r->more, &r->lock, &until); /* asked above */
        } else {
            j->busy = true;
            return j;
        }
    }
    return NULL;
}

static void take_out(struct cay_readier *r, const struct cay_readying *j)
{
    struct cay_readying **at = &r->first;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
}

static bool is_cancelled(const struct cay_readier *r, const char *id)
{
    const struct cay_ready_cancel *c = r->cancels;
    while (c && strcmp(c->id, id) != 0)
        c = c->next;
    return c != NULL;
}

/* Looks, without the lock that the caller has; what is over goes. */
static void attend(struct cay_core *core, struct cay_readying *j)
{
    struct cay_readier *r = &core->readier;
    struct cay_error why = {0};
    int64_t asked_ms = cay_clock_mono_ms();
    bool cancelled = is_cancelled(r, j->id);
    pthread_mutex_unlock(&r->lock);
    enum look found = look(core, j, cancelled, &why);
    pthread_mutex_lock(&r->lock);
    j->busy = false;
    j->look_ms = is_cancelled(r, j->id) ? 0 : next_look(j, asked_ms);
    if (found == NOT_YET)
        return;
    take_out(r, j);
    pthread_mutex_unlock(&r->lock);
    finish(core, j, found, &why);
    pthread_mutex_lock(&r->lock);
}

static void *readier_main(void *arg)
{
    struct cay_core *core = arg;
    struct cay_readier *r = &core->readier;
    struct cay_readying *j;
    pthread_mutex_lock(&r->lock);
    while ((j = wait_due(r)) != NULL)
        attend(core, j);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

void cay_ready_add(struct cay_core *core, const struct cay_sandbox *sb,
                   const struct cay_bringing *fetch, bool starts, int64_t began_ms,
                   struct cay_hold *hold, struct cay_ticket *ticket)
{
    const struct cay_ready *ready = &sb->spec.ready;
    struct cay_readying *j = calloc(1, sizeof *j);
    int64_t now_ms = cay_clock_mono_ms();
    if (!j)
        abort();
    *j = (struct cay_readying){.ticket = ticket,
                               .account_id = strdup(sb->account_id),
                               .line = ready->line ? strdup(ready->line) : NULL,
                               .port = ready->port,
                               .starts = starts,
                               .timeout_ms = ready->timeout_ms,
                               .began_ms = began_ms,
                               .until_ms = fetch ? fetch->until_ms : now_ms + ready->timeout_ms,
                               .look_ms = now_ms + FIRST_LOOK_MS,
                               .pause_ms = FIRST_LOOK_MS};
    if (!j->account_id || (ready->line && !j->line))
        abort();
    if (fetch)
        j->fetch = *fetch;
    cay_str_copy(j->id, sizeof j->id, sb->id);
    cay_str_copy(j->start_exec, sizeof j->start_exec, sb->start_exec);
    cay_hold_move(hold, &j->hold);
    struct cay_readier *r = &core->readier;
    pthread_mutex_lock(&r->lock);
    j->next = r->first;
    r->first = j;
    pthread_cond_signal(&r->more);
    while (r->started == 0 && r->first && (j = wait_due(r)) != NULL)
        attend(core, j);
    pthread_mutex_unlock(&r->lock);
}

void cay_ready_cancel(struct cay_core *core, const char *id, struct cay_ready_cancel *c)
{
    struct cay_readier *r = &core->readier;
    *c = (struct cay_ready_cancel){.of = r};
    cay_str_copy(c->id, sizeof c->id, id);
    pthread_mutex_lock(&r->lock);
    c->next = r->cancels;
    r->cancels = c;
    for (struct cay_readying *j = r->first; j; j = j->next)
        if (strcmp(j->id, id) == 0)
            j->look_ms = 0;
    pthread_cond_signal(&r->more);
    pthread_mutex_unlock(&r->lock);
}

bool cay_ready_is_cancelled(struct cay_core *core, const char *id)
{
    struct cay_readier *r = &core->readier;
    pthread_mutex_lock(&r->lock);
    bool cancelled = is_cancelled(r, id);
    pthread_mutex_unlock(&r->lock);
    return cancelled;
}

void cay_ready_cancel_end(struct cay_ready_cancel *c)
{
    struct cay_readier *r = c->of;
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    struct cay_ready_cancel **at = &r->cancels;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pthread_mutex_unlock(&r->lock);
}

void cay_readier_init(struct cay_readier *r)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->more, &attr);
    pthread_condattr_destroy(&attr);
}

int cay_readier_start(struct cay_core *core, struct cay_error *err)
{
    struct cay_readier *r = &core->readier;
    for (; r->started < CAY_READIERS; r->started++)
        if (pthread_create(&r->threads[r->started], NULL, readier_main, core) != 0)
            return cay_fail(err, CAY_ERR_INTERNAL, "cannot start a thread");
    return 0;
}

void cay_readier_done(struct cay_core *core)
{
    struct cay_readier *r = &core->readier;
    struct cay_error stopping = {0};
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_cond_broadcast(&r->more);
    pthread_mutex_unlock(&r->lock);
    while (r->started > 0)
        (void)pthread_join(r->threads[--r->started], NULL);
    (void)cay_fail(&stopping, CAY_ERR_UNAVAILABLE, "the server is stopping");
    while (r->first) {
        struct cay_readying *j = r->first;
        struct cay_ticket *ticket = j->ticket;
        r->first = j->next;
        job_free(j);
        cay_ticket_done(ticket, &stopping);
    }
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->more);
}
