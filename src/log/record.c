/* SPDX-License-Identifier: Apache-2.0 */
/* Where records may lie in a log. */
#include "log/record.h"
#include "model/limits.h"

uint32_t cay_record_room(uint64_t offset)
{
    uint32_t left = (uint32_t)(CAY_LOG_BLOCK - offset % CAY_LOG_BLOCK);
    return left > sizeof(struct cay_record_head) ? left - sizeof(struct cay_record_head) : 0;
}
