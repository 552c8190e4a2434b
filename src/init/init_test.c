/* SPDX-License-Identifier: Apache-2.0 */
/* What a real pid 1 does with executions, good and bad. */
#include "init/init.h"
#include "init/sut.h"
#include "log/files.h"
#include "log/reader.h"
#include "model/limits.h"
#include "tests/test.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define STATUS(what) "grep -E '" what "' /proc/self/status | cut -f2 | sort -u"

static const struct {
    const char *what;
    struct sut_job job;
    int result, exit_code;
    const char *reason, *out, *err; /* NULL: exited, nothing, nothing */
} runs[] = {
    {"prints", {.script = "echo out; echo err >&2"}, .out = "out\n", .err = "err\n"},
    {"exit code", {.script = "exit 7"}, .exit_code = 7},
    {"own signal", {.script = "kill -9 $$"}, .exit_code = 137, .reason = "signal"},
    {"by memfd", {.script = "echo hi", .by_memfd = true}, .out = "hi\n"},
    {"not found", {.name = "nope"}, .exit_code = 127, .err = "cay: nope: not found\n"},
    {"no path", {.name = "/no/x"}, .exit_code = 127, .err = "cay: /no/x: not found\n"},
    {"no program",
     {.name = "/etc/fstab"},
     .exit_code = 126,
     .err = "cay: /etc/fstab: permission denied\n"},
    {"a directory", {.name = "/etc"}, .exit_code = 126, .err = "cay: /etc: permission denied\n"},
    {"ids", {.script = "id -u; id -g; id -G", .user = "1234:77"}, .out = "1234\n77\n77\n"},
    {"a name",
     {.script = "echo $HOME $USER $LOGNAME", .user = "nobody"},
     .out = "/nonexistent nobody nobody\n"},
    {"unknown number",
     {.script = "id -u; id -g; echo $HOME", .user = "4321"},
     .out = "4321\n4321\n/\n"},
    {"no such user", {.script = ":", .user = "no-one-here"}, .result = CAY_INIT_NO_USER},
    {"pid 1's own user", {.script = ":", .user = "65535"}, .result = CAY_INIT_NO_USER},
    {"overflowing user", {.script = ":", .user = "4294967296"}, .result = CAY_INIT_NO_USER},
    {"bad group", {.script = ":", .user = "1000:65535"}, .result = CAY_INIT_NO_USER},
    {"no such cwd", {.script = ":", .cwd = "/no/where"}, .result = CAY_INIT_NO_CWD},
    {"cwd of others", {.script = ":", .cwd = "/root", .user = "1000"}, .result = CAY_INIT_NO_CWD},
    {"cwd by descriptor", {.script = ":", .cwd = "/proc/self/fd/3"}, .result = CAY_INIT_NO_CWD},
    {"relative cwd", {.script = ":", .cwd = "tmp"}, .result = CAY_INIT_BAD_REQUEST},
    {"bad variable", {.script = ":", .env = "NOVALUE"}, .result = CAY_INIT_BAD_REQUEST},
    {"own HOME",
     {.script = "echo $HOME; pwd", .env = "HOME=/x", .cwd = "/tmp"},
     .out = "/x\n/tmp\n"},
    {"own PATH",
     {.name = "ls", .env = "PATH=/no:"},
     .exit_code = 127,
     .err = "cay: ls: not found\n"},
    {"no capability", {.script = STATUS("Cap"), .user = "1000"}, .out = "0000000000000000\n"},
    {"root's nine", {.script = STATUS("Cap(Prm|Eff|Bnd)")}, .out = "00000000800004fb\n"},
    {"clean signals", {.script = STATUS("Sig(Blk|Ign)")}, .out = "0000000000000000\n"},
    {"descriptors", {.script = "echo $(ls /proc/self/fd)"}, .out = "0 1 2 3\n"},
    {"session", {.script = "test $(ps -o sid= -p $$) = $$ && ulimit -c"}, .out = "0\n"},
    {"opens its output",
     {.script = "echo a >/dev/stdout; echo b >/dev/stderr", .user = "1000"},
     .out = "a\n",
     .err = "b\n"},
    {"pid 1 is out of root's reach",
     {.script = "exec 2>/dev/null; kill -STOP 1; prlimit --pid 1 --nofile=0:0; cat /proc/1/environ "
                "/proc/1/maps; readlink /proc/1/fd/3 /proc/1/exe; :"}},
    {"timeout",
     {.script = "sleep 30", .timeout_ms = 50, .grace_ms = 5000},
     .exit_code = 143,
     .reason = "timeout"},
    {"timeout, deaf",
     {.script = "trap '' TERM; sleep 30", .timeout_ms = 50, .grace_ms = 50},
     .exit_code = 137,
     .reason = "timeout"},
    {"timeout, stopped",
     {.script = "kill -STOP $$", .timeout_ms = 50, .grace_ms = 5000},
     .exit_code = 143,
     .reason = "timeout"},
};

