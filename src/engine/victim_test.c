/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/dispatcher.h"
#include "engine/victim.h"
#include "tests/test.h"
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD "3,1234,412417594,-;Memory cgroup out of memory: Killed process "
#define TAIL                                                                                       \
    " total-vm:263768kB, anon-rss:260864kB, file-rss:1552kB, shmem-rss:0kB, UID:1055392744 "       \
    "pgtables:560kB oom_score_adj:500\n"

static const struct {
    const char *what, *record;
    uint32_t uid; /* 0: it is none */
    const char *name;
} cases[] = {
    {"in a cgroup", HEAD "14102 (tail)" TAIL, 1055392744, "tail"},
    {"of the host",
     "3,1,2,-;Out of memory: Killed process 7 (node) total-vm:1kB, anon-rss:1kB, file-rss:1kB, "
     "shmem-rss:0kB, UID:65536 pgtables:1kB oom_score_adj:500\n",
     65536, "node"},
    {"by the one that asked",
     "3,1,2,-;Out of memory (oom_kill_allocating_task): Killed process 7 (a b) total-vm:1kB, UID:9 "
     "p",
     9, "a b"},
    {"a name like what follows it", HEAD "1 () total-vm:1kB,)" TAIL, 1055392744, ") total-vm:1kB,"},
    {"a name like an id", HEAD "1 (, UID:7 )" TAIL, 1055392744, ", UID:7 "},
    {"a name with brackets", HEAD "1 ((sd-pam))" TAIL, 1055392744, "(sd-pam)"},
    {"a name in another alphabet", HEAD "1 (gr\\xc3\\xb6\\x5c)" TAIL, 1055392744, "gr???"},
    {"no name", HEAD "1 ()" TAIL, 1055392744, ""},
    {"too long a name", HEAD "1 (0123456789abcdefgh)" TAIL, 1055392744, "0123456789abcde"},
    {"an escape that ends too soon", HEAD "1 (abc\\x)" TAIL, 1055392744, "abc?"},
    {"what a process is called, in other words of the kernel",
     "6,1,2,-;: Killed process (x) total-vm:1kB, UID:7 [12]: segfault at 0\n", 0, NULL},
    {"what a process and its program are called",
     "6,1,2,-;Out of memory[4711]: segfault at 0 ip 0 sp 0 error 4 in x: Killed process 1 (x) "
     "total-vm:1kB, UID:1055392744 p[1149,1]\n",
     0, NULL},
    {"somebody else's words",
     "14,1,2,-;Out of memory: Killed process 7 (x) total-vm:1kB, UID:9 pgtables:1kB\n", 0, NULL},
    {"who asked", "4,1,2,-;tail invoked oom-killer: gfp_mask=0xcc0, order=0\n", 0, NULL},
    {"cut off", HEAD "14102 (tail) total-vm:263768kB, anon-rs", 0, NULL},
    {"cut off in the name", HEAD "14102 (ta", 0, NULL},
    {"no record", "Memory cgroup out of memory", 0, NULL},
    {"nothing", "", 0, NULL},
};

TEST(victim_is_named_by_the_kernels_log)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[16] = "";
        uint32_t uid = 0;
        CHECK_EQ(cases[i].what, cay_victim_parse(cases[i].record, &uid, name),
                 cases[i].name != NULL);
        CHECK_EQ(cases[i].what, uid, cases[i].uid);
        CHECK_STR(cases[i].what, name, cases[i].name ? cases[i].name : "");
    }
}

/* The kernel says dozens of lines of a kill, and the one that names who was killed last. Whoever
 * reads them to answer somebody reads all of them. */
TEST(victim_is_known_when_all_was_said)
{
    static struct cay_dispatcher d;
    int pair[2];
    struct cay_box *box = cay_boxes_add(&d, "sb-victim");
    box->record.running = true;
    box->base = 1055392744 - 1000;
    CHECK_EQ("a log", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    for (int i = 0; i < 100; i++) {
        char line[64];
        int len = snprintf(line, sizeof line, "6,%d,2,-;[ 14102] 1000 14102 tail\n", i);
        CHECK_EQ("a line", send(pair[0], line, (size_t)len, 0), len);
    }
    CHECK("the last", send(pair[0], cases[0].record, strlen(cases[0].record), 0) > 0);
    d.kernel_log = (struct cay_source){CAY_FROM_KERNEL_LOG, pair[1]};
    cay_victims_read(&d);
    CHECK_STR("named", box->victims[0].name, cases[0].name);
    cay_boxes_drop(&d, box);
    (void)(close(pair[0]) + close(pair[1]));
}
