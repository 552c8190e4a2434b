/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of libraries that are loaded at their first call.
 *
 * libcurl and libgit2 bring thirty others with them. Only the server ever calls them, and most
 * servers never do; linked in, every command would spend its first milliseconds on loading them and
 * every sandbox's first process on copying their mappings. */
#pragma once
#include <stdbool.h>

/* Never NULL: without its library the program ends, as it would at its start were it linked. */
void (*cay_library_find(const char *file, const char *name))(void);

/* Can it be loaded? The loader's own words when not. */
bool cay_library_there(const char *file, const char **why_out);

/* Stands for the function: `#define curl_easy_init CAY_LIBRARY_CALL("libcurl.so.4",
 * curl_easy_init)` and the call stays as it was. */
#define CAY_LIBRARY_CALL(file, name)                                                               \
    (*({                                                                                           \
        static __typeof__(&(name)) found_;                                                         \
        __typeof__(&(name)) call_ = __atomic_load_n(&found_, __ATOMIC_RELAXED);                    \
        if (!call_) {                                                                              \
            call_ = (__typeof__(&(name)))cay_library_find(file, #name);                            \
            __atomic_store_n(&found_, call_, __ATOMIC_RELAXED);                                    \
        }                                                                                          \
        call_;                                                                                     \
    }))
