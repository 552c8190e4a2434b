/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, loaded at its first call. A function that is not in this list does not link. */
#pragma once
#include "base/library.h"
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#define CAY_CURL(name) CAY_LIBRARY_CALL(CAY_LIBCURL, name)

/* curl.h has macros of these names, which only check that there are three arguments. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

/* clang-format off */
#define curl_easy_cleanup CAY_CURL(curl_easy_cleanup)
#define curl_easy_getinfo CAY_CURL(curl_easy_getinfo)
#define curl_easy_init CAY_CURL(curl_easy_init)
#define curl_easy_perform CAY_CURL(curl_easy_perform)
#define curl_easy_reset CAY_CURL(curl_easy_reset)
#define curl_easy_setopt CAY_CURL(curl_easy_setopt)
#define curl_easy_strerror CAY_CURL(curl_easy_strerror)
#define curl_global_init CAY_CURL(curl_global_init)
#define curl_slist_append CAY_CURL(curl_slist_append)
#define curl_slist_free_all CAY_CURL(curl_slist_free_all)
/* clang-format on */
