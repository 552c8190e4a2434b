/* SPDX-License-Identifier: Apache-2.0 */
/* cay-file from inside. Every operation fills a reply and returns a code; nothing is freed that the
 * end of the process frees, but whatever was begun in the tree is taken back. */
#pragma once
#include "base/buf.h"
#include "base/sha256.h"
#include "file/proto.h"
#include <limits.h>
#include <sys/stat.h>

#define CAY_FILE_CHUNK (64 * CAY_KIB)

int cay_file_main(int argc, char **argv);

/* io.c */
enum cay_file_code cay_file_code(int error); /* of an errno */
struct cay_file_info cay_file_info(const struct stat *st);
/* All of it. False: errno, or EOF too early (then errno is 0). */
bool cay_file_get(int fd, void *data, size_t len);
void cay_file_tell(struct cay_file_reply *reply, const char *name, size_t len); /* detail */
void cay_file_answer(struct cay_file_reply *reply, enum cay_file_code code);    /* to stdout */
void *cay_file_alloc(size_t size);
int cay_file_rename(int from_fd, const char *from, int to_fd, const char *to, bool only_new);

/* place.c: a name in an opened directory, so that nothing is resolved twice. */
struct cay_place {
    int dir_fd;
    char name[NAME_MAX + 1];     /* "." for the directory itself */
    char made[CAY_MAX_PATH + 1]; /* the directory's path, when parts of it were made */
    size_t made_from;            /* length of the first part that was; 0 none */
};

enum { CAY_PLACE_PARENTS = 1, CAY_PLACE_FOLLOW = 2 };

void cay_place_close(struct cay_place *p);
enum cay_file_code cay_place_open(const char *path, unsigned how, struct cay_place *out);
/* Takes back the directories that were made, as far as nobody has put anything there. */
void cay_place_undo(struct cay_place *p);
/* Directories of a path, with the parents that are missing; how much of it was there in made. */
enum cay_file_code cay_place_mkdir(const char *path, mode_t mode, size_t *made_from);
#define CAY_AUTO_PLACE CAY_CLEANUP(cay_place_close)

/* draft.c: a file under a name of its own until it is whole. */
struct cay_draft {
    struct cay_place place;
    char temp[24]; /* empty: none */
    int fd;
    bool existed, hashing, done;
    struct stat old; /* when existed */
    uint64_t bytes;
    struct cay_sha256 hash;
};

void cay_draft_drop(struct cay_draft *d); /* unless it was finished */
enum cay_file_code cay_draft_begin(const struct cay_file_request *rq, const char *path,
                                   struct cay_draft *out);
enum cay_file_code cay_draft_add(struct cay_draft *d, const void *data, size_t len);
/* In place from here on; fills the reply's info, flags and hash. */
enum cay_file_code cay_draft_finish(const struct cay_file_request *rq, struct cay_draft *d,
                                    struct cay_file_reply *reply);
#define CAY_AUTO_DRAFT CAY_CLEANUP(cay_draft_drop)

/* tree.c: a directory and what is below, sorted by name, each entry before what it holds. */
struct cay_tree {
    /* path is relative to the top. Returns 0 to go on, or a code to end with. *skip: do not go
     * into this directory. */
    enum cay_file_code (*visit)(struct cay_tree *t, int dir_fd, const char *name,
                                const struct stat *st, bool *skip);
    /* A directory that cannot be opened; NULL passes it over. */
    enum cay_file_code (*closed)(struct cay_tree *t, int error);
    void *arg;
    unsigned depth_max;
    bool stop;
    char path[CAY_MAX_PATH + 1];
    size_t path_len;
};

/* after: the path of the last entry that is left out, with all before it; or NULL. */
enum cay_file_code cay_tree_walk(struct cay_tree *t, int dir_fd, const char *after);
/* Everything in it; goes on after a failure and tells the first. Links are not followed. */
enum cay_file_code cay_tree_empty(int dir_fd);

/* gzip.c: bytes out and in, squeezed or not. */
struct cay_squeeze {
    void *z; /* NULL: as it is */
    size_t held;
    char buf[CAY_FILE_CHUNK];
};
bool cay_squeeze_open(struct cay_squeeze *s, bool gzip);
bool cay_squeeze_put(struct cay_squeeze *s, const void *data, size_t len);
bool cay_squeeze_file(struct cay_squeeze *s, int fd, uint64_t len);
bool cay_squeeze_end(struct cay_squeeze *s);

struct cay_unsqueeze {
    void *z; /* NULL: as it is */
    bool ended;
    size_t at, held;
    char buf[CAY_FILE_CHUNK];
};
bool cay_unsqueeze_open(struct cay_unsqueeze *u);        /* looks at the first bytes */
bool cay_unsqueeze_get(void *u, void *data, size_t len); /* all of it, or false */
/* Padding behind the end: its sender would take a closed pipe for a failure. */
void cay_unsqueeze_drain(struct cay_unsqueeze *u);

/* the operations: fill the reply, and send what follows it themselves when they succeed */
struct cay_file_op_table {
    enum cay_file_code (*run)(const struct cay_file_request *rq, struct cay_file_reply *reply);
    bool answers; /* sends the reply itself, when it succeeds */
};
enum cay_file_code cay_file_read(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_write(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_append(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_form(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_stat(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_list(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_mkdir(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_move(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_remove(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_pack(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_unpack(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_watch(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_processes(const struct cay_file_request *rq,
                                      struct cay_file_reply *reply);
enum cay_file_code cay_file_signal(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_scan(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_fetch(const struct cay_file_request *rq, struct cay_file_reply *reply);
enum cay_file_code cay_file_put_all(const struct cay_file_request *rq,
                                    struct cay_file_reply *reply);
