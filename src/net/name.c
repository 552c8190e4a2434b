/* SPDX-License-Identifier: Apache-2.0 */
#include "net/name.h"
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_label(const char *s, size_t len)
{
    if (len < 1 || len > 63 || s[0] == '-' || s[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_digit(s[i]) && !(s[i] >= 'a' && s[i] <= 'z') && s[i] != '-' && s[i] != '_')
            return false;
    return true;
}

/* As inet_aton reads it: decimal, octal or hex. */
static bool is_number(const char *s)
{
    static const char hex[] = "0123456789abcdef";
    bool in_hex = s[0] == '0' && s[1] == 'x';
    s += in_hex ? 2 : 0;
    return s[strspn(s, in_hex ? hex : "0123456789")] == '\0';
}

bool cay_host_read(const char *text, size_t len, char out[CAY_HOST_SIZE])
{
    char host[CAY_HOST_SIZE];
    if (len > 0 && text[len - 1] == '.')
        len--;
    if (len < 1 || len > CAY_MAX_HOST)
        return false;
    for (size_t i = 0; i < len; i++)
        host[i] = lower(text[i]);
    host[len] = '\0';
    size_t label = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && host[i] != '.')
            continue;
        if (!is_label(host + label, i - label))
            return false;
        if (i < len)
            label = i + 1;
    }
    if (is_number(host + label))
        return false;
    memcpy(out, host, len + 1);
    return true;
}

bool cay_host_matches(const char *pattern, const char *host)
{
    if (strcmp(pattern, "*") == 0)
        return true;
    if (strncmp(pattern, "*.", 2) != 0)
        return strcmp(pattern, host) == 0;
    size_t tail = strlen(pattern) - 1, len = strlen(host); /* ".a.b" */
    return len > tail && strcmp(host + len - tail, pattern + 1) == 0;
}