TEST(init_runs)
{
    struct sut s;
    if (!sut_begin(&s))
        return;
    for (size_t i = 0; i < COUNT(runs); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct sut_job j = runs[i].job;
        j.timeout_ms = test_ms(j.timeout_ms);
        int result = sut_start(&s, &j);
        CHECK_EQ(runs[i].what, result, runs[i].result);
        if (result == CAY_INIT_OK && runs[i].result == CAY_INIT_OK) {
            struct cay_execution x = sut_await(&j, NULL, &a);
            CHECK_EQ(runs[i].what, x.exit_code, runs[i].exit_code);
            CHECK_STR(runs[i].what, x.reason, runs[i].reason ? runs[i].reason : "exited");
            CHECK_STR(runs[i].what, sut_output(&j, CAY_RECORD_STDOUT, &a),
                      runs[i].out ? runs[i].out : "");
            CHECK_STR(runs[i].what, sut_output(&j, CAY_RECORD_STDERR, &a),
                      runs[i].err ? runs[i].err : "");
        }
        cay_close_fd(&j.log_fd);
    }
    sut_end(&s);
}

/* Whatever else is mapped is a sandbox's memory: see stack.c. */
TEST(init_has_nothing_beside_its_data)
{
    struct sut s;
    char path[32], line[256];
    if (!sut_begin(&s))
        return;
    snprintf(path, sizeof path, "/proc/%d/maps", s.pid);
    CHECK_EQ("answers", sut_ask(s.conn, (struct cay_init_request){.op = CAY_INIT_PING}), 0);
    FILE *maps = fopen(path, "re");
    int guards = 0, others = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        guards += strstr(line, " ---p ") != NULL;
        others += strtoull(line, NULL, 16) >= 1ULL << 32 && !strstr(line, "[vsyscall]");
    }
    CHECK_EQ("a guard below the stack", guards, 1);
    CHECK_EQ("others", others, 0);
    if (maps)
        fclose(maps);
    sut_end(&s);
}

TEST(init_names_whom_a_signal_ended)
{
    static const struct {
        const char *what, *script, *process;
        int signal;
    } ends[] = {
        {"a shell", "kill -KILL $$", "sh", 9},
        {"another program", "exec sh -c 'printf tool > /proc/self/comm; kill -SEGV $$'", "tool",
         11},
        {"a name that is no text", "printf 'a\\n\\377b' > /proc/$$/comm; kill -KILL $$", "a??b", 9},
        {"who exits has no need of it", "exit 3", "", 0},
    };
    struct sut s;
    if (!sut_begin(&s))
        return;
    for (size_t i = 0; i < COUNT(ends); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct sut_job j = {.script = ends[i].script};
        CHECK_EQ(ends[i].what, sut_start(&s, &j), CAY_INIT_OK);
        struct cay_execution x = sut_await(&j, NULL, &a);
        CHECK_EQ(ends[i].what, x.signal, ends[i].signal);
        CHECK_STR(ends[i].what, x.process, ends[i].process);
        CHECK("nobody counts here", !x.counted);
        cay_close_fd(&j.log_fd);
    }
    sut_end(&s);
}

static struct cay_init_request named(enum cay_init_op op, const struct sut_job *j, uint32_t signal)
{
    struct cay_init_request req = {.op = op, .signal = signal};
    memcpy(req.exec_id, j->id, sizeof req.exec_id);
    return req;
}

