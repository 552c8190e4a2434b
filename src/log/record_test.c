/* SPDX-License-Identifier: Apache-2.0 */
#include "log/record.h"
#include "tests/test.h"
#include <signal.h>

static const struct {
    const char *name;
    struct cay_record_exit e;
    const char *reason;
} reasons[] = {
    {"success",
     {.reason = CAY_REASON_EXITED, .counted = 1, .oom_kills = 1, .forks_refused = 1},
     "exited"},
    {"failure", {.reason = CAY_REASON_EXITED, .exit_code = 1, .counted = 1}, "exited"},
    {"failure, and a kill",
     {.reason = CAY_REASON_EXITED, .exit_code = 1, .counted = 1, .oom_kills = 1},
     "oom"},
    {"failure, and a refusal",
     {.reason = CAY_REASON_EXITED, .exit_code = 1, .counted = 1, .forks_refused = 9},
     "pids"},
    {"failure, and both",
     {.reason = CAY_REASON_EXITED,
      .exit_code = 1,
      .counted = 1,
      .oom_kills = 1,
      .forks_refused = 9},
     "oom"},
    {"killed for memory",
     {.reason = CAY_REASON_SIGNAL, .signal = SIGKILL, .counted = 1, .oom_kills = 1},
     "oom"},
    {"killed otherwise",
     {.reason = CAY_REASON_SIGNAL, .signal = SIGKILL, .counted = 1, .forks_refused = 1},
     "signal"},
    {"a fault while others were killed",
     {.reason = CAY_REASON_SIGNAL, .signal = SIGSEGV, .counted = 1, .oom_kills = 1},
     "signal"},
    {"no thread to be had",
     {.reason = CAY_REASON_SIGNAL, .signal = SIGABRT, .counted = 1, .forks_refused = 1},
     "pids"},
    {"not counted",
     {.reason = CAY_REASON_EXITED, .exit_code = 1, .oom_kills = 1, .forks_refused = 1},
     "exited"},
    {"timeout",
     {.reason = CAY_REASON_TIMEOUT, .signal = SIGKILL, .counted = 1, .oom_kills = 1},
     "timeout"},
    {"asked for",
     {.reason = CAY_REASON_KILLED, .signal = SIGKILL, .counted = 1, .oom_kills = 1},
     "killed"},
    {"a reason of later times", {.reason = 77, .signal = SIGTERM}, "signal"},
};

TEST(record_tells_the_reason)
{
    for (size_t i = 0; i < COUNT(reasons); i++)
        CHECK_STR(reasons[i].name, cay_record_exit_reason(&reasons[i].e), reasons[i].reason);
}

TEST(record_reads_exits_of_any_age)
{
    struct cay_record_exit e = {.exit_code = 7, .stderr_bytes = 9, .oom_kills = 3}, out;
    char larger[sizeof e + 8] = {0};
    memcpy(e.process, "na\nme\xff and more", sizeof e.process);
    memcpy(larger, &e, sizeof e);
    CHECK("too short", !cay_record_exit_read(&e, CAY_RECORD_EXIT_MIN - 1, &out));
    CHECK("an old one", cay_record_exit_read(&e, CAY_RECORD_EXIT_MIN, &out));
    CHECK_EQ("has what it has", out.stderr_bytes, 9);
    CHECK_STR("and nothing more", out.process, "");
    CHECK_EQ("nothing", out.oom_kills, 0);
    CHECK("ours", cay_record_exit_read(&e, sizeof e, &out));
    CHECK_STR("a name as text, with its end", out.process, "na?me? and more");
    CHECK("a later one", cay_record_exit_read(larger, sizeof larger, &out));
    CHECK_EQ("read as ours", out.oom_kills, 3);
}
