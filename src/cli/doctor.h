/* SPDX-License-Identifier: Apache-2.0 */
/* What a server needs of this machine, as tables of things to try.
 *
 * Each is tried for real, in a child that ends with it: mounts, namespaces, loop devices and
 * cgroups that a trial makes are gone when it is over. */
#pragma once
#include "base/attr.h"
#include <stdbool.h>
#include <stddef.h>

enum cay_verdict {
    CAY_FINE,
    CAY_NOTED,   /* neither good nor bad, but to be known */
    CAY_UNTRIED, /* root could tell */
    CAY_LACKING,
};

struct cay_found {
    enum cay_verdict verdict;
    char detail[200];
};

/* As `cay serve` would be told. */
struct cay_place {
    const char *data, *images, *listen; /* images: NULL is in the data directory */
    bool served;                        /* a server answers where we would ask one */
};

struct cay_probe {
    const char *what;
    bool needed; /* no server without it; else something is lost */
    bool root;   /* only root can try it */
    void (*probe)(const struct cay_probe *p, const struct cay_place *place, struct cay_found *out);
    const char *lost, *fix;
    long number; /* what differs between rows that are tried alike */
    const char *text;
};

/* Each ends with a row without a name. */
extern const struct cay_probe cay_doctor_kernel[], cay_doctor_cgroups[], cay_doctor_limits[],
    cay_doctor_files[];

/* Tries it in a child, for a bounded time. */
void cay_doctor_try(const struct cay_probe *p, const struct cay_place *place,
                    struct cay_found *out);

/* For the trials. */
void cay_doctor_say(struct cay_found *out, enum cay_verdict verdict, const char *fmt, ...)
    CAY_PRINTF(3, 4);
/* CAY_LACKING, with errno's text behind the words. */
void cay_doctor_failed(struct cay_found *out, const char *what);
/* The first word of a small file; false when it cannot be read. */
bool cay_doctor_read(const char *path, char *text, size_t size);
/* A user namespace with ids mapped, behind a descriptor; -1 with errno. */
int cay_doctor_user_namespace(void);
/* A copy of the mount at that path, its ids mapped; -1 with errno. */
int cay_doctor_map(int dir_fd, const char *path, int user_fd);
bool cay_doctor_has_program(const char *name);
/* True when a server holds the data directory's lock. */
bool cay_doctor_in_use(const struct cay_place *place);