TEST(init_kills_and_lists)
{
    struct sut s;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    if (!sut_begin(&s))
        return;
    struct sut_job j = {.script = "echo up; exec sleep 30"}, gone = {.id = "exec_0000000000000000"};
    CHECK_EQ("start", sut_start(&s, &j), CAY_INIT_OK);
    (void)sut_await(&j, "up", &a);
    CHECK_EQ("another's name", sut_ask(s.conn, named(CAY_INIT_KILL, &gone, SIGTERM)),
             CAY_INIT_NO_SUCH_EXEC);
    CHECK_EQ("no signal", sut_ask(s.conn, named(CAY_INIT_KILL, &j, 0)), CAY_INIT_BAD_REQUEST);
    CHECK_EQ("no such signal", sut_ask(s.conn, named(CAY_INIT_KILL, &j, 65)), CAY_INIT_BAD_REQUEST);

    struct cay_init_request req = {.version = CAY_INIT_VERSION, .op = CAY_INIT_LIST};
    struct cay_init_reply reply;
    char ids[64] = "";
    CHECK("list", sut_send_raw(s.conn, &req, sizeof req, NULL, 0, NULL, 0));
    CHECK_EQ("list", sut_receive(s.conn, &reply, ids, sizeof ids), CAY_INIT_OK);
    CHECK_EQ("one runs", reply.count, 1);
    CHECK_STR("this one", ids, j.id);

    CHECK_EQ("kill", sut_ask(s.conn, named(CAY_INIT_KILL, &j, SIGINT)), CAY_INIT_OK);
    struct cay_execution x = sut_await(&j, NULL, &a);
    CHECK_STR("as asked", x.reason, "killed");
    CHECK_EQ("by that signal", x.signal, SIGINT);
    CHECK_EQ("it has ended", sut_ask(s.conn, named(CAY_INIT_KILL, &j, SIGTERM)),
             CAY_INIT_NO_SUCH_EXEC);
    cay_close_fd(&j.log_fd);
    sut_end(&s);
}

static const struct {
    const char *what;
    struct sut_job job;
    int result;
    bool ended;
} waits[] = {
    {"ended in time", {.script = "echo done", .await_ms = CAY_INIT_AWAIT_MAX}, 0, true},
    {"cannot begin", {.name = "x", .cwd = "/no", .await_ms = CAY_INIT_AWAIT_MAX}, CAY_INIT_NO_CWD},
    {"not awaited", {.script = "sleep 0.2; echo done"}, 0, false},
    {"runs on", {.script = "sleep 0.5; echo done", .await_ms = 10}, 0, false},
    {"too long", {.script = ":", .await_ms = CAY_INIT_AWAIT_MAX + 1}, CAY_INIT_BAD_REQUEST},
};

/* Whoever is told of an end finds it in the log; whoever asks for more meanwhile waits for it. */
TEST(init_answers_at_the_end_if_it_comes_soon)
{
    struct sut s;
    if (!sut_begin(&s))
        return;
    for (size_t i = 0; i < COUNT(waits); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct sut_job j = waits[i].job;
        struct cay_init_request ping = {.version = CAY_INIT_VERSION, .op = CAY_INIT_PING};
        struct cay_init_reply reply = {0};
        CHECK(waits[i].what, sut_send_exec(&s, s.conn, &j));
        CHECK(waits[i].what, sut_send_raw(s.conn, &ping, sizeof ping, NULL, 0, NULL, 0));
        CHECK_EQ(waits[i].what, sut_receive(s.conn, &reply, NULL, 0), waits[i].result);
        CHECK_EQ("its beginning is seen", lseek(j.log_fd, 0, SEEK_CUR),
                 waits[i].job.await_ms && waits[i].result == 0 ? CAY_INIT_BEGUN : 0);
        CHECK_EQ(waits[i].what, reply.ran_us > 0, waits[i].ended);
        if (waits[i].ended)
            CHECK_STR("as its log says", sut_summary(&j, &a).reason, "exited");
        CHECK_EQ("the next one", sut_receive(s.conn, &reply, NULL, 0), CAY_INIT_OK);
        CHECK_EQ("in its turn", reply.pid, 1);
        if (waits[i].result == CAY_INIT_OK) {
            (void)sut_await(&j, NULL, &a);
            CHECK_STR(waits[i].what, sut_output(&j, CAY_RECORD_STDOUT, &a), "done\n");
        }
        cay_close_fd(&j.log_fd);
    }
    sut_end(&s);
}

