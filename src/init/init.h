/* SPDX-License-Identifier: Apache-2.0 */
/* cay-init from inside: one process, one thread, one struct.
 *
 * Nothing in pid 1 may block, allocate, or open a path of the tenant's. Every descriptor is
 * watched by a token that says what it is and which use of its slot it belongs to, because an
 * event may be older than the slot's present owner. */
#pragma once
#include "base/attr.h"
#include "init/proto.h"
#include "log/writer.h"
#include "model/limits.h"
#include <sys/types.h>

#define CAY_INIT_CONNS 64
#define CAY_INIT_JOBS (CAY_MAX_EXECUTIONS + 64) /* those that ended may leave pipes behind */
#define CAY_INIT_FDS 3                          /* that one message may bring */
#define CAY_INIT_START_MS                                                                          \
    (CAY_INIT_CALL_MS * 4 / 5) /* from fork to exec; the host waits longer                         \
                                */
#define CAY_INIT_RETRY_MS 100  /* of an exit record on a full disk */
#define CAY_INIT_RATE_MS 50    /* window of the output rate */
#define CAY_INIT_CARRY 4096    /* of an input, read and not yet taken by the stdin */
#define CAY_INIT_NEVER INT64_MAX

enum cay_token {
    CAY_TOKEN_LISTEN,
    CAY_TOKEN_SIGNAL,
    CAY_TOKEN_CONN,
    CAY_TOKEN_STATUS,
    CAY_TOKEN_STDOUT,
    CAY_TOKEN_STDERR,
    CAY_TOKEN_INPUT, /* one of the inputs, or the stdin they go to */
};

struct cay_conn {
    int fd; /* -1: free */
    uint32_t use;
    uint64_t last; /* turn of its last request: the oldest goes first */
    bool waiting;  /* for an EXEC: not read from, so that answers stay in order */
    bool muted;    /* it asked for more meanwhile, and is not listened to */
};

/* What the kernel has counted in this sandbox. */
struct cay_counts {
    uint32_t oom_kills, forks_refused;
};

enum cay_job_state {
    CAY_JOB_FREE,
    CAY_JOB_STARTING, /* forked, not yet exec'ed */
    CAY_JOB_RUNNING,
    CAY_JOB_ENDED, /* reaped; its exit record or its pipes are not done with */
};

struct cay_input {
    int fd;     /* -1: free */
    int end_fd; /* -1: its end closes nothing */
};

/* What goes into an execution's stdin. Its inputs are asked in order of arrival, and the first that
 * has something gives it: bytes of a writer that is done come before those of the next, and one
 * that is silent holds up nobody. While stdin takes nothing no input is read. */
struct cay_stdin {
    int fd;     /* to write to: a pipe, or the master of a terminal; -1: closed */
    int tty_fd; /* its slave, held so that the terminal outlives whoever closes it; -1: a pipe */
    struct cay_input inputs[CAY_MAX_INPUTS];
    bool watched; /* the inputs are in epoll */
    bool closing; /* once the carry is written */
    char last;    /* byte that was read */
    size_t at, len;
    char *carry; /* of CAY_INIT_CARRY bytes */
};

struct cay_job {
    enum cay_job_state state;
    uint32_t use;
    char id[CAY_ID_SIZE];
    pid_t pid;
    int status_fd, log_fd;
    int pipe_fd[2]; /* of stdout and stderr; -1 after EOF. A terminal's master is the first */
    bool watched;   /* the pipes are in epoll; not while the rate is used up */
    bool wide;      /* so much comes that its pipe was made larger */
    int conn;       /* who waits for the start, or for the end; -1: was answered */
    uint32_t conn_use;
    struct cay_writer log;
    uint64_t bytes[2];
    int64_t started_us, ended_us;
    /* monotonic */
    int64_t start_by_ms, answer_at_ms, term_at_ms, kill_at_ms, resume_at_ms, retry_at_ms;
    int64_t window_at_ms, window_bytes; /* what may still be read in this window */
    uint32_t grace_ms;
    bool timed_out;
    int asked_signal; /* last one sent for the host */
    struct cay_counts before;
    struct cay_record_exit exit;
    int64_t exit_time_ms;
    bool exit_due;
    struct cay_stdin in;
};

struct cay_file_call {
    pid_t pid; /* 0: free */
    int64_t kill_at_ms;
};

struct cay_init {
    int epoll_fd, signal_fd;
    int64_t now_ms; /* of this turn */
    uint64_t turn;
    int64_t accept_at_ms; /* accepting rests until then; NEVER: it does not rest */
    bool stopping, childless, reap_more;
    int64_t stop_kill_at_ms;
    uint64_t file_bytes; /* RLIMIT_FSIZE of whatever is started */
    bool has_counts;     /* with all else that is set at first, on one page: each more is every
                            sandbox's */
    bool alone;          /* see alone.c */
    bool has_file;       /* cay-file is at CAY_INIT_FILE_FD */
    struct cay_conn conns[CAY_INIT_CONNS];
    size_t job_count; /* ever in use: beyond it no memory was touched, and nobody looks */
    struct cay_job jobs[CAY_INIT_JOBS];
    char carries[CAY_INIT_JOBS][CAY_INIT_CARRY]; /* of their stdins; most have none */
    struct cay_file_call files[CAY_MAX_FILE_CALLS];
    _Alignas(8) char message[sizeof(struct cay_init_request) + CAY_MESSAGE_MAX];
    char chunk[2 * CAY_LOG_BLOCK];
};

