/* SPDX-License-Identifier: Apache-2.0 */
/* Events as JSON lines. A line is built on the stack and cut to fit: logging allocates nothing,
 * so it works when memory is out and in a child of a threaded process. */
#include "base/log.h"
#include "base/clock.h"
#include "base/json.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_MAX 2048
/* Every text at its longest, each byte escaped, and the names around them. */
#define LINE_MAX_BYTES (6 * (MESSAGE_MAX + (int)sizeof(struct cay_error)) + 4096)

enum level { DEBUG, INFO, WARN, ERROR };

static const char *const levels[] = {"debug", "info", "warn", "error"};
static enum level lowest = INFO;
static char process[32] = "cay";

void cay_log_init(const char *who)
{
    const char *wanted = getenv("CAY_LOG_LEVEL");
    (void)snprintf(process, sizeof process, "%s", who);
    for (size_t i = 0; wanted && i < CAY_COUNT(levels); i++)
        if (strcmp(levels[i], wanted) == 0)
            lowest = (enum level)i;
}

static void put_error(struct cay_json_writer *w, const struct cay_error *err)
{
    cay_jw_str(w, "code", cay_error_name(err));
    if (err->field[0])
        cay_jw_str(w, "field", err->field);
    cay_jw_str(w, "error", err->msg);
    if (err->cause[0])
        cay_jw_str(w, "cause", err->cause);
}

static void begin_line(struct cay_json_writer *w, enum level level, const char *msg)
{
    cay_jw_object(w, NULL);
    cay_jw_time(w, "time", cay_clock_ms());
    cay_jw_str(w, "level", levels[level]);
    cay_jw_str(w, "who", process);
    cay_jw_str(w, "msg", msg);
}

static void end_line(struct cay_json_writer *w)
{
    cay_jw_object_end(w);
    cay_buf_addc(w->buf, '\n');
    if (write(STDERR_FILENO, w->buf->data, w->buf->len) < 0)
        return; /* nobody is left to be told */
}

static void event(enum level level, const struct cay_error *err, const char *fmt, va_list args)
{
    char text[MESSAGE_MAX], line[LINE_MAX_BYTES];
    if (level < lowest)
        return;
    (void)vsnprintf(text, sizeof text, fmt, args); /* truncation is fine */

    struct cay_buf buf = {.data = line, .cap = sizeof line};
    struct cay_json_writer w = {.buf = &buf};
    begin_line(&w, level, text);
    if (err)
        put_error(&w, err);
    end_line(&w);
}

void cay_log_fields(bool only_debug, const char *msg, const struct cay_log_field *fields,
                    size_t count)
{
    char line[LINE_MAX_BYTES];
    size_t room = MESSAGE_MAX;
    enum level level = only_debug ? DEBUG : INFO;
    if (level < lowest)
        return;
    struct cay_buf buf = {.data = line, .cap = sizeof line};
    struct cay_json_writer w = {.buf = &buf};
    begin_line(&w, level, msg);
    for (size_t i = 0; i < count; i++) {
        const struct cay_log_field *f = &fields[i];
        size_t len = f->text ? strnlen(f->text, room) : 0;
        if (f->text)
            cay_jw_strn(&w, f->name, f->text, len);
        else
            cay_jw_real(&w, f->name, f->number);
        room -= len;
    }
    end_line(&w);
}

void cay_log_info(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    event(INFO, NULL, fmt, args);
    va_end(args);
}

void cay_log_warn(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    event(WARN, NULL, fmt, args);
    va_end(args);
}

void cay_log_error(const struct cay_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    event(ERROR, err, fmt, args);
    va_end(args);
}
