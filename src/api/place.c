/* SPDX-License-Identifier: Apache-2.0 */
/* Places in a log: as a client says them, and where its last lines begin. */
#include "api/stream.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool cay_api_place_parse(const char *text, struct cay_api_place *out)
{
    struct cay_api_place place = {0};
    char digits[24];
    size_t len = strcspn(text, ".");
    if (len == 0 || len >= sizeof digits)
        return false;
    cay_str_copy(digits, len + 1, text);
    if (!cay_str_u64(digits, INT64_MAX, &place.offset))
        return false;
    text += len;
    for (int i = 0; i < 2 && *text == '.'; i++) {
        unsigned byte;
        for (text++; *text && *text != '.'; text += 2) {
            if (place.carried[i] >= 3 || strspn(text, "0123456789abcdef") < 2 ||
                sscanf(text, "%2x", &byte) != 1)
                return false;
            place.carry[i][place.carried[i]++] = (char)byte;
        }
    }
    if (*text)
        return false;
    *out = place;
    return true;
}

static bool is_output(const struct cay_record *rec)
{
    return rec->kind == CAY_RECORD_STDOUT || rec->kind == CAY_RECORD_STDERR;
}

static size_t count_lines(const char *data, size_t len)
{
    size_t lines = 0;
    for (const char *at = data; (at = memchr(at, '\n', len - (size_t)(at - data))); at++)
        lines++;
    return lines;
}

static int64_t all_lines(int log_fd)
{
    CAY_CLEANUP(cay_reader_rest) struct cay_reader reader;
    struct cay_record rec;
    struct cay_error ignored; /* then there are no more lines */
    int64_t lines = 0;
    char last = '\n';
    cay_reader_init(&reader, log_fd, 0);
    while (cay_reader_next(&reader, &rec, &ignored) == CAY_READ_RECORD)
        if (is_output(&rec) && rec.len > 0) {
            lines += (int64_t)count_lines(rec.data, rec.len);
            last = rec.data[rec.len - 1];
        }
    return lines + (last != '\n');
}

void cay_api_tail(int log_fd, int64_t lines, struct cay_api_place *out)
{
    CAY_CLEANUP(cay_reader_rest) struct cay_reader reader = {0};
    struct cay_record rec;
    struct cay_error ignored;
    int64_t leave_out = all_lines(log_fd) - lines;
    *out = (struct cay_api_place){0};
    if (leave_out <= 0)
        return;
    cay_reader_init(&reader, log_fd, 0);
    while (leave_out > 0 && cay_reader_next(&reader, &rec, &ignored) == CAY_READ_RECORD) {
        if (!is_output(&rec))
            continue;
        int64_t here = (int64_t)count_lines(rec.data, rec.len);
        *out = (struct cay_api_place){.offset = rec.next};
        if (here >= leave_out) {
            const char *at = rec.data;
            for (int64_t i = 0; i < leave_out; i++)
                at = (const char *)memchr(at, '\n', rec.len - (size_t)(at - rec.data)) + 1;
            *out = (struct cay_api_place){.offset = rec.offset, .skip = (uint64_t)(at - rec.data)};
        }
        leave_out -= here;
    }
}

/* Good is also the end of the file. */
int cay_api_check_place(int log_fd, const struct cay_api_place *place, struct cay_error *err)
{
    CAY_CLEANUP(cay_reader_rest) struct cay_reader reader = {0};
    struct cay_record rec;
    struct stat st;
    if (place->offset == 0)
        return 0;
    if (fstat(log_fd, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read the log");
    if (place->offset > (uint64_t)st.st_size)
        return cay_fail_field(err, "offset", "offset is behind the end");
    cay_reader_init(&reader, log_fd, place->offset);
    int r = cay_reader_next(&reader, &rec, err);
    return r < 0 ? cay_fail_field(err, "offset", "no record begins at this offset") : 0;
}
