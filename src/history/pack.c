/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of a large version go into one pack as they come, in git's format: nothing of them
 * waits in memory, and nobody asks the disk about each. To libgit2 it is one more place for
 * objects, which takes some only while a pack is open. */
#include "base/path.h"
#include "history/inside.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define HEAD_SIZE 12
#define SUM_SIZE 20
#define FLUSH_BYTES (1 << 20)
#define HEAD_MAX 16     /* of one object */
#define FILE_BYTES 4096 /* that a file of its own takes at least */

struct entry {
    git_oid id;
    uint32_t offset, crc, len; /* of the bytes before they were packed */
    git_object_t type;
};

struct cay_pack {
    git_odb_backend base; /* first: libgit2 hands it back to us */
    int dir_fd, fd;       /* -1: none is open */
    uint64_t *bytes;      /* of the history, with all objects that are written */
    z_stream z;
    struct cay_buf out; /* not written yet */
    uint32_t written;
    struct entry *entries;
    uint32_t *slots; /* by id: one more than the place among entries; 0: none */
    size_t count, room, slot_count;
};

static void be32(char out[4], uint32_t n)
{
    for (int i = 0; i < 4; i++)
        out[i] = (char)(n >> (24 - 8 * i));
}

/* ---- what is in it ---- */

static uint32_t *slot_of(const struct cay_pack *p, const git_oid *id)
{
    uint32_t hash;
    memcpy(&hash, id->id, sizeof hash);
    size_t at = hash & (p->slot_count - 1);
    while (p->slots[at] && !git_oid_equal(&p->entries[p->slots[at] - 1].id, id))
        at = (at + 1) & (p->slot_count - 1);
    return &p->slots[at];
}

static const struct entry *find(const struct cay_pack *p, const git_oid *id)
{
    uint32_t slot = p->slot_count ? *slot_of(p, id) : 0;
    return slot ? &p->entries[slot - 1] : NULL;
}

static void make_room(struct cay_pack *p)
{
    if (p->count < p->room)
        return;
    p->room = p->room ? 2 * p->room : 256;
    p->slot_count = 2 * p->room;
    p->entries = realloc(p->entries, p->room * sizeof *p->entries);
    free(p->slots);
    p->slots = calloc(p->slot_count, sizeof *p->slots);
    if (!p->entries || !p->slots)
        abort();
    for (size_t i = 0; i < p->count; i++)
        *slot_of(p, &p->entries[i].id) = (uint32_t)i + 1;
}

/* ---- adding ---- */

