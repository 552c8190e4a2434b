/* SPDX-License-Identifier: Apache-2.0 */
#include "base/library.h"
#include "base/log.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

bool cay_library_there(const char *file, const char **why_out)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        *why_out = dlerror();
    return library != NULL;
}

/* dlopen counts: what is loaded already is only found again. It is never closed. */
void (*cay_library_find(const char *file, const char *name))(void)
{
    void (*found)(void);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    void *at = library ? dlsym(library, name) : NULL;
    if (!at) {
        cay_log_error(NULL, "cannot load %s of %s: %s", name, file, dlerror());
        abort();
    }
    memcpy(&found, &at, sizeof found); /* C has no cast between the two */
    return found;
}
