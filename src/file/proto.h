/* SPDX-License-Identifier: Apache-2.0 */
/* Between the host and cay-file, the program that touches files inside a sandbox.
 *
 * One process per request, with the rights of one user of the sandbox. It is asked by its arguments
 * (cay_file_encode), takes data on stdin and answers on stdout: one struct cay_file_reply, then
 * what that promises. A request that must not be taken for whole when its sender vanishes has
 * CAY_FILE_COMMIT: then nothing happens unless a byte comes on CAY_FILE_COMMIT_FD after the data.
 * The other way, PACK puts a byte there when its archive, whose length nobody knew, was whole.
 *
 * Whoever reads the answer believes nothing of it: the sandbox may have written it. */
#pragma once
#include "base/buf.h"
#include "base/id.h"
#include "base/str.h"
#include "model/limits.h"

#define CAY_FILE_VERSION 1
#define CAY_FILE_COMMIT_FD 3
#define CAY_FILE_UNKNOWN UINT64_MAX /* a size nobody knows yet */

enum cay_file_op {
    CAY_FILE_READ = 1,
    CAY_FILE_WRITE,  /* stdin to a file beside, then renamed: whole or not at all */
    CAY_FILE_APPEND, /* stdin to the end of what is there */
    CAY_FILE_FORM,   /* WRITE for each file of a multipart/form-data on stdin */
    CAY_FILE_STAT,
    CAY_FILE_LIST,
    CAY_FILE_MKDIR,
    CAY_FILE_MOVE,
    CAY_FILE_REMOVE,
    CAY_FILE_PACK,      /* a tree as tar on stdout */
    CAY_FILE_UNPACK,    /* tar or tar.gz from stdin into a directory */
    CAY_FILE_WATCH,     /* events on stdout until nobody reads them */
    CAY_FILE_PROCESSES, /* who runs */
    CAY_FILE_SIGNAL,    /* to one of them */
    CAY_FILE_PUT,       /* files of an execution, or of another time, from stdin */
    CAY_FILE_SCAN,      /* every file below, and what tells its versions apart; then as FETCH */
    CAY_FILE_FETCH,     /* the contents of those that stdin names */
    CAY_FILE_OPS
};

enum {
    CAY_FILE_RECURSIVE = 1, /* REMOVE: what is in a directory, too */
    CAY_FILE_HASH = 2,      /* the reply has the content's sha256 */
    CAY_FILE_GZIP = 4,      /* PACK */
    CAY_FILE_PARENTS = 8,   /* directories on the way are made; MKDIR: is there already: fine */
    CAY_FILE_NEW = 16,      /* EXISTS when the target is there */
    CAY_FILE_COMMIT = 32,
    CAY_FILE_PLAIN = 64,  /* UNPACK: owners and the bits above 0777 are not the archive's to say */
    CAY_FILE_LOOSE = 128, /* WRITE: the disk is not waited for, as cp does not */
    CAY_FILE_REPLACE = 256, /* WRITE, UNPACK: a link at the path goes, where else it is followed */
};

/* Paths are relative to cwd, or absolute. Numbers that do not matter to an operation are 0. */
struct cay_file_request {
    enum cay_file_op op;
    uint64_t flags;
    const char *user; /* NULL: the sandbox's; not cay-file's business */
    const char *cwd;  /* NULL: the sandbox's */
    const char *path, *to;
    uint64_t mode;           /* with CAY_FILE_MODE set: permissions; else the usual ones */
    uint64_t offset, length; /* READ; UNKNOWN is to the end; as offset: the last `length` bytes */
    uint64_t size;           /* of stdin's data; UNKNOWN */
    uint64_t limit_bytes;    /* more than this is TOO_LARGE; 0 none */
    uint64_t depth, count;   /* LIST, WATCH; of a page */
    const char *after;       /* LIST: the last path of the page before */
    const char *match;    /* an ETag, or "*": CHANGED, or for READ whole, if the file is another */
    const char *boundary; /* FORM */
    uint64_t pid, signal; /* SIGNAL */
    struct cay_strs only; /* PACK: these paths and what lies below */
    struct cay_strs except; /* PACK: patterns of paths or of names */
};

#define CAY_FILE_MODE 010000 /* in mode: it was given */

enum cay_file_code {
    CAY_FILE_OK = 0,
    CAY_FILE_NOT_FOUND,
    CAY_FILE_IS_A_DIRECTORY,
    CAY_FILE_NOT_A_DIRECTORY,
    CAY_FILE_NOT_A_FILE, /* a pipe, a socket, a device */
    CAY_FILE_PERMISSION,
    CAY_FILE_READ_ONLY,
    CAY_FILE_EXISTS,
    CAY_FILE_NOT_EMPTY,
    CAY_FILE_NO_SPACE,
    CAY_FILE_TOO_LARGE,
    CAY_FILE_LOOP,
    CAY_FILE_INVALID_PATH,
    CAY_FILE_CHANGED,
    CAY_FILE_BUSY,
    CAY_FILE_CROSS_DEVICE,
    CAY_FILE_BAD_ARCHIVE,
    CAY_FILE_BAD_FORM,
    CAY_FILE_BAD_RANGE,
    CAY_FILE_INCOMPLETE, /* the data ended early */
    CAY_FILE_TOO_MANY,   /* levels, entries, directories to watch */
    CAY_FILE_NO_USER,    /* told by pid 1's child, which could not become the user */
    CAY_FILE_BAD_REQUEST,
    CAY_FILE_FAILED, /* error says why */
    CAY_FILE_CODES
};

