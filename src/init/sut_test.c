/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "init/sut.h"
#include "log/files.h"
#include "log/reader.h"
#include "log/writer.h"
#include "model/limits.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#define WAIT_MS 20000 /* a failure, not a pace */

/* cay-file lies beside cay-init. */
static void place_file(void)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", getenv("CAY_INIT"));
    char *slash = strrchr(path, '/');
    if (slash)
        (void)snprintf(slash, sizeof path - (size_t)(slash - path), "/cay-file");
    int fd = open(path, O_RDONLY);
    if (fd >= 0 && fd != CAY_INIT_FILE_FD) {
        (void)dup2(fd, CAY_INIT_FILE_FD);
        (void)close(fd);
    }
}

static CAY_NORETURN void enter(int listen_fd, int go_fd)
{
    char c;
    if (read(go_fd, &c, 1) != 1)
        _exit(90);
    (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    (void)mount("proc", "/proc", "proc", 0, NULL); /* where it is refused, /proc/self is missing */
    (void)mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620");
    int null = open("/dev/null", O_RDWR);
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 || dup2(null, 0) < 0 ||
        dup2(null, 1) < 0 || dup2(null, 2) < 0 || (listen_fd != 3 && dup2(listen_fd, 3) < 0) ||
        chdir("/") < 0)
        _exit(91);
    (void)close_range(4, ~0U, 0);
    place_file();
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    char *const argv[] = {(char *)(uintptr_t) "cay-init", NULL}, *const env[] = {NULL};
    (void)execve(getenv("CAY_INIT"), argv, env);
    _exit(92);
}

static bool write_map(pid_t pid, const char *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    CAY_AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, "0 0 65536\n", 10) == 10;
}

int sut_dial(const struct sut *s)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&s->addr, sizeof s->addr) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

bool sut_begin(struct sut *s)
{
    if (!getenv("CAY_INIT") || getuid() != 0) {
        printf("note: init tests skipped: they need root and CAY_INIT=path of cay-init\n");
        return false;
    }
    *s = (struct sut){.addr.sun_family = AF_UNIX, .conn = -1};
    snprintf(s->addr.sun_path, sizeof s->addr.sun_path, "%s/init.sock", test_dir());
    s->logs_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTO_FD int listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int go[2];
    if (bind(listen_fd, (struct sockaddr *)&s->addr, sizeof s->addr) < 0 ||
        listen(listen_fd, 64) < 0 || pipe2(go, O_CLOEXEC) < 0) {
        test_failed(__FILE__, __LINE__, "cannot set up: %s", strerror(errno));
        return false;
    }
    s->pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL,
                            NULL, NULL, NULL);
    if (s->pid == 0)
        enter(listen_fd, go[0]);
    (void)close(go[0]);
    bool ok = s->pid > 0 && write_map(s->pid, "uid_map") && write_map(s->pid, "gid_map") &&
              write(go[1], "x", 1) == 1;
    (void)close(go[1]);
    s->conn = sut_dial(s);
    CHECK("cay-init starts", ok && s->conn >= 0);
    return ok && s->conn >= 0;
}

int sut_await_pid(const struct sut *s)
{
    CAY_AUTO_FD int pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int status = -1;
    if (poll(&p, 1, WAIT_MS) == 1 && waitpid(s->pid, &status, 0) == s->pid)
        return status;
    (void)kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, &status, 0);
    return -1;
}

void sut_end(struct sut *s)
{
    (void)kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, NULL, 0);
    cay_close_fd(&s->conn);
    cay_close_fd(&s->logs_fd);
}

bool sut_send_raw(int conn, const void *head, size_t head_len, const void *more, size_t more_len,
                  const int *fds, size_t fd_count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct iovec iov[2] = {{(void *)(uintptr_t)head, head_len},
                           {(void *)(uintptr_t)more, more_len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    if (fd_count) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);
        cm->cmsg_level = SOL_SOCKET;
        cm->cmsg_type = SCM_RIGHTS;
        cm->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(cm), fds, fd_count * sizeof(int));
    }
    return sendmsg(conn, &msg, MSG_NOSIGNAL) == (ssize_t)(head_len + more_len);
}