/* What a child tells before exec when it cannot get there. */
struct cay_start_status {
    uint32_t result;
    int32_t error;
};

/* stack.c: goes on with another stack, for good. Nothing that lay on the old one may be used any
 * more: arguments, environment, what the kernel told at the start (so no clock of the C library).
 */
void CAY_NORETURN cay_stack_move(void (*go_on)(void));

/* main.c */
uint64_t cay_init_token(enum cay_token what, size_t slot, uint32_t use);
void cay_init_watch(struct cay_init *in, int fd, enum cay_token what, size_t slot, uint32_t use);
/* As above, for whatever events; or for others than before. */
void cay_init_watch_for(struct cay_init *in, int fd, uint32_t events, uint64_t token);
void cay_init_unwatch(struct cay_init *in, int *fd); /* closes; another process may hold it too */
int64_t cay_init_mono_us(void);
int64_t cay_init_wall_ms(void);

/* alone.c */
int cay_alone_open(struct cay_init *in);
bool cay_alone_may(const struct cay_init *in, int fd); /* who connected may ask */

/* request.c */
void cay_conn_accept(struct cay_init *in);
void cay_conn_ready(struct cay_init *in, struct cay_conn *c, bool hung_up);
void cay_conn_answer(struct cay_init *in, int conn, uint32_t use, struct cay_init_reply reply);

/* job.c */
struct cay_job *cay_job_find(struct cay_init *in, const char *id); /* that has not ended, or NULL */
/* What it keeps of the descriptors it takes. OK: the answer follows when the child is exec'ed, or
 * has ended. */
struct cay_init_reply cay_job_start(struct cay_init *in, const struct cay_init_request *req,
                                    int *fds, int conn);
void cay_job_status(struct cay_init *in, struct cay_job *job); /* the child has exec'ed, or not */
/* Who waits for it is waited with no longer. */
void cay_job_answer(struct cay_init *in, struct cay_job *job, struct cay_init_reply reply);
bool cay_job_signal(const struct cay_job *job, int signal);

/* child.c */
struct cay_child {
    bool has_tty; /* the three are one terminal */
    const struct cay_init_request *req;
    const char *strings; /* inline, or NULL: in memfd */
    int memfd, stdin_fd, stdout_fd, stderr_fd, status_fd;
    uint64_t file_bytes;
};
void cay_child_run(const struct cay_child *c) CAY_NORETURN;

/* file.c */
struct cay_init_reply cay_file_start(struct cay_init *in, const struct cay_init_request *req,
                                     const int *fds);
void cay_file_reaped(struct cay_init *in, pid_t pid);
void cay_file_timers(struct cay_init *in);
int64_t cay_file_next_ms(const struct cay_init *in);

/* caps.c */
int cay_caps_become_init(void); /* own uid, few capabilities, nothing of others in reach */
int cay_caps_raise(void);       /* in a child: all that pid 1 kept */
int cay_caps_become(uint32_t uid, uint32_t gid);

/* pump.c */
void cay_pump_watch(struct cay_init *in, struct cay_job *job);
void cay_pump_ready(struct cay_init *in, struct cay_job *job, int which);
void cay_pump_drain(struct cay_init *in, struct cay_job *job);
void cay_pump_close(struct cay_init *in, struct cay_job *job);

/* input.c */
void cay_input_init(struct cay_init *in, struct cay_job *job, int stdin_fd, int tty_fd);
/* Duplicates the descriptors it keeps. */
struct cay_init_reply cay_input_add(struct cay_init *in, const struct cay_init_request *req,
                                    const int *fds);
struct cay_init_reply cay_input_resize(struct cay_init *in, const struct cay_init_request *req);
void cay_input_ready(struct cay_init *in, struct cay_job *job, bool failed);
void cay_input_close(struct cay_init *in, struct cay_job *job);

/* counts.c */
bool cay_counts_take_over(void); /* at start: whether both descriptors are there */
struct cay_counts cay_counts_now(const struct cay_init *in);
void cay_counts_name(pid_t pid, char out[16]); /* of a process, dead or alive; empty: unknown */

/* reap.c */
void cay_reap(struct cay_init *in);
void cay_reap_stop(struct cay_init *in, uint32_t grace_ms, uint32_t signal);
void cay_reap_timers(struct cay_init *in);
int64_t cay_reap_next_ms(const struct cay_init *in); /* when timers are due; NEVER: none */
void cay_reap_free(struct cay_job *job); /* once it has ended and nothing more can come */
