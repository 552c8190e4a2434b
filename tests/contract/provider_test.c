/* SPDX-License-Identifier: Apache-2.0 */
/* What every provider must do, against the fake; other providers are named by CAY_TEST_PROVIDER and
 * opened in the data directory that CAY_TEST_DATA names. */
#include "base/clock.h"
#include "log/files.h"
#include "log/reader.h"
#include "model/limits.h"
#include "provider/provider.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

struct suite {
    struct cay_provider *p;
    struct cay_queue events;
    struct cay_arena a;
    struct cay_spec spec;
    int data_fd, logs_fd;
    char id[CAY_ID_SIZE];
};

static bool begin(struct suite *s)
{
    struct cay_error err = {0};
    const char *name = getenv("CAY_TEST_PROVIDER"), *data = getenv("CAY_TEST_DATA");
    *s = (struct suite){.spec = cay_spec_default()};
    s->data_fd = open(data ? data : test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int dir_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)mkdirat(dir_fd, "logs", 0700);
    s->logs_fd = openat(dir_fd, "logs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(dir_fd);
    struct cay_config cfg = {.data = data ? data : test_dir(), .data_fd = s->data_fd};
    cay_queue_init(&s->events, 64);
    cay_id_sandbox(s->id);
    s->spec.name = "contract";
    s->spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    if (cay_provider_open(name ? name : "fake", &cfg, &s->events, &s->p, &err) == 0)
        return true;
    test_failed(__FILE__, __LINE__, "open: %s (%s)", err.msg, err.cause);
    return false;
}

static void end(struct suite *s)
{
    struct cay_error err = {0};
    void *event;
    CHECK_EQ("destroy", cay_provider_destroy(s->p, s->id, NULL, NULL, &err), 0);
    cay_provider_close(s->p);
    while ((event = cay_queue_pop(&s->events, 0)) != NULL)
        free(event);
    cay_queue_done(&s->events);
    cay_arena_done(&s->a);
    close(s->logs_fd);
    close(s->data_fd);
}

static const struct cay_provider_entry *find(struct suite *s)
{
    struct cay_error err = {0};
    struct cay_provider_list list = {0};
    CHECK_EQ("list", cay_provider_list(s->p, &s->a, &list, &err), 0);
    for (size_t i = 0; i < list.count; i++)
        if (strcmp(list.at[i].id, s->id) == 0)
            return &list.at[i];
    return NULL;
}

static int run(struct suite *s, const char *const *words, char exec_id[CAY_ID_SIZE], int *log_fd,
               struct cay_error *err)
{
    struct cay_exec_spec spec = {0};
    for (; *words; words++)
        cay_strs_push(&s->a, &spec.argv, *words);
    cay_id_execution(exec_id);
    int r = cay_log_create(s->logs_fd, s->id, exec_id, &spec, log_fd, err);
    return r < 0 ? r : cay_provider_exec(s->p, s->id, exec_id, &spec, *log_fd, err);
}

/* Waits for the exit record; the deadline is only for a provider that is broken. */
static struct cay_execution wait_end(struct suite *s, int log_fd)
{
    struct cay_execution ex = {0};
    struct cay_error err = {0};
    struct timespec pause = {.tv_nsec = 2000000};
    int64_t until = cay_clock_mono_ms() + 10000;
    do {
        CHECK_EQ("summary", cay_log_summary(log_fd, &s->a, &ex, &err), 0);
        if (ex.status == CAY_EXEC_EXITED)
            return ex;
        (void)nanosleep(&pause, NULL);
    } while (cay_clock_mono_ms() < until);
    CHECK("it ended", false);
    return ex;
}

/* 0 when something listens there, else what connect says; from inside. */
static int try_port(struct suite *s, uint16_t port)
{
    struct cay_error err = {0};
    CAY_AUTO_FD int fd = -1;
    int r = cay_provider_socket(s->p, s->id, CAY_SOCKET_TCP4, &fd, &err);
    if (r < 0)
        return r;
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS)
        return errno;
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    int said = 0;
    socklen_t len = sizeof said;
    CHECK_EQ("an answer", poll(&poll_fd, 1, 5000), 1);
    CHECK_EQ("which", getsockopt(fd, SOL_SOCKET, SO_ERROR, &said, &len), 0);
    return said;
}

