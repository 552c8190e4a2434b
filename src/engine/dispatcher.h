/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the dispatcher: one thread, one epoll, no call that waits.
 *
 *   dispatcher.c  clients and their requests, signals, timers
 *   table.c       the sandboxes, by id
 *   boxes.c       what happens to one, and in which order
 *   jobs.c        spawners, berths, the queue between them
 *   pause.c       standing still, and going on
 *   kept.c        snapshots and volumes, and what is made of another's files
 *   connect.c     the way to pid 1
 *   socket.c      sockets inside
 *   usage.c       what a sandbox uses
 *   victim.c      who was killed for want of memory
 *   images.c      the children that work on the image store
 *   backup.c      trees that stand still until they are copied
 *   adopt.c       finding at start what an earlier engine left
 *   trash.c       the child that removes trees
 *   care.c        the child that grows the disk
 *   build.c       children that build images */
#pragma once
#include "engine/box.h"
#include "engine/spawner.h"
#include <sys/epoll.h>

#define CAY_MAX_CLIENTS 256
#define CAY_MAX_SPAWNERS 64
#define CAY_BERTHS_READY 24
#define CAY_BOX_BUCKETS 4096

enum cay_source_kind {
    CAY_FROM_LISTENER,
    CAY_FROM_SIGNALS,
    CAY_FROM_CLIENT,
    CAY_FROM_SPAWNER,
    CAY_FROM_FILLER,
    CAY_FROM_PIDFD,
    CAY_FROM_IMAGER,
    CAY_FROM_KERNEL_LOG,
};

/* First member of everything that epoll wakes us for. */
struct cay_source {
    enum cay_source_kind kind;
    int fd;
};

struct cay_client {
    struct cay_source source;
    bool used, busy, events;
    uid_t uid;
    uint32_t serial; /* tells this client from an earlier one in the same place */
};

/* A request that waits for its sandbox. */
struct cay_pending {
    struct cay_engine_request request;
    int client; /* index, or -1: the engine's own wish */
    uint32_t serial;
    struct cay_pending *next;
};

struct cay_box {
    struct cay_source source; /* pidfd of an adopted one */
    struct cay_box_record record;
    struct cay_pending *current; /* what is being done */
    struct cay_pending *queue;   /* what comes next */
    uint32_t job;                /* enum cay_job_op that waits or runs; 0 none */
    bool died;                   /* during a job: cleared away after it */
    int64_t hurry_at_ms;         /* killed by us: if it is not dead by then, it is hurried; or 0 */
    struct cay_error *failed;    /* why it is being taken back, for whoever asked; or NULL */
    struct cay_box *next_job;
    int64_t deadline_ms;                    /* SIGKILL then; 0 none */
    int stop_fd;                            /* to pid 1, while it stops */
    struct cay_box *from;                   /* whose files its job takes */
    unsigned held;                          /* so many jobs of others take this one's */
    bool backup;                            /* a backup holds it: counted in `held` as well */
    struct cay_engine_copied copied;        /* how it began, as long as we remember */
    uint64_t io_bytes[2];                   /* read and written, as they were told last */
    uint32_t base;                          /* of its id range, while it runs; 0: not known */
    struct cay_victim victims[CAY_VICTIMS]; /* the latest first */
    struct cay_box *next;
};

struct cay_spawner {
    struct cay_source source;
    pid_t pid;
    struct cay_box *box;
    int64_t deadline_ms;
};

struct cay_reaped {
    pid_t pid;
    int status;
};

/* The child that lists what is kept, for all who asked before it began. */
struct cay_listing {
    pid_t pid; /* 0: none */
    int fd;
    struct cay_pending *served, *waiting;
};

struct cay_backup {
    bool active;     /* somebody makes one */
    bool standstill; /* no job begins */
    bool rubbish;    /* copies are to be removed */
    bool clearing;   /* a child removes them */
    int client;
    unsigned held;             /* trees */
    int64_t last_ms;           /* when he asked for something */
    struct cay_pending *waits; /* for the standstill */
};

/* One request about images: it waits, or a child is at work on it. */
struct cay_image_job {
    struct cay_source source; /* what the child says */
    bool used;
    pid_t pid;                   /* 0: it waits */
    struct cay_pending *pending; /* NULL: a wish of the engine's own, or nobody waits any more */
    uint32_t op;
    int fds[CAY_ENGINE_FDS];
    int64_t deadline_ms;
    uint32_t turn;         /* the lowest is next */
    struct cay_box *holds; /* the snapshot that it reads */
};