int sut_receive(int conn, struct cay_init_reply *out, char *strings, size_t size)
{
    struct iovec iov[2] = {{out, sizeof *out}, {strings, size}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    struct pollfd p = {.fd = conn, .events = POLLIN};
    if (poll(&p, 1, WAIT_MS) != 1 || recvmsg(conn, &msg, 0) < (ssize_t)sizeof *out)
        return -1;
    return (int)out->result;
}

int sut_ask(int conn, struct cay_init_request req)
{
    struct cay_init_reply reply;
    req.version = CAY_INIT_VERSION;
    if (!sut_send_raw(conn, &req, sizeof req, NULL, 0, NULL, 0))
        return -1;
    return sut_receive(conn, &reply, NULL, 0);
}

static void add(struct cay_buf *b, const char *s)
{
    cay_buf_add(b, s, strlen(s) + 1);
}

int sut_make_memfd(const void *data, size_t len, int seals)
{
    int fd = memfd_create("strings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (write(fd, data, len) != (ssize_t)len || fcntl(fd, F_ADD_SEALS, seals) < 0)
        test_failed(__FILE__, __LINE__, "memfd: %s", strerror(errno));
    return fd;
}

/* The log ends just before a page does, and no page is free. */
static void fill_disk(const struct sut *s, const struct sut_job *j)
{
    static const char zeros[4096];
    struct cay_writer w;
    CAY_AUTO_FD int ballast =
        openat(s->logs_fd, SHELF "/ballast", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cay_writer_init(&w, j->log_fd, 8 * CAY_MIB, 8 * CAY_MIB);
    cay_writer_output(&w, CAY_RECORD_STDOUT, zeros, sizeof zeros - 16 - 10 - w.offset, 1);
    for (off_t at = 0; fallocate(ballast, 0, at, 4096) == 0; at += 4096)
        ;
}

bool sut_send_exec(const struct sut *s, int conn, struct sut_job *j)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    struct cay_error err = {0};
    struct cay_exec_spec spec = {.argv = {.at = (const char *[]){"x"}, .count = 1}};
    cay_id_execution(j->id);
    j->log_fd = -1;
    CHECK_EQ(err.msg, cay_log_create(s->logs_fd, SANDBOX, j->id, &spec, &j->log_fd, &err), 0);
    if (j->full_disk)
        fill_disk(s, j);
    add(&b, j->user ? j->user : "root");
    add(&b, j->cwd ? j->cwd : "/");
    add(&b, j->name ? j->name : "sh");
    if (!j->name) {
        add(&b, "-c");
        add(&b, j->script);
    }
    if (j->env)
        add(&b, j->env);
    struct cay_init_request req = {
        .version = CAY_INIT_VERSION,
        .op = CAY_INIT_EXEC,
        .flags = (j->by_memfd ? CAY_INIT_BY_MEMFD : 0) | (j->stdin_fd ? CAY_INIT_HAS_STDIN : 0) |
                 (j->open_stdin ? CAY_INIT_OPEN_STDIN : 0) | (j->window ? CAY_INIT_TTY : 0),
        .window = j->window ? j->window : j->await_ms,
        .argc = j->name ? 1 : 3,
        .envc = j->env != NULL,
        .strings_len = (uint32_t)b.len,
        .grace_ms = j->grace_ms,
        .timeout_ms = j->timeout_ms,
        .log_head_bytes = j->cap_bytes ? j->cap_bytes : 8 * CAY_MIB,
        .log_tail_bytes = j->cap_bytes ? j->cap_bytes : 8 * CAY_MIB};
    memcpy(req.exec_id, j->id, sizeof req.exec_id);
    CAY_AUTO_FD int memfd =
        j->by_memfd ? sut_make_memfd(b.data, b.len, F_SEAL_WRITE | F_SEAL_SHRINK) : -1;
    int fds[3];
    size_t n = 0;
    if (j->by_memfd)
        fds[n++] = memfd;
    fds[n++] = j->log_fd;
    if (j->stdin_fd)
        fds[n++] = j->stdin_fd;
    return sut_send_raw(conn, &req, sizeof req, b.data, j->by_memfd ? 0 : b.len, fds, n);
}

int sut_start(const struct sut *s, struct sut_job *j)
{
    struct cay_init_reply reply;
    if (!sut_send_exec(s, s->conn, j))
        return -1;
    return sut_receive(s->conn, &reply, NULL, 0);
}

int sut_give_input(const struct sut *s, const struct sut_job *j, bool closes, struct sut_input *out)
{
    struct cay_init_request req = {.version = CAY_INIT_VERSION, .op = CAY_INIT_INPUT};
    struct cay_init_reply reply;
    int input[2], end[2];
    if (pipe2(input, O_CLOEXEC) < 0 || pipe2(end, O_CLOEXEC) < 0)
        return -1;
    req.flags = closes ? CAY_INIT_CLOSE : 0;
    memcpy(req.exec_id, j->id, sizeof req.exec_id);
    bool sent =
        sut_send_raw(s->conn, &req, sizeof req, NULL, 0, (int[]){input[0], end[0]}, closes ? 2 : 1);
    (void)close(input[0]);
    (void)close(end[0]);
    *out = (struct sut_input){input[1], end[1]};
    int result = sent ? sut_receive(s->conn, &reply, NULL, 0) : -1;
    return result == CAY_INIT_NO_STREAM ? -reply.error : result;
}

void sut_write(const struct sut_input *i, const char *text)
{
    CHECK_EQ(text, write(i->fd, text, strlen(text)), strlen(text));
}

void sut_end_input(struct sut_input *i, bool whole)
{
    if (whole)
        CHECK_EQ("end", write(i->end_fd, "1", 1), 1);
    cay_close_fd(&i->end_fd);
    cay_close_fd(&i->fd);
}

struct cay_execution sut_summary(const struct sut_job *j, struct cay_arena *a)
{
    struct cay_execution x = {0};
    struct cay_error err = {0};
    CHECK_EQ(err.msg, cay_log_summary(j->log_fd, a, &x, &err), 0);
    return x;
}

const char *sut_output(const struct sut_job *j, enum cay_record_kind kind, struct cay_arena *a)
{
    CAY_CLEANUP(cay_reader_rest) struct cay_reader r;
    CAY_AUTO_BUF struct cay_buf b = {0};
    struct cay_record rec;
    struct cay_error err = {0};
    cay_reader_init(&r, j->log_fd, 0);
    while (cay_reader_next(&r, &rec, &err) == CAY_READ_RECORD)
        if (rec.kind == kind)
            cay_buf_add(&b, rec.data, rec.len);
    return cay_arena_strndup(a, b.data ? b.data : "", b.len);
}

struct cay_execution sut_await(const struct sut_job *j, const char *word, struct cay_arena *a)
{
    char path[64], events[4096];
    CAY_AUTO_FD int in = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    snprintf(path, sizeof path, "/proc/self/fd/%d", j->log_fd);
    (void)inotify_add_watch(in, path, IN_MODIFY);
    for (;;) {
        struct pollfd p = {.fd = in, .events = POLLIN};
        struct cay_execution x = sut_summary(j, a);
        if (word ? strstr(sut_output(j, CAY_RECORD_STDOUT, a), word) != NULL
                 : x.status == CAY_EXEC_EXITED)
            return x;
        if (poll(&p, 1, WAIT_MS) != 1) {
            test_failed(__FILE__, __LINE__, "%s: waited in vain for %s; it said: %s",
                        j->script ? j->script : j->name, word ? word : "its end",
                        sut_output(j, CAY_RECORD_STDOUT, a));
            return x;
        }
        (void)!read(in, events, sizeof events);
    }
}
