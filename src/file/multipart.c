/* SPDX-License-Identifier: Apache-2.0 */
/* The delimiter is CR LF "--" boundary, and CR can stand in it only once: what was taken for its
 * beginning and is not is data, and the search goes on with the byte that told. */
#include "file/multipart.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum state { PREAMBLE, AFTER, HEAD, DATA, END, BAD };

int cay_multipart_init(struct cay_multipart *m, const char *boundary)
{
    size_t len = strlen(boundary);
    *m = (struct cay_multipart){.state = PREAMBLE};
    if (len < 1 || len > CAY_MULTIPART_BOUNDARY || strpbrk(boundary, "\r\n"))
        return 0;
    m->delimiter_len = (size_t)snprintf(m->delimiter, sizeof m->delimiter, "\r\n--%s", boundary);
    m->matched = 2; /* the first one stands at the start of the body, or of a line */
    return 1;
}

/* The value of a parameter of a header: name="value". */
static int parameter(const char *line, const char *key, char *out, size_t size)
{
    size_t key_len = strlen(key), n = 0;
    for (const char *at = line; (at = strchr(at, ';'));) {
        at += 1 + strspn(at + 1, " \t");
        if (strncasecmp(at, key, key_len) != 0 || at[key_len] != '=')
            continue;
        at += key_len + 1;
        int quoted = *at == '"';
        for (at += quoted; *at && *at != (quoted ? '"' : ';'); at++) {
            if (quoted && *at == '\\' && (at[1] == '"' || at[1] == '\\'))
                at++;
            if (n + 1 >= size)
                return -1;
            out[n++] = *at;
        }
        out[n] = 0;
        return quoted && *at != '"' ? -1 : 1;
    }
    return 0;
}

/* The lines of a part's head: only what the part is called matters here. */
static int read_head(struct cay_multipart *m)
{
    static const char wanted[] = "content-disposition:";
    m->name[0] = m->file[0] = 0;
    m->head[m->head_len] = 0;
    if (memchr(m->head, 0, m->head_len))
        return 0;
    for (char *line = m->head, *end; *line; line = end) {
        end = line + strcspn(line, "\r\n");
        if (*end)
            *end++ = 0;
        if (strncasecmp(line, wanted, sizeof wanted - 1) != 0)
            continue;
        return parameter(line, "name", m->name, sizeof m->name) > 0 &&
               parameter(line, "filename", m->file, sizeof m->file) >= 0;
    }
    return 0;
}

static enum cay_multipart_what bad(struct cay_multipart *m)
{
    m->state = BAD;
    return CAY_MULTIPART_BAD;
}

static enum cay_multipart_what add_head(struct cay_multipart *m, char c)
{
    if (m->head_len + 1 >= sizeof m->head)
        return bad(m);
    m->head[m->head_len++] = c;
    /* the line break behind the delimiter counts as the first of the two that end a head */
    int ends = (m->head_len == 2 && memcmp(m->head, "\r\n", 2) == 0) ||
               (m->head_len >= 4 && memcmp(m->head + m->head_len - 4, "\r\n\r\n", 4) == 0);
    if (!ends)
        return CAY_MULTIPART_NEED;
    if (!read_head(m))
        return bad(m);
    m->state = DATA;
    m->matched = 0;
    return CAY_MULTIPART_PART;
}

/* Behind a delimiter: "--" ends it all, blanks and a line break begin a part. */
static enum cay_multipart_what add_after(struct cay_multipart *m, char c)
{
    if (m->head_len + 1 >= sizeof m->head)
        return bad(m);
    m->head[m->head_len++] = c;
    if (m->head_len == 2 && memcmp(m->head, "--", 2) == 0) {
        m->state = END;
        return CAY_MULTIPART_END;
    }
    if (c == '-' && m->head_len == 1)
        return CAY_MULTIPART_NEED;
    if (c == '\n' && m->head_len >= 2 && m->head[m->head_len - 2] == '\r') {
        m->state = HEAD;
        m->head_len = 0;
        return CAY_MULTIPART_NEED;
    }
    return c == ' ' || c == '\t' || c == '\r' ? CAY_MULTIPART_NEED : bad(m);
}

/* Data up to the delimiter or the end of the input, whichever is first. */
static enum cay_multipart_what scan(struct cay_multipart *m, const char **in, size_t *len)
{
    while (*len > 0) {
        char c = **in;
        if (m->matched == 0 && c != '\r') {
            const char *stop = memchr(*in, '\r', *len);
            m->data = *in;
            m->len = stop ? (size_t)(stop - *in) : *len;
            *in += m->len;
            *len -= m->len;
            return CAY_MULTIPART_DATA;
        }
        if (c != m->delimiter[m->matched]) {
            m->data = m->delimiter;
            m->len = m->matched;
            m->matched = 0;
            return CAY_MULTIPART_DATA;
        }
        (*in)++;
        (*len)--;
        if (++m->matched == m->delimiter_len) {
            int first = m->state == PREAMBLE;
            m->state = AFTER;
            m->head_len = 0;
            return first ? CAY_MULTIPART_NEED : CAY_MULTIPART_PART_END;
        }
    }
    return CAY_MULTIPART_NEED;
}

enum cay_multipart_what cay_multipart_next(struct cay_multipart *m, const char **in, size_t *len)
{
    while (*len > 0) {
        enum cay_multipart_what what = CAY_MULTIPART_NEED;
        if (m->state == DATA) {
            what = scan(m, in, len);
        } else if (m->state == PREAMBLE) {
            what = scan(m, in, len);
            if (what == CAY_MULTIPART_DATA) /* what stands before the first part says nothing */
                what = CAY_MULTIPART_NEED;
        } else if (m->state == END) {
            return CAY_MULTIPART_END;
        } else if (m->state == BAD) {
            return CAY_MULTIPART_BAD;
        } else {
            char c = *(*in)++;
            (*len)--;
            what = m->state == HEAD ? add_head(m, c) : add_after(m, c);
        }
        if (what != CAY_MULTIPART_NEED)
            return what;
    }
    return CAY_MULTIPART_NEED;
}