struct cay_dispatcher {
    struct cay_engine engine;
    int epoll_fd;
    struct cay_source listener, signals, filler, kernel_log;
    struct cay_client clients[CAY_MAX_CLIENTS];
    uint32_t serial;
    struct cay_box *boxes[CAY_BOX_BUCKETS];
    size_t box_count;
    struct cay_spawner spawners[CAY_MAX_SPAWNERS];
    int spawner_count;
    pid_t gone[CAY_MAX_SPAWNERS]; /* that died, and have left something */
    int gone_count;
    struct cay_box *first_job, *last_job;
    struct cay_berth berths[CAY_BERTHS_READY];
    int berth_count, berths_asked;
    pid_t filler_pid, trash_pid, disk_pid;
    pid_t build_pids[CAY_BUILDS + CAY_BUILD_LOOKS]; /* those of builds first; 0: none */
    int64_t filler_at_ms;                           /* when it was started */
    int64_t disk_at_ms, sweep_at_ms;                /* when the disk is looked at next */
    bool trash_wanted;                              /* something was moved there */
    struct cay_reaped early[64]; /* children that died before we knew whose they were */
    unsigned early_at;
    struct cay_error broken; /* the engine could not be set up, or the trial failed */
    struct cay_backup backup;
    struct cay_listing listing;
    struct cay_image_job image_jobs[CAY_IMAGE_WAITING];
    uint32_t image_turn;
    struct cay_pending *down; /* who wait until nothing is left */
    int trials;
    int64_t trial_at_ms; /* when there is another one; 0: there is none */
    bool adopted;        /* what an earlier engine left is known */
    bool open;           /* clients are let in */
    bool closed;         /* berths have no way out to the network */
    bool no_berth;       /* the last one could not be made */
    bool stop;
};

/* dispatcher.c */
/* From now on clients are let in: the trial is over. */
void cay_dispatcher_open_doors(struct cay_dispatcher *d);
void cay_dispatcher_watch(struct cay_dispatcher *d, struct cay_source *s, uint32_t events);
void cay_dispatcher_unwatch(struct cay_dispatcher *d, struct cay_source *s);
/* Sends the answer to whoever asked, if still there, and frees p. */
void cay_dispatcher_answer(struct cay_dispatcher *d, struct cay_pending *p,
                           const struct cay_error *err, const void *data, size_t len, int fd);
void cay_dispatcher_drop(struct cay_dispatcher *d, int client); /* its connection ends */
void cay_dispatcher_answer_fds(struct cay_dispatcher *d, struct cay_pending *p,
                               const struct cay_error *err, const void *data, size_t len,
                               const int *fds, int fd_count);
void cay_dispatcher_event(struct cay_dispatcher *d, const struct cay_engine_entry *e);

/* table.c */
struct cay_box *cay_boxes_find(struct cay_dispatcher *d, const char *id);
struct cay_box *cay_boxes_add(struct cay_dispatcher *d, const char *id);
void cay_boxes_drop(struct cay_dispatcher *d, struct cay_box *box);
struct cay_box *cay_boxes_of_pid(struct cay_dispatcher *d, pid_t pid); /* that is our child */

/* boxes.c */
void cay_boxes_take(struct cay_dispatcher *d, struct cay_pending *p); /* any request with an id */
void cay_boxes_job_done(struct cay_dispatcher *d, struct cay_box *box,
                        const struct cay_job_reply *reply);
/* A job failed, and this one takes back what it did; who asked is told why when that is done. */
void cay_boxes_take_back(struct cay_dispatcher *d, struct cay_box *box, const struct cay_error *why,
                         enum cay_job_op job);
void cay_boxes_job_lost(struct cay_dispatcher *d, struct cay_box *box); /* its spawner died */
void cay_boxes_died(struct cay_dispatcher *d, struct cay_box *box, bool known, int status);
/* Answers whoever is served, if anybody. */
void cay_boxes_finish(struct cay_dispatcher *d, struct cay_box *box, const struct cay_error *err);
void cay_boxes_tick(struct cay_dispatcher *d, int64_t now_ms); /* deadlines */
void cay_boxes_destroy_all(struct cay_dispatcher *d);
/* What waits and may begin, begins. The box may be gone afterwards, if it is not a sandbox's. */
void cay_boxes_next(struct cay_dispatcher *d, struct cay_box *box);
/* A wish of the engine's own, as a request without a client. */
void cay_boxes_wish(struct cay_dispatcher *d, enum cay_engine_op op, const char *id,
                    const char *image);

/* pause.c */
void cay_pause_begin(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p);
/* A FREEZE or THAW is over; err is what to tell, or NULL. True: it was thawed to be stopped now. */
bool cay_pause_done(struct cay_dispatcher *d, struct cay_box *box, uint32_t job, bool done,
                    const struct cay_error *err);
void cay_pause_adopt(struct cay_dispatcher *d, struct cay_box *box);

/* kept.c */
/* Where a request waits for its turn, made if need be; NULL: nothing it asks for is there. */
struct cay_box *cay_kept_where(struct cay_dispatcher *d, const struct cay_engine_request *rq);
bool cay_kept_may_begin(const struct cay_dispatcher *d, const struct cay_box *box,
                        const struct cay_pending *p);
