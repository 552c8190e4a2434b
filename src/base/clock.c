/* SPDX-License-Identifier: Apache-2.0 */
/* Times. The calendar is computed here: gmtime_r takes a lock that all threads share. */
#include "base/clock.h"
#include <string.h>
#include <time.h>

#define DAY_MS (24 * 60 * 60 * 1000LL)
#define LAST_MS 253402300799999LL /* the end of the year 9999 */

static int64_t now(clockid_t clock, int64_t per_second)
{
    struct timespec t;
    (void)clock_gettime(clock, &t); /* cannot fail for these clocks */
    return (int64_t)t.tv_sec * per_second + t.tv_nsec / (1000000000LL / per_second);
}

int64_t cay_clock_ms(void)
{
    return now(CLOCK_REALTIME, 1000);
}

int64_t cay_clock_mono_ms(void)
{
    return now(CLOCK_MONOTONIC, 1000);
}

int64_t cay_clock_mono_us(void)
{
    return now(CLOCK_MONOTONIC, 1000000);
}

static char *digits(char *at, unsigned value, int count)
{
    for (int i = count - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
    return at + count;
}

/* Days since 1970 to a date. The year is taken to begin in March, so that leap days come last. */
static void civil(unsigned days, unsigned *year, unsigned *month, unsigned *day)
{
    unsigned z = days + 719468;
    unsigned era = z / 146097, of_era = z % 146097;
    unsigned y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * y + y / 4 - y / 100);
    unsigned m = (5 * of_year + 2) / 153;
    *day = of_year - (153 * m + 2) / 5 + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = y + era * 400 + (*month <= 2);
}

const char *cay_clock_iso(int64_t time_ms, char out[CAY_ISO_SIZE])
{
    unsigned year, month, day;
    if (time_ms < 0)
        time_ms = 0;
    if (time_ms > LAST_MS)
        time_ms = LAST_MS;
    civil((unsigned)(time_ms / DAY_MS), &year, &month, &day);
    unsigned ms = (unsigned)(time_ms % DAY_MS);

    char *at = digits(out, year, 4);
    *at++ = '-';
    at = digits(at, month, 2);
    *at++ = '-';
    at = digits(at, day, 2);
    *at++ = 'T';
    at = digits(at, ms / 3600000, 2);
    *at++ = ':';
    at = digits(at, ms / 60000 % 60, 2);
    *at++ = ':';
    at = digits(at, ms / 1000 % 60, 2);
    *at++ = '.';
    at = digits(at, ms % 1000, 3);
    *at++ = 'Z';
    *at = 0;
    return out;
}

static bool number(const char *s, int count, unsigned *out)
{
    unsigned value = 0;
    for (int i = 0; i < count; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
    }
    *out = value;
    return true;
}

bool cay_clock_parse(const char *iso, int64_t *out)
{
    static const char form[] = "0000-00-00T00:00:00.000Z";
    unsigned y, m, d, hour, minute, second, ms;
    char back[CAY_ISO_SIZE];
    if (strnlen(iso, sizeof form) != sizeof form - 1)
        return false;
    for (size_t i = 0; form[i]; i++)
        if (form[i] != '0' && iso[i] != form[i])
            return false;
    if (!number(iso, 4, &y) || !number(iso + 5, 2, &m) || !number(iso + 8, 2, &d) ||
        !number(iso + 11, 2, &hour) || !number(iso + 14, 2, &minute) ||
        !number(iso + 17, 2, &second) || !number(iso + 20, 3, &ms) || y < 1970 || m < 1 || m > 12)
        return false;
    unsigned from = m > 2 ? y : y - 1, of_era = from % 400;
    unsigned of_year = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
    int64_t days = (int64_t)(from / 400) * 146097 + of_era * 365 + of_era / 4 - of_era / 100 +
                   of_year - 719468;
    int64_t value = days * DAY_MS + ((hour * 60LL + minute) * 60 + second) * 1000 + ms;
    if (value < 0 || strcmp(cay_clock_iso(value, back), iso) != 0)
        return false; /* the 30th of February, 25 o'clock */
    *out = value;
    return true;
}

int64_t cay_clock_booted_at_ms(void)
{
    struct timespec up;
    (void)clock_gettime(CLOCK_BOOTTIME, &up); /* cannot fail with these arguments */
    return cay_clock_ms() - (int64_t)up.tv_sec * 1000 - up.tv_nsec / 1000000;
}