TEST(init_reads_stdin)
{
    struct sut s;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    if (!sut_begin(&s))
        return;
    struct sut_job j = {.script = "cat", .stdin_fd = sut_make_memfd("words", 5, F_SEAL_WRITE)};
    (void)lseek(j.stdin_fd, 0, SEEK_SET);
    CHECK_EQ("start", sut_start(&s, &j), CAY_INIT_OK);
    (void)sut_await(&j, NULL, &a);
    CHECK_STR("all of it", sut_output(&j, CAY_RECORD_STDOUT, &a), "words");
    cay_close_fd(&j.stdin_fd);
    cay_close_fd(&j.log_fd);
    j.stdin_fd = s.logs_fd;
    CHECK_EQ("a directory goes in to nobody", sut_start(&s, &j), CAY_INIT_BAD_REQUEST);
    cay_close_fd(&j.log_fd);
    sut_end(&s);
}

TEST(init_background_outlives)
{
    struct sut s;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    int hold[2];
    if (!sut_begin(&s))
        return;
    CHECK_EQ("pipe", pipe2(hold, O_CLOEXEC), 0);
    struct sut_job j = {.script = "exec 3<&0; (read x <&3; echo late) & echo early",
                        .stdin_fd = hold[0]};
    CHECK_EQ("start", sut_start(&s, &j), CAY_INIT_OK);
    struct cay_execution x = sut_await(&j, NULL, &a);
    CHECK_EQ("ends with its own process", x.exit_code, 0);
    CHECK_EQ("what came until then", x.stdout_bytes, 6);
    CHECK_EQ("write", write(hold[1], "\n", 1), 1);
    (void)sut_await(&j, "late", &a);
    CHECK_STR("both", sut_output(&j, CAY_RECORD_STDOUT, &a), "early\nlate\n");
    (void)close(hold[0]);
    (void)close(hold[1]);
    cay_close_fd(&j.log_fd);

    /* more leftovers than the table has room for: starting goes on */
    for (int i = 0; i < 220; i++) {
        struct sut_job left = {.script = "sleep 60 & exit 0"};
        CHECK_EQ("a leftover", sut_start(&s, &left), CAY_INIT_OK);
        (void)sut_await(&left, NULL, &a);
        cay_close_fd(&left.log_fd);
    }
    sut_end(&s);
}

TEST(init_bounds_floods)
{
    struct sut s;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct stat st;
    if (!sut_begin(&s))
        return;
    struct sut_job j = {.script = "head -c 12000000 /dev/zero; echo end", .cap_bytes = 1 * CAY_MIB};
    struct sut_job quick = {.script = "echo quick"};
    CHECK_EQ("flood", sut_start(&s, &j), CAY_INIT_OK);
    CHECK_EQ("others meanwhile", sut_start(&s, &quick), CAY_INIT_OK);
    (void)sut_await(&quick, NULL, &a);
    struct cay_execution x = sut_await(&j, NULL, &a);
    CHECK_EQ("all was read", x.stdout_bytes, 12000004);
    CHECK("some is gone", x.truncated);
    CHECK("slowed down to the rate", x.duration_ms >= 250);
    CHECK_EQ("stat", fstat(j.log_fd, &st), 0);
    CHECK("on disk: head, tail and a step", st.st_blocks * 512 <= (2 + 1) * CAY_MIB);
    CHECK("offsets stay", st.st_size > 12000000);
    cay_close_fd(&j.log_fd);
    cay_close_fd(&quick.log_fd);
    sut_end(&s);
}

static int ask_raw(int conn, const struct cay_init_request *req, const int fds[2])
{
    struct cay_init_reply reply;
    return sut_send_raw(conn, req, sizeof *req, NULL, 0, fds, 2)
               ? sut_receive(conn, &reply, NULL, 0)
               : -1;
}

