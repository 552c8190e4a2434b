/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/fake/runs.h"
#include "base/clock.h"
#include "log/writer.h"
#include "model/limits.h"
#include <string.h>
#include <unistd.h>

static void write_exit(int log_fd, uint8_t reason, int exit_code, int sig, uint64_t stdout_bytes)
{
    struct cay_writer w;
    struct cay_record_exit end = {.reason = reason,
                                  .exit_code = (uint8_t)exit_code,
                                  .signal = (uint8_t)sig,
                                  .stdout_bytes = stdout_bytes};
    cay_writer_init(&w, log_fd, CAY_LOG_HEAD_BYTES, CAY_LOG_TAIL_BYTES);
    (void)cay_writer_record(&w, CAY_RECORD_EXIT, &end, sizeof end, cay_clock_ms());
}

void cay_fake_end_run(struct cay_fake_run *run, int sig, uint8_t reason)
{
    if (sig)
        write_exit(run->log_fd, reason, 128 + sig, sig, 0);
    close(run->log_fd);
    cay_close_fd(&run->input_fd);
    free(run);
}

/* A signal of 0 is a death that leaves no exit record behind. */
void cay_fake_end_runs(struct cay_fake_box *b, int sig)
{
    while (b->runs) {
        struct cay_fake_run *run = b->runs;
        b->runs = run->next;
        cay_fake_end_run(run, sig, CAY_REASON_SIGNAL);
    }
}

void cay_fake_run(struct cay_fake_box *b, const struct cay_exec_spec *spec, int log_fd)
{
    struct cay_writer w;
    uint64_t code = 0, written = 0;
    const char *words[] = {b->files.root, b->files.work};
    struct cay_strs said = spec->argv;
    if (strcmp(spec->argv.at[0], "write") == 0 && spec->argv.count > 1) {
        cay_str_copy(b->files.root, sizeof b->files.root, spec->argv.at[1]);
        cay_str_copy(b->files.work, sizeof b->files.work, spec->argv.at[1]);
    }
    if (strcmp(spec->argv.at[0], "read") == 0)
        said = (struct cay_strs){.at = words, .count = CAY_COUNT(words)};
    if (strcmp(spec->argv.at[0], "exit") == 0 && spec->argv.count > 1)
        (void)cay_str_u64(spec->argv.at[1], 255, &code); /* else 0 */
    cay_writer_init(&w, log_fd, CAY_LOG_HEAD_BYTES, CAY_LOG_TAIL_BYTES);
    for (size_t i = 0; i < said.count; i++) {
        const char *end = i + 1 < said.count ? " " : "\n";
        const char *word = said.at[i];
        cay_writer_output(&w, CAY_RECORD_STDOUT, word, strlen(word), cay_clock_ms());
        cay_writer_output(&w, CAY_RECORD_STDOUT, end, 1, cay_clock_ms());
        written += strlen(word) + 1;
    }
    write_exit(log_fd, CAY_REASON_EXITED, (int)code, 0, written);
}

struct cay_fake_run *cay_fake_take_run(struct cay_fake_box *b, const char *exec_id)
{
    for (struct cay_fake_run **at = &b->runs; *at; at = &(*at)->next) {
        struct cay_fake_run *run = *at;
        if (strcmp(run->exec_id, exec_id) == 0) {
            *at = run->next;
            return run;
        }
    }
    return NULL;
}
