/* SPDX-License-Identifier: Apache-2.0 */
/* Options by table: what a command takes, where each value goes, and the text of its help.
 *
 * An option stands over its variable, that over the file, that over the default. All four go
 * through the same check, and a refusal says which of them was wrong. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include <stdio.h>

#define CAY_OPTIONS_FILE_MAX 65536

enum cay_option_kind {
    CAY_OPTION_STOP,     /* ends a table */
    CAY_OPTION_FLAG,     /* bool; takes no value on the command line, true|false elsewhere */
    CAY_OPTION_STRING,   /* const char * */
    CAY_OPTION_INTEGER,  /* int64_t */
    CAY_OPTION_NUMBER,   /* double */
    CAY_OPTION_SIZE,     /* int64_t bytes, from 512m, 2g, 1.5GiB */
    CAY_OPTION_DURATION, /* int64_t milliseconds, from 500ms, 30s, 10m, 2h; bare: seconds */
    CAY_OPTION_LIST,     /* struct cay_strs; may be repeated */
    CAY_OPTION_PAIRS,    /* struct cay_pairs, from KEY=VALUE, or KEY for our own variable's value;
                            in a file also as name.KEY = VALUE */
};

struct cay_option {
    enum cay_option_kind kind;
    const char *name; /* without dashes: "rate-limit"; also the key in a file */
    size_t offset;
    char letter;     /* 0: none */
    const char *arg; /* what help calls the value */
    const char *help;
    const char *variable;       /* NULL: neither a variable nor a key in a file */
    const char *otherwise;      /* the default, as text; NULL leaves zero */
    int64_t min, max;           /* integers, sizes, durations; both 0: from 0 on */
    const char *const *choices; /* of a string; NULL-terminated */
    bool unspoken;              /* not on the command line, where other users see it: secrets */
};

#define CAY_OPTION_END                                                                             \
    {                                                                                              \
        CAY_OPTION_STOP                                                                            \
    }

/* What a set of options is and where it comes from. */
struct cay_options {
    const struct cay_option *const *tables; /* NULL-terminated list of tables */
    size_t size;                            /* of the struct that they fill */
    size_t args_max;                        /* more than these are refused, or begin the command */
    bool command;     /* what follows is a command line of its own, taken as it stands */
    bool file_needed; /* a file that is not there is an error */
    /* The file's name once variables and options are known; NULL or its result NULL: no file. */
    const char *(*file)(struct cay_arena *a, const void *values);
    const char *(*variable)(const char *name); /* NULL: getenv */
};

struct cay_args {
    struct cay_strs args;
    struct cay_strs command;
    bool help;
};

/* argv without the program and the command's name. values has o->size bytes and is overwritten;
 * strings live in the arena or in argv. Errors are CAY_ERR_INVALID. */
int cay_options_parse(const struct cay_options *o, struct cay_arena *a, size_t argc,
                      const char *const *argv, void *values, struct cay_args *out,
                      struct cay_error *err);
void cay_options_help(const struct cay_option *table, FILE *to);

bool cay_options_size(const char *text, int64_t *bytes_out);
bool cay_options_duration(const char *text, int64_t *ms_out);