static bool flush(struct cay_pack *p)
{
    for (size_t at = 0; at < p->out.len;) {
        ssize_t n = write(p->fd, p->out.data + at, p->out.len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    p->written += (uint32_t)p->out.len;
    p->out.len = 0;
    return true;
}

/* Three bits of type and the length, seven bits at a time but for the first four. */
static size_t put_head(char *at, git_object_t type, size_t len)
{
    size_t used = 0;
    unsigned byte = ((unsigned)type << 4) | (len & 15);
    for (len >>= 4; len > 0; len >>= 7) {
        at[used++] = (char)(byte | 0x80);
        byte = len & 0x7f;
    }
    at[used++] = (char)byte;
    return used;
}

static bool put_packed(struct cay_pack *p, const void *data, size_t len)
{
    size_t room = deflateBound(&p->z, len);
    p->z.next_in = (Bytef *)(uintptr_t)data;
    p->z.avail_in = (uInt)len;
    p->z.next_out = (Bytef *)cay_buf_room(&p->out, room);
    p->z.avail_out = (uInt)room;
    bool whole = deflate(&p->z, Z_FINISH) == Z_STREAM_END;
    p->out.len += room - p->z.avail_out;
    return deflateReset(&p->z) == Z_OK && whole;
}

static int add(git_odb_backend *b, const git_oid *id, const void *data, size_t len,
               git_object_t type)
{
    struct cay_pack *p = (struct cay_pack *)b;
    *p->bytes += len + (p->fd < 0 ? FILE_BYTES : 0);
    if (p->fd < 0)
        return GIT_PASSTHROUGH; /* it goes into a file of its own */
    if (find(p, id))
        return 0;
    size_t before = p->out.len;
    p->out.len += put_head(cay_buf_room(&p->out, HEAD_MAX), type, len);
    if (len > CAY_HISTORY_COMMIT_BYTES || !put_packed(p, data, len))
        return GIT_ERROR;
    make_room(p);
    struct entry *e = &p->entries[p->count];
    *e = (struct entry){
        .id = *id,
        .offset = p->written + (uint32_t)before,
        .crc = (uint32_t)crc32(0, (const Bytef *)p->out.data + before, (uInt)(p->out.len - before)),
        .len = (uint32_t)len,
        .type = type};
    *slot_of(p, id) = (uint32_t)++p->count;
    return p->out.len < FLUSH_BYTES || flush(p) ? 0 : GIT_ERROR;
}

int cay_pack_add_blob(struct cay_pack *p, const git_oid *id, const void *data, size_t len)
{
    return add(&p->base, id, data, len, GIT_OBJECT_BLOB);
}

/* ---- reading back, what was just put in ---- */

static int has(git_odb_backend *b, const git_oid *id)
{
    return find((struct cay_pack *)b, id) != NULL;
}

static int read_header(size_t *len, git_object_t *type, git_odb_backend *b, const git_oid *id)
{
    const struct entry *e = find((struct cay_pack *)b, id);
    if (!e)
        return GIT_ENOTFOUND;
    *len = e->len;
    *type = e->type;
    return 0;
}

static int read_object(void **data, size_t *len, git_object_t *type, git_odb_backend *b,
                       const git_oid *id)
{
    struct cay_pack *p = (struct cay_pack *)b;
    const struct entry *e = find(p, id);
    char head[HEAD_MAX];
    if (!e)
        return GIT_ENOTFOUND;
    if (!flush(p))
        return GIT_ERROR;
    uint32_t from = e->offset + (uint32_t)put_head(head, e->type, e->len);
    uint32_t end = e + 1 < p->entries + p->count ? e[1].offset : p->written;
    CAY_AUTO_FREE char *packed = malloc(end - from);
    char *out = git_odb_backend_data_alloc(b, (size_t)e->len + 1);
    uLongf got = e->len;
    if (!packed || !out || pread(p->fd, packed, end - from, from) != (ssize_t)(end - from) ||
        uncompress((Bytef *)out, &got, (const Bytef *)packed, end - from) != Z_OK ||
        got != e->len) {
        git_odb_backend_data_free(b, out);
        return GIT_ERROR;
    }
    out[got] = 0;
    *data = out;
    *len = got;
    *type = e->type;
    return 0;
}

/* ---- its beginning and its end ---- */

static void forget(struct cay_pack *p)
{
    if (p->fd >= 0)
        (void)unlinkat(p->dir_fd, CAY_PACK_DRAFT, 0); /* else the next one begins over it */
    cay_close_fd(&p->fd);
    p->count = p->room = p->slot_count = 0;
    free(p->entries);
    free(p->slots);
    p->entries = NULL;
    p->slots = NULL;
    cay_buf_done(&p->out);
}

static void free_pack(git_odb_backend *b)
{
    struct cay_pack *p = (struct cay_pack *)b;
    forget(p);
    (void)deflateEnd(&p->z);
    cay_close_fd(&p->dir_fd);
    free(p);
}

int cay_pack_new(struct cay_history *h)
{
    struct cay_pack *p = calloc(1, sizeof *p);
    if (!p || deflateInit(&p->z, Z_BEST_SPEED) != Z_OK)
        abort();
    p->fd = -1;
    p->bytes = &h->bytes;
    p->dir_fd = openat(h->fd, "objects/pack", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    p->base = (git_odb_backend){.version = GIT_ODB_BACKEND_VERSION,
                                .read = read_object,
                                .read_header = read_header,
                                .write = add,
                                .exists = has,
                                .free = free_pack};
    if (p->dir_fd < 0 || git_odb_add_backend(h->odb, &p->base, 99) < 0) {
        free_pack(&p->base);
        return -1;
    }
    h->pack = p;
    return 0;
}

bool cay_pack_is_open(const struct cay_pack *p)
{
    return p->fd >= 0;
}

int cay_pack_begin(struct cay_pack *p, struct cay_error *err)
{
    static const char head[HEAD_SIZE] = {'P', 'A', 'C', 'K', 0, 0, 0, 2}; /* and how many, later */
    if (p->fd >= 0)
        return 0;
    p->fd = openat(p->dir_fd, CAY_PACK_DRAFT, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                   0600);
    if (p->fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot begin a version");
    p->written = 0;
    cay_buf_add(&p->out, head, sizeof head);
    return 0;
}

static bool sum_file(int fd, uint8_t sum[SUM_SIZE])
{
    char piece[1 << 16];
    off_t at = 0;
    ssize_t n = -1;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool well = md && EVP_DigestInit_ex(md, EVP_sha1(), NULL) == 1;
    while (well && (n = pread(fd, piece, sizeof piece, at)) > 0) {
        well = EVP_DigestUpdate(md, piece, (size_t)n) == 1;
        at += n;
    }
    well = well && n == 0 && EVP_DigestFinal_ex(md, sum, NULL) == 1;
    EVP_MD_CTX_free(md);
    return well;
}

static int by_id(const void *a, const void *b)
{
    return git_oid_cmp(&((const struct entry *)a)->id, &((const struct entry *)b)->id);
}

/* Git's index of a pack, version 2. Sorts the entries: nothing is found any more. */
static bool make_index(struct cay_pack *p, const uint8_t sum[SUM_SIZE], struct cay_buf *out)
{
    uint8_t own[SUM_SIZE];
    char number[4];
    size_t at = 0;
    qsort(p->entries, p->count, sizeof *p->entries, by_id);
    cay_buf_add(out, "\377tOc\0\0\0\2", 8);
    for (unsigned first = 0; first < 256; first++) {
        while (at < p->count && p->entries[at].id.id[0] <= first)
            at++;
        be32(number, (uint32_t)at);
        cay_buf_add(out, number, sizeof number);
    }
    for (size_t i = 0; i < p->count; i++)
        cay_buf_add(out, p->entries[i].id.id, SUM_SIZE);
    for (size_t i = 0; i < 2 * p->count; i++) {
        const struct entry *e = &p->entries[i % p->count];
        be32(number, i < p->count ? e->crc : e->offset);
        cay_buf_add(out, number, sizeof number);
    }
    cay_buf_add(out, sum, SUM_SIZE);
    if (EVP_Digest(out->data, out->len, own, NULL, EVP_sha1(), NULL) != 1)
        return false;
    cay_buf_add(out, own, SUM_SIZE);
    return true;
}

static int finish(struct cay_pack *p, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf index = {0};
    uint8_t sum[SUM_SIZE];
    char count[4], hex[2 * SUM_SIZE + 1], name[64];
    be32(count, (uint32_t)p->count);
    if (!flush(p) || pwrite(p->fd, count, 4, 8) != 4 || !sum_file(p->fd, sum) ||
        write(p->fd, sum, SUM_SIZE) != SUM_SIZE || !make_index(p, sum, &index))
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "a version cannot be written");
    for (size_t i = 0; i < SUM_SIZE; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    (void)snprintf(name, sizeof name, "pack-%s.pack", hex);
    if (renameat(p->dir_fd, CAY_PACK_DRAFT, p->dir_fd, name) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "a version cannot be written");
    (void)snprintf(name, sizeof name, "pack-%s.idx", hex);
    int r = cay_path_replace(p->dir_fd, name, index.data, index.len, 0400, err);
    if (r == 0 && git_odb_refresh(p->base.odb) < 0)
        r = cay_history_fail(err, "a version cannot be found again");
    return r;
}

int cay_pack_end(struct cay_pack *p, struct cay_error *err)
{
    int r = p->fd >= 0 && p->count > 0 ? finish(p, err) : 0;
    forget(p);
    return r;
}
