/* SPDX-License-Identifier: Apache-2.0 */
/* A request as program arguments and back: "key=value", by one table. */
#include "file/proto.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum kind { TEXT, NUMBER, LIST };

static const struct {
    const char *key;
    enum kind kind;
    size_t offset;
} fields[] = {
    {"path", TEXT, offsetof(struct cay_file_request, path)},
    {"to", TEXT, offsetof(struct cay_file_request, to)},
    {"cwd", TEXT, offsetof(struct cay_file_request, cwd)},
    {"after", TEXT, offsetof(struct cay_file_request, after)},
    {"match", TEXT, offsetof(struct cay_file_request, match)},
    {"boundary", TEXT, offsetof(struct cay_file_request, boundary)},
    {"flags", NUMBER, offsetof(struct cay_file_request, flags)},
    {"mode", NUMBER, offsetof(struct cay_file_request, mode)},
    {"offset", NUMBER, offsetof(struct cay_file_request, offset)},
    {"length", NUMBER, offsetof(struct cay_file_request, length)},
    {"size", NUMBER, offsetof(struct cay_file_request, size)},
    {"limit", NUMBER, offsetof(struct cay_file_request, limit_bytes)},
    {"depth", NUMBER, offsetof(struct cay_file_request, depth)},
    {"count", NUMBER, offsetof(struct cay_file_request, count)},
    {"pid", NUMBER, offsetof(struct cay_file_request, pid)},
    {"signal", NUMBER, offsetof(struct cay_file_request, signal)},
    {"only", LIST, offsetof(struct cay_file_request, only)},
    {"except", LIST, offsetof(struct cay_file_request, except)},
};

static const char *const ops[CAY_FILE_OPS] = {
    [CAY_FILE_READ] = "read",           [CAY_FILE_WRITE] = "write",   [CAY_FILE_APPEND] = "append",
    [CAY_FILE_FORM] = "form",           [CAY_FILE_STAT] = "stat",     [CAY_FILE_LIST] = "list",
    [CAY_FILE_MKDIR] = "mkdir",         [CAY_FILE_MOVE] = "move",     [CAY_FILE_REMOVE] = "remove",
    [CAY_FILE_PACK] = "pack",           [CAY_FILE_UNPACK] = "unpack", [CAY_FILE_WATCH] = "watch",
    [CAY_FILE_PROCESSES] = "processes", [CAY_FILE_SIGNAL] = "signal", [CAY_FILE_PUT] = "put",
    [CAY_FILE_SCAN] = "scan",           [CAY_FILE_FETCH] = "fetch",
};

static void *member(const struct cay_file_request *rq, size_t i)
{
    return (char *)(uintptr_t)rq + fields[i].offset;
}

static void add(struct cay_buf *out, const char *key, const char *value)
{
    cay_buf_addf(out, "%s=", key);
    cay_buf_add(out, value, strlen(value) + 1);
}

uint32_t cay_file_encode(const struct cay_file_request *rq, struct cay_buf *out)
{
    uint32_t count = 2;
    cay_buf_add(out, "cay-file", sizeof "cay-file");
    cay_buf_add(out, ops[rq->op], strlen(ops[rq->op]) + 1);
    for (size_t i = 0; i < CAY_COUNT(fields); i++) {
        const char *text = fields[i].kind == TEXT ? *(const char **)member(rq, i) : NULL;
        uint64_t number = fields[i].kind == NUMBER ? *(uint64_t *)member(rq, i) : 0;
        const struct cay_strs *list = fields[i].kind == LIST ? member(rq, i) : NULL;
        char digits[24];
        (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
        if (text || number)
            add(out, fields[i].key, text ? text : digits);
        count += text || number;
        for (size_t k = 0; list && k < list->count; k++, count++)
            add(out, fields[i].key, list->at[k]);
    }
    return count;
}

static bool take(struct cay_file_request *rq, const char *arg, const char **lists, size_t room)
{
    size_t len = strcspn(arg, "=");
    if (!arg[len])
        return false;
    for (size_t i = 0; i < CAY_COUNT(fields); i++) {
        if (strlen(fields[i].key) != len || memcmp(fields[i].key, arg, len) != 0)
            continue;
        const char *value = arg + len + 1;
        if (fields[i].kind == NUMBER)
            return cay_str_u64(value, UINT64_MAX, member(rq, i));
        if (fields[i].kind == TEXT) {
            *(const char **)member(rq, i) = value;
            return true;
        }
        struct cay_strs *list = member(rq, i);
        if (!list->at)
            list->at = lists + (list == &rq->only ? 0 : room / 2);
        if (list->count >= room / 2)
            return false;
        list->at[list->count++] = value;
        return true;
    }
    return false;
}

bool cay_file_decode(int argc, char **argv, struct cay_file_request *out, const char **lists,
                     size_t room)
{
    struct cay_file_request rq = {0};
    for (size_t i = 1; argc > 1 && i < CAY_COUNT(ops); i++)
        if (strcmp(ops[i], argv[1]) == 0)
            rq.op = (enum cay_file_op)i;
    for (int i = 2; i < argc; i++)
        if (!take(&rq, argv[i], lists, room))
            return false;
    if (!rq.op || !rq.path || (rq.op == CAY_FILE_MOVE && !rq.to) ||
        (rq.op == CAY_FILE_FORM && !rq.boundary))
        return false;
    *out = rq;
    return true;
}
