/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever somebody uploads as an archive: no crash, and no layer outside of the file's members. */
#include "image/archive.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = memfd_create("archive", MFD_CLOEXEC);
    struct cay_error err;
    struct cay_archive archive;
    struct cay_archive_images images;
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    if (cay_archive_open(&a, fd, &archive, &err) < 0 ||
        cay_archive_images(&archive, "amd64", &images, &err) < 0)
        return 0;
    for (size_t i = 0; i < images.count; i++)
        for (size_t k = 0; k < images.at[i].about.config.diff_ids.count; k++)
            if (strlen(images.at[i].layers[k].diff_id) != CAY_DIGEST_HEX)
                abort();
    return 0;
}
