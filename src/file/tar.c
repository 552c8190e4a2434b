/* SPDX-License-Identifier: Apache-2.0 */
#include "file/tar.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

#define EXTENSIONS_MAX 16 /* headers that describe the next entry */
#define PAX_MAX (64 * CAY_KIB)
#define OCTAL_SIZE 077777777777ULL

struct block { /* as POSIX has it */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
    char magic[6], version[2], owner[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct block) == CAY_TAR_BLOCK, "a header is one block");

/* ---- writing ---- */

static unsigned sum_of(const struct block *b)
{
    unsigned sum = 0;
    const unsigned char *p = (const unsigned char *)b;
    for (size_t i = 0; i < sizeof *b; i++) {
        bool in_sum = i >= offsetof(struct block, sum) && i < offsetof(struct block, type);
        sum += in_sum ? ' ' : p[i];
    }
    return sum;
}

static void put_octal(char *at, size_t size, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%0*llo", (int)size - 1, (unsigned long long)value);
    memcpy(at, text, size);
}

static void put_text(char *at, size_t size, const char *text)
{
    size_t len = strlen(text);
    memcpy(at, text, len < size ? len : size);
}

static void add_block(struct cay_buf *out, char type, const struct cay_tar_entry *e, uint64_t size)
{
    struct block b = {0};
    put_text(b.name, sizeof b.name, type == 'x' ? "pax" : e->path);
    put_text(b.link, sizeof b.link, type == 'x' ? "" : e->link);
    put_octal(b.mode, sizeof b.mode, e->mode & 07777);
    put_octal(b.uid, sizeof b.uid, e->uid & 07777777);
    put_octal(b.gid, sizeof b.gid, e->gid & 07777777);
    put_octal(b.size, sizeof b.size, size <= OCTAL_SIZE ? size : 0);
    put_octal(b.mtime, sizeof b.mtime,
              e->mtime > 0 && (uint64_t)e->mtime <= OCTAL_SIZE ? (uint64_t)e->mtime : 0);
    b.type = type;
    memcpy(b.magic, "ustar", 6);
    memcpy(b.version, "00", 2);
    put_octal(b.sum, 7, sum_of(&b));
    b.sum[7] = ' ';
    cay_buf_add(out, &b, sizeof b);
}

/* A record counts its own length, the digits of that number included. */
static void add_record(struct cay_buf *out, const char *key, const char *value)
{
    size_t bare = strlen(key) + strlen(value) + 3, len = bare;
    for (size_t digits = 0, now = 1; now != digits;) {
        char text[24];
        digits = now;
        len = bare + digits;
        now = (size_t)snprintf(text, sizeof text, "%zu", len);
    }
    cay_buf_addf(out, "%zu %s=", len, key);
    cay_buf_adds(out, value);
    cay_buf_addc(out, '\n');
}

void cay_tar_write(const struct cay_tar_entry *e, struct cay_buf *out)
{
    static const char zeros[CAY_TAR_BLOCK];
    CAY_AUTO_BUF struct cay_buf pax = {0};
    char number[24];
    if (strlen(e->path) > sizeof((struct block *)0)->name)
        add_record(&pax, "path", e->path);
    if (strlen(e->link) > sizeof((struct block *)0)->link)
        add_record(&pax, "linkpath", e->link);
    if (e->size > OCTAL_SIZE) {
        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)e->size);
        add_record(&pax, "size", number);
    }
    if (pax.len > 0) {
        add_block(out, 'x', e, pax.len);
        cay_buf_add(out, pax.data, pax.len);
        cay_buf_add(out, zeros, (CAY_TAR_BLOCK - pax.len % CAY_TAR_BLOCK) % CAY_TAR_BLOCK);
    }
    add_block(out, (char)e->type, e, e->size);
}

/* ---- reading ---- */

struct extra { /* what extension headers say of the next entry */
    bool has_path, has_link, has_size, has_uid, has_gid, has_mtime;
    char path[CAY_MAX_PATH + 1], link[CAY_MAX_PATH + 1];
    uint64_t size, uid, gid;
    int64_t mtime;
};

static int bad(struct cay_tar *t, const char *why)
{
    t->why = why;
    return -1;
}

