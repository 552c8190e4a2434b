/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file.h"
#include "file/try.h"
#include "tests/test.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define ARGS_MAX 160

static CAY_NORETURN void child(const struct cay_file_request *rq, int in, int out, int commit)
{
    CAY_AUTO_BUF struct cay_buf strings = {0};
    char *argv[ARGS_MAX + 1];
    uint32_t argc = cay_file_encode(rq, &strings);
    char *at = strings.data;
    for (uint32_t i = 0; i < argc && i < ARGS_MAX; i++, at += strlen(at) + 1)
        argv[i] = at;
    (void)signal(SIGPIPE, SIG_DFL);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || (commit >= 0 && dup2(commit, 3) < 0))
        _exit(9);
    (void)close_range(4, ~0U, 0);
    (void)cay_file_main((int)argc, argv);
    cay_buf_done(&strings);
    _exit(0);
}

static void feed(const struct try_input *in, int fd)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)!write(fd, "", 0);
    for (size_t at = 0; in && at < in->len;) {
        ssize_t n = write(fd, (const char *)in->data + at, in->len - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    _exit(0);
}

/* Above what the child puts its own at. */
static void raise_fds(int fds[2])
{
    for (int i = 0; i < 2; i++) {
        int low = fds[i];
        fds[i] = fcntl(low, F_DUPFD, 20);
        (void)close(low);
    }
}

struct tried try_file(struct cay_file_request rq, const struct try_input *in)
{
    struct tried t = {0};
    int data[2], out[2], commit[2];
    char buf[65536];
    size_t have = 0;
    if (!rq.cwd)
        rq.cwd = test_dir();
    if (pipe(data) < 0 || pipe(out) < 0 || pipe(commit) < 0)
        return t;
    if (in && !in->uncommitted)
        (void)!write(commit[1], "1", 1);
    raise_fds(data);
    raise_fds(out);
    raise_fds(commit);
    pid_t worker = fork();
    if (worker == 0) {
        (void)close(data[1]);
        (void)close(commit[1]);
        child(&rq, data[0], out[1], commit[0]);
    }
    pid_t feeder = fork();
    if (feeder == 0) {
        (void)close(data[0]);
        (void)close(out[0]);
        feed(in, data[1]);
    }
    (void)close(data[0]), (void)close(data[1]), (void)close(out[1]), (void)close(commit[0]);
    (void)close(commit[1]);
    for (ssize_t n; (n = read(out[0], buf, sizeof buf)) > 0;)
        cay_buf_add(&t.data, buf, (size_t)n);
    (void)close(out[0]);
    int status = 0;
    (void)waitpid(feeder, NULL, 0);
    (void)waitpid(worker, &status, 0);
    CHECK_EQ("cay-file ends well", status, 0);
    have = t.data.len;
    t.answered = cay_file_reply_parse(t.data.data, have, &rq, &t.reply);
    CHECK("an answer", t.answered);
    if (t.answered)
        cay_buf_drop(&t.data, sizeof t.reply);
    return t;
}

void try_done(struct tried *t)
{
    cay_buf_done(&t->data);
}

const char *try_path(const char *name)
{
    static char paths[4][4200];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", test_dir(), name);
    return path;
}

void try_put(const char *name, const char *content)
{
    CAY_AUTO_FD int fd = open(try_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (write(fd, content, strlen(content)) != (ssize_t)strlen(content))
        test_failed(__FILE__, __LINE__, "cannot write %s", name);
}

const char *try_get(const char *name)
{
    static char text[65536];
    CAY_AUTO_FD int fd = open(try_path(name), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n < 0)
        return NULL;
    text[n] = 0;
    return text;
}

size_t try_count(const char *dir)
{
    size_t count = 0;
    DIR *d = opendir(try_path(dir));
    for (struct dirent *e; d && (e = readdir(d));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        (void)closedir(d);
    return count;
}