/* True: it was one of ours, and has begun. */
bool cay_kept_begin(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p);
/* Its job is over: the tree it took is free again. */
void cay_kept_release(struct cay_dispatcher *d, struct cay_box *made);
/* Drops a snapshot's or volume's place in the table when nobody needs it. */
void cay_kept_settle(struct cay_dispatcher *d, struct cay_box *box);
void cay_kept_list(struct cay_dispatcher *d, struct cay_pending *p);
bool cay_kept_child_died(struct cay_dispatcher *d, pid_t pid, int status); /* true: the lister */

/* connect.c */
int cay_connect_pid1(const struct cay_dispatcher *d, const char *id, int *fd_out,
                     struct cay_error *err);
/* By which its image wants to be asked to end; 0: it does not say. */
int cay_connect_stop_signal(const struct cay_dispatcher *d, const char *id);
void cay_connect_answer(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p);

/* socket.c */
struct cay_sockets;
/* Adds those of a kind, made in the box, to `out`; none when it fails. */
int cay_sockets_of(const struct cay_box *box, uint32_t kind, struct cay_sockets *out,
                   struct cay_error *err);
void cay_socket_answer(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p);

/* usage.c */
void cay_usage_answer(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p);

/* victim.c */
void cay_victims_open(struct cay_dispatcher *d);
void cay_victims_read(struct cay_dispatcher *d); /* what the kernel has said since the last time */
uint32_t cay_victims_base_of(pid_t first);       /* the id range of who is inside; 0: cannot tell */

/* jobs.c */
/* A child, in which it is 0. It ends with the dispatcher, and holds nothing that is its alone. */
pid_t cay_jobs_fork(struct cay_dispatcher *d, const char *name);
int cay_jobs_open(struct cay_dispatcher *d, struct cay_error *err);
void cay_jobs_add(struct cay_dispatcher *d, struct cay_box *box, enum cay_job_op op);
void cay_jobs_pump(struct cay_dispatcher *d);
void cay_jobs_spawner_ready(struct cay_dispatcher *d, struct cay_spawner *s);
void cay_jobs_berth_ready(struct cay_dispatcher *d);
bool cay_jobs_busy(const struct cay_dispatcher *d);            /* a job is being done */
bool cay_jobs_coming_up(const struct cay_dispatcher *d);       /* a create or start is being done */
bool cay_jobs_child_died(struct cay_dispatcher *d, pid_t pid); /* true: it was one of ours */
void cay_jobs_tick(struct cay_dispatcher *d, int64_t now_ms);

/* care.c */
void cay_care_tick(struct cay_dispatcher *d, int64_t now_ms);

/* images.c */
/* Any request of theirs; what it brought is taken over. */
void cay_images_take(struct cay_dispatcher *d, struct cay_pending *p, const int *fds, int count);
/* Somebody reads this snapshot. */
bool cay_images_export(const struct cay_dispatcher *d, const struct cay_box *box);
int cay_images_check(const struct cay_engine_request *rq, int fd_count, struct cay_error *err);
void cay_images_sweep(struct cay_dispatcher *d); /* once, after the start */
void cay_images_ready(struct cay_dispatcher *d, struct cay_image_job *job);
void cay_images_pump(struct cay_dispatcher *d);
bool cay_images_child_died(struct cay_dispatcher *d, pid_t pid); /* true: it was one of ours */
void cay_images_client_gone(struct cay_dispatcher *d, int client);
void cay_images_tick(struct cay_dispatcher *d, int64_t now_ms);

/* backup.c */
void cay_backup_take(struct cay_dispatcher *d, struct cay_pending *p); /* any request of one */
void cay_backup_look(struct cay_dispatcher *d); /* does everything stand still by now? */
void cay_backup_end(struct cay_dispatcher *d);  /* its client has gone */
void cay_backup_tick(struct cay_dispatcher *d, int64_t now_ms);
void cay_backup_let_go(struct cay_dispatcher *d, struct cay_box *box);
bool cay_backup_is_copy(const struct cay_box *box);
bool cay_backup_clears(const struct cay_dispatcher *d); /* copies may be removed now */

/* build.c */
void cay_build_take(struct cay_dispatcher *d, struct cay_pending *p, int recipe_fd); /* borrowed */
bool cay_build_child_died(struct cay_dispatcher *d, pid_t pid); /* true: it was one of them */

/* adopt.c */
void cay_adopt_all(struct cay_dispatcher *d);

/* trash.c */
void cay_trash_tick(struct cay_dispatcher *d);
/* Removes a tree of any depth without following a link or leaving the filesystem. */
void cay_trash_remove(int dirfd, const char *name);