/* Octal with blanks or NULs around, or GNU's binary form. */
static bool get_number(const char *at, size_t size, uint64_t *out)
{
    uint64_t value = 0;
    size_t i = 0;
    if ((unsigned char)at[0] == 0x80) {
        for (i = 1; i < size; i++) {
            if (value >> 55)
                return false;
            value = value << 8 | (unsigned char)at[i];
        }
        *out = value;
        return true;
    }
    while (i < size && at[i] == ' ')
        i++;
    for (; i < size && at[i] >= '0' && at[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(at[i] - '0'); /* twelve digits at most */
    for (; i < size; i++)
        if (at[i] != ' ' && at[i] != 0)
            return false;
    *out = value;
    return true;
}

static bool sum_fits(const struct block *b)
{
    uint64_t want;
    int is_signed = 0;
    const signed char *p = (const signed char *)b;
    for (size_t i = 0; i < sizeof *b; i++) {
        bool in_sum = i >= offsetof(struct block, sum) && i < offsetof(struct block, type);
        is_signed += in_sum ? ' ' : p[i];
    }
    return get_number(b->sum, sizeof b->sum, &want) &&
           (want == sum_of(b) || (int64_t)want == is_signed);
}

static bool take_text(const char *value, size_t len, char out[CAY_MAX_PATH + 1], bool *has)
{
    if (len > CAY_MAX_PATH || memchr(value, 0, len))
        return false;
    memcpy(out, value, len);
    out[len] = 0;
    *has = true;
    return true;
}

static bool take_number(const char *value, size_t len, uint64_t *out, bool *has)
{
    char text[24];
    if (len >= sizeof text)
        return false;
    memcpy(text, value, len);
    text[len] = 0;
    *has = true;
    return cay_str_u64(text, INT64_MAX, out);
}

static bool take_time(const char *value, size_t len, struct extra *x)
{
    uint64_t seconds = 0;
    const char *dot = memchr(value, '.', len);
    if (len > 0 && value[0] == '-')
        return true; /* before 1970: not worth keeping */
    if (!take_number(value, dot ? (size_t)(dot - value) : len, &seconds, &x->has_mtime))
        return false;
    x->mtime = (int64_t)seconds;
    return true;
}

static void tell_xattr(const struct cay_tar *t, const char *key, size_t key_len, const char *value,
                       size_t len)
{
    static const char prefix[] = "SCHILY.xattr.";
    const size_t skip_len = sizeof prefix - 1;
    char name[256];
    if (!t->xattr || key_len <= skip_len || memcmp(key, prefix, skip_len) != 0 ||
        key_len - skip_len >= sizeof name || memchr(key, 0, key_len))
        return;
    memcpy(name, key + skip_len, key_len - skip_len);
    name[key_len - skip_len] = 0;
    t->xattr(t->arg, name, value, len);
}

static bool take_record(const struct cay_tar *t, const char *key, size_t key_len, const char *value,
                        size_t len, struct extra *x)
{
    static const char sparse[] = "GNU.sparse";
    char name[16];
    tell_xattr(t, key, key_len, value, len);
    if (key_len >= sizeof sparse - 1 && memcmp(key, sparse, sizeof sparse - 1) == 0)
        return false; /* its data is not the file's */
    if (key_len >= sizeof name || memchr(key, 0, key_len))
        return true;
    memcpy(name, key, key_len);
    name[key_len] = 0;
    if (strcmp(name, "path") == 0)
        return take_text(value, len, x->path, &x->has_path);
    if (strcmp(name, "linkpath") == 0)
        return take_text(value, len, x->link, &x->has_link);
    if (strcmp(name, "size") == 0)
        return take_number(value, len, &x->size, &x->has_size);
    if (strcmp(name, "uid") == 0)
        return take_number(value, len, &x->uid, &x->has_uid);
    if (strcmp(name, "gid") == 0)
        return take_number(value, len, &x->gid, &x->has_gid);
    return strcmp(name, "mtime") != 0 || take_time(value, len, x);
}

/* "LENGTH KEY=VALUE\n"… */
static bool read_records(const struct cay_tar *t, const char *at, size_t len, struct extra *x)
{
    while (len > 0) {
        size_t count = 0, digits = 0;
        for (; digits < len && digits < 7 && at[digits] >= '0' && at[digits] <= '9'; digits++)
            count = 10 * count + (size_t)(at[digits] - '0');
        if (digits == 0 || count > len || count < digits + 3 || at[digits] != ' ' ||
            at[count - 1] != '\n')
            return false;
        const char *key = at + digits + 1, *end = at + count - 1;
        const char *equals = memchr(key, '=', (size_t)(end - key));
        if (!equals ||
            !take_record(t, key, (size_t)(equals - key), equals + 1, (size_t)(end - equals - 1), x))
            return false;
        at += count;
        len -= count;
    }
    return true;
}

static uint64_t padding(uint64_t size)
{
    return (CAY_TAR_BLOCK - size % CAY_TAR_BLOCK) % CAY_TAR_BLOCK;
}

static int skip(struct cay_tar *t, uint64_t len)
{
    char block[8 * CAY_TAR_BLOCK];
    while (len > 0) {
        size_t n = len < sizeof block ? (size_t)len : sizeof block;
        if (!t->get(t->arg, block, n))
            return bad(t, "it ends in the middle");
        len -= n;
    }
    return 0;
}

static int read_extension(struct cay_tar *t, char type, uint64_t size, struct extra *x)
{
    if (type == 'g')
        return size > PAX_MAX ? bad(t, "a header is too long") : skip(t, size + padding(size));
    if (size > PAX_MAX)
        return bad(t, "a header is too long");
    CAY_AUTO_FREE char *text = malloc(size + CAY_TAR_BLOCK);
    if (!text)
        abort();
    if (!t->get(t->arg, text, (size_t)(size + padding(size))))
        return bad(t, "it ends in the middle");
    if (type == 'x')
        return read_records(t, text, size, x) ? 0 : bad(t, "a pax header cannot be read");
    size_t len = strnlen(text, size);
    bool fits = type == 'L' ? take_text(text, len, x->path, &x->has_path)
                            : take_text(text, len, x->link, &x->has_link);
    return fits ? 0 : bad(t, "a name is too long");
}

static enum cay_tar_type type_of(char type, const char *path)
{
    size_t len = strlen(path);
    switch (type) {
    case 0:
    case '0':
    case '7':
        return len > 0 && path[len - 1] == '/' ? CAY_TAR_DIR : CAY_TAR_FILE;
    case '1':
    case '2':
    case '5':
        return (enum cay_tar_type)type;
    default:
        return CAY_TAR_OTHER;
    }
}

static void fill_names(const struct block *b, const struct extra *x, struct cay_tar_entry *out)
{
    bool posix = memcmp(b->magic, "ustar", 6) == 0;
    if (x->has_path)
        memcpy(out->path, x->path, sizeof out->path);
    else
        (void)snprintf(out->path, sizeof out->path, "%.*s%s%.*s", posix ? (int)sizeof b->prefix : 0,
                       b->prefix, posix && b->prefix[0] ? "/" : "", (int)sizeof b->name, b->name);
    if (x->has_link)
        memcpy(out->link, x->link, sizeof out->link);
    else
        (void)snprintf(out->link, sizeof out->link, "%.*s", (int)sizeof b->link, b->link);
}

static int fill_entry(struct cay_tar *t, const struct block *b, const struct extra *x,
                      struct cay_tar_entry *out)
{
    uint64_t size, mode, uid, gid, mtime;
    if (!get_number(b->size, sizeof b->size, &size) ||
        !get_number(b->mode, sizeof b->mode, &mode) || !get_number(b->uid, sizeof b->uid, &uid) ||
        !get_number(b->gid, sizeof b->gid, &gid))
        return bad(t, "a header cannot be read");
    if (!get_number(b->mtime, sizeof b->mtime, &mtime))
        mtime = 0;
    if (b->type == 'S')
        return bad(t, "sparse members are not taken");
    fill_names(b, x, out);
    out->type = type_of(b->type, out->path);
    out->mode = mode & 07777;
    out->uid = x->has_uid ? x->uid : uid;
    out->gid = x->has_gid ? x->gid : gid;
    out->mtime = x->has_mtime ? x->mtime : (int64_t)mtime;
    size = x->has_size ? x->size : size;
    if (size > INT64_MAX - CAY_TAR_BLOCK)
        return bad(t, "a size is too large");
    /* links and directories have none, whatever they say */
    bool none = out->type == CAY_TAR_HARD_LINK || out->type == CAY_TAR_LINK ||
                out->type == CAY_TAR_DIR || (b->type >= '3' && b->type <= '6');
    out->size = none ? 0 : size;
    t->left = out->size;
    t->pad = padding(out->size);
    return 1;
}

static bool is_zero(const struct block *b)
{
    static const struct block zero;
    return memcmp(b, &zero, sizeof zero) == 0;
}

int cay_tar_next(struct cay_tar *t, struct cay_tar_entry *out)
{
    struct extra x = {0};
    if (skip(t, t->left) < 0 || skip(t, t->pad) < 0)
        return -1;
    t->left = t->pad = 0;
    for (int headers = 0; headers <= EXTENSIONS_MAX; headers++) {
        struct block b;
        uint64_t size;
        if (!t->get(t->arg, &b, sizeof b))
            return bad(t, "it ends in the middle");
        if (is_zero(&b))
            return headers == 0 ? 0 : bad(t, "it ends in the middle");
        if (!sum_fits(&b))
            return bad(t, "it is no tar file");
        if (b.type != 'x' && b.type != 'g' && b.type != 'L' && b.type != 'K')
            return fill_entry(t, &b, &x, out);
        if (!get_number(b.size, sizeof b.size, &size))
            return bad(t, "a header cannot be read");
        if (read_extension(t, b.type, size, &x) < 0)
            return -1;
    }
    return bad(t, "too many headers for one member");
}

bool cay_tar_read(struct cay_tar *t, void *data, size_t len)
{
    if (len > t->left || !t->get(t->arg, data, len))
        return false;
    t->left -= len;
    return true;
}
