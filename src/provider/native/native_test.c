/* SPDX-License-Identifier: Apache-2.0 */
#include "base/queue.h"
#include "model/config.h"
#include "provider/provider.h"
#include "tests/test.h"
#include <fcntl.h>

/* Nobody answers: what limits disks is not known, which is not nothing. */
TEST(native_does_not_guess_what_limits_disks)
{
    struct cay_queue events;
    struct cay_provider *p = NULL;
    struct cay_error err = {0};
    CAY_AUTO_FD int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct cay_config cfg = {.provider = "native", .data = test_dir(), .data_fd = dir};
    cay_queue_init(&events, 8);
    CHECK_EQ("open", cay_provider_open("native", &cfg, &events, &p, &err), 0);
    CHECK_STR("not known", cay_provider_disk(p), "unknown");
    cay_provider_close(p);
    cay_queue_done(&events);
}