TEST(provider_contract_socket)
{
    struct suite s;
    struct cay_error err = {0};
    struct cay_copied copied;
    if (!begin(&s))
        return;
    CHECK_EQ("of nobody", try_port(&s, 1), CAY_ERR_NOT_FOUND);
    CHECK_EQ("create", cay_provider_create(s.p, s.id, &s.spec, &copied, &err), 0);
    CHECK_EQ("nothing listens", try_port(&s, 1), ECONNREFUSED);
    CHECK_EQ("stop", cay_provider_stop(s.p, s.id, 0, &err), 0);
    CHECK_EQ("of one that is down", try_port(&s, 1), CAY_ERR_CONFLICT);
    end(&s);
}

TEST(provider_contract_lifecycle)
{
    struct suite s;
    struct cay_error err = {0};
    struct cay_copied copied;
    struct cay_usage usage;
    if (!begin(&s))
        return;
    CHECK("nothing at first", find(&s) == NULL);
    CHECK_EQ("create", cay_provider_create(s.p, s.id, &s.spec, &copied, &err), 0);
    CHECK_EQ("create finds the first one", cay_provider_create(s.p, s.id, &s.spec, &copied, &err),
             0);
    CHECK("it runs", find(&s) && find(&s)->running);
    CHECK_EQ("usage", cay_provider_usage(s.p, s.id, &usage, &err), 0);
    CHECK_EQ("starting what runs", cay_provider_start(s.p, s.id, &s.spec, &err), 0);
    struct cay_spec more = s.spec;
    more.memory_bytes *= 2;
    CHECK_EQ("other limits", cay_provider_limit(s.p, s.id, &more, &err), 0);
    CHECK_EQ("and back", cay_provider_limit(s.p, s.id, &s.spec, &err), 0);
    CHECK_EQ("stop", cay_provider_stop(s.p, s.id, 1000, &err), 0);
    CHECK("it is down", find(&s) && !find(&s)->running);
    CHECK_STR("and says why", find(&s) ? find(&s)->death.reason : NULL, "stopped");
    CHECK_EQ("stopping what is stopped", cay_provider_stop(s.p, s.id, 0, &err), 0);
    CHECK_EQ("no usage of what is down", cay_provider_usage(s.p, s.id, &usage, &err),
             CAY_ERR_CONFLICT);
    CHECK_EQ("no limits for what is down", cay_provider_limit(s.p, s.id, &more, &err),
             CAY_ERR_CONFLICT);
    CHECK_EQ("start", cay_provider_start(s.p, s.id, &s.spec, &err), 0);
    CHECK("it runs again", find(&s) && find(&s)->running);
    CHECK_EQ("destroy", cay_provider_destroy(s.p, s.id, NULL, &usage, &err), 0);
    CHECK("and what it had used", usage.memory_peak_bytes > 0);
    CHECK("nothing is left", find(&s) == NULL);
    CHECK_EQ("destroying what is gone", cay_provider_destroy(s.p, s.id, NULL, NULL, &err), 0);
    end(&s);
}

