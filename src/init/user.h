/* SPDX-License-Identifier: Apache-2.0 */
/* Who an execution runs as: "root", a number, two numbers, or a name in the sandbox's passwd. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAY_USER_MAX 65534 /* 65535 is pid 1's own */
#define CAY_USER_NAME 64   /* with its NUL */
#define CAY_USER_HOME 1024

struct cay_user {
    uint32_t uid, gid;
    char name[CAY_USER_NAME];
    char home[CAY_USER_HOME];
};

/* The text of passwd is the tenant's: lines that are not well formed are passed over. */
bool cay_user_find(const char *passwd, size_t len, const char *user, struct cay_user *out);
/* The same with the sandbox's own /etc/passwd, read with the rights of the caller. */
bool cay_user_resolve(const char *user, struct cay_user *out);
