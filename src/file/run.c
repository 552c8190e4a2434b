/* SPDX-License-Identifier: Apache-2.0 */
/* Which operation was asked for. */
#include "file/file.h"
#include <errno.h>
#include <signal.h>

static const struct cay_file_op_table ops[CAY_FILE_OPS] = {
    [CAY_FILE_READ] = {cay_file_read, true},           [CAY_FILE_WRITE] = {cay_file_write, false},
    [CAY_FILE_APPEND] = {cay_file_append, false},      [CAY_FILE_FORM] = {cay_file_form, true},
    [CAY_FILE_STAT] = {cay_file_stat, true},           [CAY_FILE_LIST] = {cay_file_list, true},
    [CAY_FILE_MKDIR] = {cay_file_mkdir, false},        [CAY_FILE_MOVE] = {cay_file_move, false},
    [CAY_FILE_REMOVE] = {cay_file_remove, false},      [CAY_FILE_PACK] = {cay_file_pack, true},
    [CAY_FILE_UNPACK] = {cay_file_unpack, false},      [CAY_FILE_WATCH] = {cay_file_watch, true},
    [CAY_FILE_PROCESSES] = {cay_file_processes, true}, [CAY_FILE_SIGNAL] = {cay_file_signal, false},
    [CAY_FILE_PUT] = {cay_file_put_all, false},        [CAY_FILE_SCAN] = {cay_file_scan, true},
    [CAY_FILE_FETCH] = {cay_file_fetch, true},
};

/* Only who names something relative to it needs the working directory. */
static enum cay_file_code enter(const struct cay_file_request *rq)
{
    bool relative = rq->path[0] != '/' || (rq->to && rq->to[0] != '/') || rq->op == CAY_FILE_FORM;
    if (!relative || !rq->cwd || chdir(rq->cwd) == 0 || rq->op == CAY_FILE_FORM)
        return CAY_FILE_OK;
    return cay_file_code(errno);
}

int cay_file_main(int argc, char **argv)
{
    const char *lists[CAY_FILE_LISTS];
    struct cay_file_request rq;
    struct cay_file_reply reply = {0};
    enum cay_file_code code = CAY_FILE_BAD_REQUEST;
    errno = 0;
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error to tell of */
    if (cay_file_decode(argc, argv, &rq, lists, CAY_COUNT(lists))) {
        code = enter(&rq);
        if (code == CAY_FILE_OK)
            code = ops[rq.op].run(&rq, &reply);
        if (code == CAY_FILE_OK && ops[rq.op].answers)
            return 0;
    }
    reply.error = errno;
    cay_file_answer(&reply, code);
    return 0;
}
