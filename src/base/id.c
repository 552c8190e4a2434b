/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes are taken from the kernel in batches, one batch per thread. */
#include "base/id.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define SANDBOX_PREFIX "sb-"
#define SNAPSHOT_PREFIX "sn-"
#define VOLUME_PREFIX "vo-"
#define ACCOUNT_PREFIX "ac-"
#define TEAM_PREFIX "tm-"
#define KEY_PREFIX "ky-"
#define LETTERS 20 /* after each of these */
#define EXEC_PREFIX "exec_"
#define BATCH_PREFIX "batch_"
#define EXEC_CHARS 16 /* after each of these */

static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
static const char hex[] = "0123456789abcdef";

static _Thread_local unsigned char pool[256];
static _Thread_local size_t left;

static unsigned char random_byte(void)
{
    if (left == 0) {
        ssize_t got;
        do
            got = getrandom(pool, sizeof pool, 0);
        while (got < 0 && errno == EINTR);
        if (got != (ssize_t)sizeof pool)
            abort(); /* an id that can be guessed is worse than none */
        left = sizeof pool;
    }
    return pool[--left];
}

/* A forked child must not repeat its parent's ids. */
static void begin(void)
{
    static _Thread_local pid_t owner;
    if (owner != getpid()) {
        owner = getpid();
        left = 0;
    }
}

static void make_id(char out[CAY_ID_SIZE], const char *prefix)
{
    const unsigned count = sizeof letters - 1, fair = 256 - 256 % count;
    char *at = out + strlen(prefix);
    memcpy(out, prefix, strlen(prefix));
    begin();
    for (unsigned made = 0; made < LETTERS;) {
        unsigned char byte = random_byte();
        if (byte < fair) /* a byte above would make the first letters likelier */
            at[made++] = letters[byte % count];
    }
    at[LETTERS] = 0;
}

void cay_id_sandbox(char out[CAY_ID_SIZE])
{
    make_id(out, SANDBOX_PREFIX);
}

void cay_id_snapshot(char out[CAY_ID_SIZE])
{
    make_id(out, SNAPSHOT_PREFIX);
}

void cay_id_volume(char out[CAY_ID_SIZE], const char *sandbox_id)
{
    memmove(out, sandbox_id, strnlen(sandbox_id, CAY_ID_SIZE - 1) + 1);
    memcpy(out, VOLUME_PREFIX, strlen(VOLUME_PREFIX));
}

void cay_id_account(char out[CAY_ID_SIZE])
{
    make_id(out, ACCOUNT_PREFIX);
}

void cay_id_team(char out[CAY_ID_SIZE])
{
    make_id(out, TEAM_PREFIX);
}

void cay_id_key(char out[CAY_ID_SIZE])
{
    make_id(out, KEY_PREFIX);
}

void cay_id_hex(char *out, unsigned digits)
{
    begin();
    for (unsigned i = 0; i < digits; i++)
        out[i] = hex[random_byte() & 15];
    out[digits] = 0;
}

void cay_id_execution(char out[CAY_ID_SIZE])
{
    memcpy(out, EXEC_PREFIX, strlen(EXEC_PREFIX));
    cay_id_hex(out + strlen(EXEC_PREFIX), EXEC_CHARS);
}

void cay_id_batch(char out[CAY_ID_SIZE])
{
    memcpy(out, BATCH_PREFIX, strlen(BATCH_PREFIX));
    cay_id_hex(out + strlen(BATCH_PREFIX), EXEC_CHARS);
}

static void letters_of(char out[CAY_ID_SIZE], const char *prefix, const unsigned char seed[32])
{
    size_t at = strlen(prefix);
    memcpy(out, prefix, at);
    for (size_t i = 0; i < LETTERS; i++)
        out[at++] = letters[seed[i] % (sizeof letters - 1)];
    out[at] = 0;
}

void cay_id_sandbox_of(char out[CAY_ID_SIZE], const unsigned char seed[32])
{
    letters_of(out, SANDBOX_PREFIX, seed);
}

void cay_id_snapshot_of(char out[CAY_ID_SIZE], const unsigned char seed[32])
{
    letters_of(out, SNAPSHOT_PREFIX, seed);
}

static void hex_of(char out[CAY_ID_SIZE], const char *prefix, const unsigned char seed[32])
{
    size_t at = strlen(prefix);
    memcpy(out, prefix, at);
    for (size_t i = 0; i < EXEC_CHARS; i++)
        out[at++] = hex[seed[i] & 15];
    out[at] = 0;
}

void cay_id_execution_of(char out[CAY_ID_SIZE], const unsigned char seed[32])
{
    hex_of(out, EXEC_PREFIX, seed);
}

void cay_id_batch_of(char out[CAY_ID_SIZE], const unsigned char seed[32])
{
    hex_of(out, BATCH_PREFIX, seed);
}

static bool has_form(const char *s, const char *prefix, const char *alphabet, size_t count)
{
    size_t head = strlen(prefix);
    return strncmp(s, prefix, head) == 0 && strspn(s + head, alphabet) == count &&
           s[head + count] == 0;
}

bool cay_id_is_sandbox(const char *s)
{
    return has_form(s, SANDBOX_PREFIX, letters, LETTERS);
}

bool cay_id_is_snapshot(const char *s)
{
    return has_form(s, SNAPSHOT_PREFIX, letters, LETTERS);
}

bool cay_id_is_volume(const char *s)
{
    return has_form(s, VOLUME_PREFIX, letters, LETTERS);
}

bool cay_id_is_team(const char *s)
{
    return has_form(s, TEAM_PREFIX, letters, LETTERS);
}

bool cay_id_is_execution(const char *s)
{
    return has_form(s, EXEC_PREFIX, hex, EXEC_CHARS);
}

bool cay_id_is_batch(const char *s)
{
    return has_form(s, BATCH_PREFIX, hex, EXEC_CHARS);
}