TEST(init_refuses_bad_messages)
{
    struct sut s;
    struct cay_init_reply reply;
    static char big[CAY_MESSAGE_MAX + 4096];
    if (!sut_begin(&s))
        return;
    static const struct {
        const char *what;
        struct cay_init_request req;
        size_t len;
    } bad[] = {
        {"one byte", {.version = 1, .op = CAY_INIT_PING}, 1},
        {"half a head", {.version = 1, .op = CAY_INIT_PING}, 40},
        {"of another version", {.version = 9, .op = CAY_INIT_PING}, sizeof bad[0].req},
        {"no op", {.version = 1, .op = 99}, sizeof bad[0].req},
        {"exec without anything",
         {.version = 1, .op = CAY_INIT_EXEC, .exec_id = "exec_1"},
         sizeof bad[0].req},
        {"grace for ever", {.version = 1, .op = CAY_INIT_STOP, .grace_ms = ~0U}, sizeof bad[0].req},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        int fds[6] = {0, 1, 2, 0, 1, 2};
        CHECK(bad[i].what, sut_send_raw(s.conn, &bad[i].req, bad[i].len, NULL, 0, fds, i));
        CHECK_EQ(bad[i].what, sut_receive(s.conn, &reply, NULL, 0), CAY_INIT_BAD_REQUEST);
    }
    CHECK("too long", sut_send_raw(s.conn, big, sizeof big, NULL, 0, NULL, 0));
    CHECK_EQ("too long", sut_receive(s.conn, &reply, NULL, 0), CAY_INIT_BAD_REQUEST);

    struct cay_init_request req = {.version = 1,
                                   .op = CAY_INIT_EXEC,
                                   .exec_id = "exec_1",
                                   .argc = 1,
                                   .strings_len = 12,
                                   .flags = CAY_INIT_BY_MEMFD};
    CAY_AUTO_FD int open_memfd = sut_make_memfd("root\0/\0true\0", 12, 0);
    CAY_AUTO_FD int short_memfd = sut_make_memfd("root", 4, F_SEAL_WRITE | F_SEAL_SHRINK);
    CAY_AUTO_FD int no_log = open("/dev/null", O_RDWR | O_CLOEXEC);
    int unsealed[2] = {open_memfd, open_memfd}, cut[2] = {short_memfd, open_memfd};
    int device[2] = {open_memfd, no_log};
    CHECK_EQ("unsealed", ask_raw(s.conn, &req, unsealed), CAY_INIT_BAD_REQUEST);
    CHECK_EQ("short", ask_raw(s.conn, &req, cut), CAY_INIT_BAD_REQUEST);
    CHECK_EQ("seal", fcntl(open_memfd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
    CHECK_EQ("a device as log", ask_raw(s.conn, &req, device), CAY_INIT_BAD_REQUEST);

    int conns[CAY_INIT_CONNS + 8];
    for (size_t i = 0; i < COUNT(conns); i++)
        CHECK("many callers", (conns[i] = sut_dial(&s)) >= 0);
    CHECK_EQ("the last is served",
             sut_ask(conns[COUNT(conns) - 1], (struct cay_init_request){.op = CAY_INIT_PING}),
             CAY_INIT_OK);
    CHECK("the first was cut", sut_ask(s.conn, (struct cay_init_request){.op = CAY_INIT_PING}) < 0);
    for (size_t i = 0; i < COUNT(conns); i++)
        cay_close_fd(&conns[i]);
    sut_end(&s);
}

/* Whoever asked goes away at once: the execution runs to its end all the same. */
TEST(init_outlives_its_caller)
{
    struct sut s;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    if (!sut_begin(&s))
        return;
    struct sut_job j = {.script = "sleep 0.1; echo done; exit 3"};
    CHECK("sent", sut_send_exec(&s, s.conn, &j));
    cay_close_fd(&s.conn);
    CHECK_EQ("its exit is there", sut_await(&j, NULL, &a).exit_code, 3);
    CHECK_STR("and its output", sut_output(&j, CAY_RECORD_STDOUT, &a), "done\n");
    cay_close_fd(&j.log_fd);
    sut_end(&s);
}

/* One that stood still (paused, say) does not begin later what its caller gave up on. */
TEST(init_does_not_begin_what_was_taken_back)
{
    struct sut s;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_init_reply reply = {0};
    char ids[256];
    if (!sut_begin(&s))
        return;
    struct sut_job gone = {.script = "echo ghost; sleep 1000"}, next = {.script = "echo next"};
    CHECK_EQ("stands still", kill(s.pid, SIGSTOP), 0);
    CHECK("sent", sut_send_exec(&s, s.conn, &gone));
    cay_log_remove(s.logs_fd, SANDBOX, gone.id);
    CHECK_EQ("goes on", kill(s.pid, SIGCONT), 0);
    CHECK_EQ("refused", sut_receive(s.conn, &reply, NULL, 0), CAY_INIT_BAD_REQUEST);
    CHECK_EQ("the next one runs", sut_start(&s, &next), CAY_INIT_OK);
    CHECK_EQ("to its end", sut_await(&next, NULL, &a).exit_code, 0);
    struct cay_init_request list = {.version = CAY_INIT_VERSION, .op = CAY_INIT_LIST};
    CHECK("asked", sut_send_raw(s.conn, &list, sizeof list, NULL, 0, NULL, 0));
    CHECK_EQ("answered", sut_receive(s.conn, &reply, ids, sizeof ids), CAY_INIT_OK);
    CHECK_EQ("nothing runs", reply.count, 0);
    CHECK_STR("nothing was said", sut_output(&gone, CAY_RECORD_STDOUT, &a), "");
    cay_close_fd(&gone.log_fd);
    cay_close_fd(&next.log_fd);
    sut_end(&s);
}

TEST(init_stops)
{
    struct sut s;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    if (!sut_begin(&s))
        return;
    struct sut_job kind = {
        .script = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done"};
    struct sut_job deaf = {.script = "trap '' TERM; echo up; while :; do sleep 1; done"};
    struct sut_job late = {.script = "true"};
    CHECK_EQ("start", sut_start(&s, &kind), CAY_INIT_OK);
    CHECK_EQ("start", sut_start(&s, &deaf), CAY_INIT_OK);
    (void)sut_await(&kind, "up", &a);
    (void)sut_await(&deaf, "up", &a);
    struct cay_init_request stop = {.op = CAY_INIT_STOP, .grace_ms = 300};
    CHECK_EQ("stop", sut_ask(s.conn, stop), CAY_INIT_OK);
    CHECK_EQ("nothing new", sut_start(&s, &late), CAY_INIT_STOPPING);
    CHECK_EQ("pid 1 ends by itself", sut_await_pid(&s), 0);
    CHECK_EQ("asked to go", sut_summary(&kind, &a).exit_code, 5);
    CHECK_STR("last words", sut_output(&kind, CAY_RECORD_STDOUT, &a), "up\nbye\n");
    CHECK_EQ("made to go", sut_summary(&deaf, &a).signal, SIGKILL);
    cay_close_fd(&kind.log_fd);
    cay_close_fd(&deaf.log_fd);
    cay_close_fd(&late.log_fd);
    cay_close_fd(&s.conn);
    cay_close_fd(&s.logs_fd);
}

/* A disk that is full when the process ends: its exit is recorded once there is room. */
TEST(init_exit_waits_for_room)
{
    struct sut s;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    char path[128];
    if (!sut_begin(&s))
        return;
    snprintf(path, sizeof path, "%s/" SHELF, test_dir());
    CHECK_EQ("mkdir", mkdir(path, 0700), 0);
    CHECK_EQ("mount", mount("tmpfs", path, "tmpfs", 0, "size=64k"), 0);
    struct sut_job j = {.script = "echo lost", .full_disk = true};
    CHECK_EQ("start", sut_start(&s, &j), CAY_INIT_OK);
    while (sut_ask(s.conn, named(CAY_INIT_KILL, &j, SIGCONT)) == CAY_INIT_OK)
        (void)sched_yield();
    CHECK("no exit yet", sut_summary(&j, &a).status == CAY_EXEC_RUNNING);
    CHECK_EQ("room", mount("tmpfs", path, "tmpfs", MS_REMOUNT, "size=1m"), 0);
    struct cay_execution x = sut_await(&j, NULL, &a);
    CHECK_EQ("its exit", x.exit_code, 0);
    CHECK_EQ("what it wrote", x.stdout_bytes, 5);
    CHECK("it is gone, and told", x.truncated);
    cay_close_fd(&j.log_fd);
    CHECK_EQ("umount", umount2(path, MNT_DETACH), 0);
    sut_end(&s);
}