TEST(provider_contract_pause)
{
    static const char *const hello[] = {"echo", "hello", NULL};
    struct suite s;
    struct cay_error err = {0};
    struct cay_copied copied;
    struct cay_usage usage;
    char exec_id[CAY_ID_SIZE];
    CAY_AUTO_FD int log = -1;
    if (!begin(&s))
        return;
    CHECK_EQ("pausing what nobody knows", cay_provider_pause(s.p, s.id, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ("create", cay_provider_create(s.p, s.id, &s.spec, &copied, &err), 0);
    CHECK_EQ("resuming what runs", cay_provider_resume(s.p, s.id, &err), 0);
    CHECK_EQ("pause", cay_provider_pause(s.p, s.id, &err), 0);
    CHECK("paused, and running", find(&s) && find(&s)->running && find(&s)->paused);
    CHECK_EQ("pausing what is paused", cay_provider_pause(s.p, s.id, &err), 0);
    CHECK_EQ("usage", cay_provider_usage(s.p, s.id, &usage, &err), 0);
    CHECK_EQ("resume", cay_provider_resume(s.p, s.id, &err), 0);
    CHECK("it goes on", find(&s) && find(&s)->running && !find(&s)->paused);
    CHECK_EQ("exec", run(&s, hello, exec_id, &log, &err), 0);
    CHECK_EQ("its code", wait_end(&s, log).exit_code, 0);
    CHECK_EQ("pause again", cay_provider_pause(s.p, s.id, &err), 0);
    CHECK_EQ("stop", cay_provider_stop(s.p, s.id, 1000, &err), 0);
    CHECK("down, not paused", find(&s) && !find(&s)->running && !find(&s)->paused);
    CHECK_EQ("pausing what is down", cay_provider_pause(s.p, s.id, &err), CAY_ERR_CONFLICT);
    CHECK_EQ("start", cay_provider_start(s.p, s.id, &s.spec, &err), 0);
    CHECK("awake", find(&s) && find(&s)->running && !find(&s)->paused);
    CHECK_EQ("pause", cay_provider_pause(s.p, s.id, &err), 0);
    end(&s); /* destroys it as it is */
}

TEST(provider_contract_unknown_ids)
{
    struct suite s;
    struct cay_error err = {0};
    struct cay_copied copied;
    struct cay_usage usage;
    struct cay_strs running;
    if (!begin(&s))
        return;
    CHECK_EQ("start", cay_provider_start(s.p, s.id, &s.spec, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ("stop", cay_provider_stop(s.p, s.id, 0, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ("usage", cay_provider_usage(s.p, s.id, &usage, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ("executions", cay_provider_executions(s.p, s.id, &s.a, &running, &err),
             CAY_ERR_NOT_FOUND);
    s.spec.image = "missing:image";
    CHECK_EQ("an image nobody has", cay_provider_create(s.p, s.id, &s.spec, &copied, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_STR("by name", cay_error_name(&err), "IMAGE_NOT_FOUND");
    CHECK("nothing is left of it", find(&s) == NULL);
    end(&s);
}

TEST(provider_contract_executions)
{
    static const char *const hello[] = {"echo", "hello", NULL};
    static const char *const sleeps[] = {"sleep", "60", NULL};
    struct suite s;
    struct cay_error err = {0};
    struct cay_copied copied;
    struct cay_strs running = {0};
    char exec_id[CAY_ID_SIZE];
    CAY_AUTO_FD int one = -1, two = -1, three = -1;
    if (!begin(&s))
        return;
    CHECK_EQ("create", cay_provider_create(s.p, s.id, &s.spec, &copied, &err), 0);
    CHECK_EQ("exec", run(&s, hello, exec_id, &one, &err), 0);
    struct cay_execution ex = wait_end(&s, one);
    CHECK_EQ("its code", ex.exit_code, 0);
    CHECK("its output", ex.stdout_bytes > 0);
    CHECK_EQ("killing what ended", cay_provider_kill(s.p, s.id, exec_id, SIGTERM, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_STR("by name", cay_error_name(&err), "EXECUTION_NOT_RUNNING");

    CHECK_EQ("exec that lasts", run(&s, sleeps, exec_id, &two, &err), 0);
    CHECK_EQ("executions", cay_provider_executions(s.p, s.id, &s.a, &running, &err), 0);
    CHECK_EQ("one runs", running.count, 1);
    CHECK_EQ("kill", cay_provider_kill(s.p, s.id, exec_id, SIGKILL, &err), 0);
    ex = wait_end(&s, two);
    CHECK_EQ("by signal", ex.signal, SIGKILL);
    CHECK_STR("that was asked for", ex.reason, "killed");

    CHECK_EQ("stop", cay_provider_stop(s.p, s.id, 0, &err), 0);
    CHECK_EQ("exec in what is down", run(&s, hello, exec_id, &three, &err), CAY_ERR_CONFLICT);
    CHECK_STR("by name", cay_error_name(&err), "SANDBOX_NOT_RUNNING");
    end(&s);
}

static bool keeps(struct suite *s, const char *kept_id)
{
    struct cay_error err = {0};
    struct cay_strs ids = {0};
    CHECK_EQ("kept", cay_provider_kept(s->p, &s->a, &ids, &err), 0);
    for (size_t i = 0; i < ids.count; i++)
        if (strcmp(ids.at[i], kept_id) == 0)
            return true;
    return false;
}

TEST(provider_contract_snapshots_and_forks)
{
    struct suite s;
    struct cay_error err = {0};
    struct cay_copied copied;
    char fork[CAY_ID_SIZE], snapshot[CAY_ID_SIZE], from[CAY_ID_SIZE];
    if (!begin(&s))
        return;
    cay_id_sandbox(fork);
    cay_id_sandbox(from);
    cay_id_snapshot(snapshot);
    CHECK_EQ("of nothing", cay_provider_snapshot(s.p, s.id, snapshot, &copied, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_EQ("create", cay_provider_create(s.p, s.id, &s.spec, &copied, &err), 0);
    CHECK("from nothing", copied.method == NULL);
    CHECK_EQ("snapshot", cay_provider_snapshot(s.p, s.id, snapshot, &copied, &err), 0);
    CHECK("says how", copied.method != NULL);
    CHECK("it is kept", keeps(&s, snapshot));
    s.spec.from = "sb-00000000000000000000";
    CHECK_EQ("fork of nothing", cay_provider_create(s.p, fork, &s.spec, &copied, &err),
             CAY_ERR_NOT_FOUND);
    s.spec.from = s.id;
    CHECK_EQ("fork", cay_provider_create(s.p, fork, &s.spec, &copied, &err), 0);
    CHECK("says how", copied.method != NULL);
    CHECK_EQ("destroy the source", cay_provider_destroy(s.p, s.id, NULL, NULL, &err), 0);
    s.spec.from = snapshot;
    CHECK_EQ("from the snapshot", cay_provider_create(s.p, from, &s.spec, &copied, &err), 0);
    CHECK_EQ("drop", cay_provider_drop(s.p, snapshot, &err), 0);
    CHECK("gone", !keeps(&s, snapshot));
    CHECK_EQ("drop again", cay_provider_drop(s.p, snapshot, &err), 0);
    CHECK_EQ("the fork goes", cay_provider_destroy(s.p, fork, NULL, NULL, &err), 0);
    CHECK_EQ("the other too", cay_provider_destroy(s.p, from, NULL, NULL, &err), 0);
    end(&s);
}

TEST(provider_contract_volumes)
{
    struct suite s;
    struct cay_error err = {0};
    struct cay_copied copied;
    char volume[CAY_ID_SIZE], one[CAY_ID_SIZE], two[CAY_ID_SIZE];
    if (!begin(&s))
        return;
    cay_id_sandbox(one);
    cay_id_sandbox(two);
    cay_id_volume(volume, s.id);
    CHECK_EQ("create", cay_provider_create(s.p, s.id, &s.spec, &copied, &err), 0);
    CHECK_EQ("kept at the end", cay_provider_destroy(s.p, s.id, volume, NULL, &err), 0);
    CHECK("it is there", keeps(&s, volume));
    s.spec.volume = volume;
    CHECK_EQ("attach", cay_provider_create(s.p, one, &s.spec, &copied, &err), 0);
    CHECK("it is somebody's", !keeps(&s, volume));
    CHECK_EQ("attach again", cay_provider_create(s.p, two, &s.spec, &copied, &err),
             CAY_ERR_CONFLICT);
    CHECK_EQ("not under us", cay_provider_drop(s.p, volume, &err), CAY_ERR_CONFLICT);
    CHECK_EQ("nothing of it", cay_provider_destroy(s.p, two, NULL, NULL, &err), 0);
    CHECK_EQ("given back", cay_provider_destroy(s.p, one, NULL, NULL, &err), 0);
    CHECK("it is there", keeps(&s, volume));
    CHECK_EQ("attach", cay_provider_create(s.p, one, &s.spec, &copied, &err), 0);
    CHECK_EQ("with the sandbox", cay_provider_destroy(s.p, one, "", NULL, &err), 0);
    CHECK("gone", !keeps(&s, volume));
    CHECK_EQ("no such volume", cay_provider_create(s.p, two, &s.spec, &copied, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_EQ("nothing of it", cay_provider_destroy(s.p, two, NULL, NULL, &err), 0);
    end(&s);
}