enum { /* of a reply */
       CAY_FILE_CREATED = 1,
       CAY_FILE_MORE = 2,       /* LIST: there is another page */
       CAY_FILE_HAS_TARGET = 4, /* STAT: of a link that leads somewhere */
       CAY_FILE_HAS_SHA256 = 8,
       CAY_FILE_PARTIAL = 16, /* READ: a range of the file, as it was asked for */
};

struct cay_file_info {
    uint64_t size, inode;
    int64_t mtime_ns;
    uint32_t mode, uid, gid, links; /* mode as stat has it, type included */
};

struct cay_file_reply {
    uint32_t version, code;
    int32_t error; /* errno, 0 where the code says it all */
    uint32_t flags;
    struct cay_file_info info;   /* of the file, after the operation */
    struct cay_file_info target; /* STAT with HAS_TARGET */
    uint64_t offset;             /* READ: where in the file they begin */
    uint64_t length;             /* of the bytes that follow; UNKNOWN: as many as come */
    uint64_t bytes;              /* UNPACK: of all files */
    uint32_t count, skipped;     /* LIST, FORM: entries that follow; UNPACK: made, left out */
    uint8_t sha256[32];
    char detail[128]; /* which name was at fault, when it is not the path */
};

/* LIST, FORM: each entry, then path_len and link_len bytes. Paths are relative to what was asked
 * for. */
struct cay_file_entry {
    struct cay_file_info info;
    uint16_t path_len, link_len;
    uint32_t reserved;
};

enum cay_file_event_kind {
    CAY_FILE_EVENT_CREATED = 1,
    CAY_FILE_EVENT_MODIFIED,
    CAY_FILE_EVENT_DELETED,
    CAY_FILE_EVENT_MOVED, /* from path to `to` */
    CAY_FILE_EVENT_ATTRIBUTES,
    CAY_FILE_EVENT_OVERFLOW, /* some are missing: look again */
    CAY_FILE_EVENT_GONE,     /* the watched directory itself; the last one */
    CAY_FILE_EVENTS
};

/* WATCH: each event, then path_len and to_len bytes. */
struct cay_file_event {
    uint32_t kind;
    uint32_t is_dir;
    uint16_t path_len, to_len;
    uint32_t reserved;
};

/* PROCESSES: each one, then user_len and command_len bytes. */
struct cay_file_process {
    uint64_t cpu_ms, memory_bytes;
    int64_t started_at_ms;
    uint32_t pid, parent, uid, threads;
    char execution[CAY_ID_SIZE]; /* that began it, as its environment says; empty: not known */
    uint16_t user_len, command_len;
    uint8_t state; /* a letter, as ps has them */
    uint8_t reserved[3];
};

/* PUT: each file, then path_len and len bytes. The reply's count is how many were begun: the last
 * of them is the one that failed. mode is 0 for what the request says; or a file with its
 * permissions, or a link to its bytes, as stat has them: then whatever stands in the way goes; or
 * CAY_FILE_GONE: it goes, with the directories that are empty then. */
struct cay_file_put {
    uint64_t len;
    uint32_t path_len, mode;
};
#define CAY_FILE_GONE 1

/* SCAN: each file or link, then path_len bytes, relative to what was asked for. The last one has
 * no path and is `whole`; without it some are missing. */
struct cay_file_seen {
    uint64_t size, inode;
    int64_t mtime_ns, ctime_ns;
    uint32_t mode, path_len, whole, reserved;
};

/* FETCH takes for each file uint32_t and so many bytes of path, until stdin ends; gives this, then
 * len bytes: those of the file, or of where the link leads. code: no bytes. limit_bytes is of each
 * file. */
struct cay_file_fetched {
    struct cay_file_seen seen;
    uint64_t len;
    uint32_t code, reserved;
};

/* Ends of pipes, as cay-file has them. */
struct cay_file_pipes {
    int out; /* to write the answer to */
    int in;  /* to read data from, or -1 */
    int end; /* its CAY_FILE_COMMIT_FD, or -1 */
};

/* args.c: strings, each with its NUL, "cay-file" first; how many there are. */
uint32_t cay_file_encode(const struct cay_file_request *rq, struct cay_buf *out);
/* The other way; points into argv. False when it is none of ours. */
bool cay_file_decode(int argc, char **argv, struct cay_file_request *out, const char **lists,
                     size_t room);
#define CAY_FILE_LISTS (2 * CAY_FILE_FILTERS) /* what lists needs room for */

/* reply.c: what came from inside, checked. */
/* False when these bytes are no reply to such a request. */
bool cay_file_reply_parse(const void *data, size_t len, const struct cay_file_request *rq,
                          struct cay_file_reply *out);

struct cay_file_item {
    struct cay_file_info info;
    const char *path, *link; /* not terminated */
    size_t path_len, link_len;
};
/* Takes one entry or event off the front of *at. 0 done; 1 there is not enough yet; -1 no such
 * thing. */
int cay_file_entry_next(const char **at, size_t *len, struct cay_file_item *out);

struct cay_file_news {
    enum cay_file_event_kind kind;
    bool is_dir;
    const char *path, *to;
    size_t path_len, to_len;
};
int cay_file_event_next(const char **at, size_t *len, struct cay_file_news *out);

struct cay_file_task {
    struct cay_file_process info;
    const char *user, *command; /* not terminated */
};
/* SCAN: 0 done; 1 not enough yet; 2 that was the last; -1 no such thing. A path that is taken is
 * relative, without "..", "." or empty parts, and names no .git. */
int cay_file_seen_next(const char **at, size_t *len, struct cay_file_seen *out, const char **path);
int cay_file_process_next(const char **at, size_t *len, struct cay_file_task *out);

#define CAY_FILE_ETAG_SIZE 56
/* Size, time and inode, in quotes: changes when the content does. */
void cay_file_etag(const struct cay_file_info *info, char out[CAY_FILE_ETAG_SIZE]);
