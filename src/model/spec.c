/* SPDX-License-Identifier: Apache-2.0 */
#include "model/spec.h"
#include "model/limits.h"

struct cay_spec cay_spec_default(void)
{
    return (struct cay_spec){
        .image = CAY_DEFAULT_IMAGE,
        .cpu_milli = CAY_DEFAULT_CPU_MILLI,
        .memory_bytes = CAY_DEFAULT_MEMORY_BYTES,
        .disk_bytes = CAY_DEFAULT_DISK_BYTES,
        .memory_fits = true,
        .disk_fits = true,
        .pids = CAY_DEFAULT_PIDS,
        .network = {.mode = CAY_NETWORK_OPEN, .generation = 1},
        .timeout_ms = CAY_DEFAULT_TIMEOUT_MS,
        .idle_when = CAY_ACTIVE_ALL,
    };
}

struct cay_spec cay_spec_fork(const struct cay_spec *source)
{
    struct cay_spec spec = *source;
    spec.name = spec.volume = spec.from = spec.at = NULL;
    spec.memory_fits = spec.disk_fits = true;
    for (size_t i = 0; i < spec.port_count; i++)
        spec.ports[i].created_at_ms = 0;
    spec.ready = (struct cay_ready){0};
    spec.source = (struct cay_spec_source){0};
    spec.network.generation = 1;
    return spec;
}

const struct cay_port *cay_spec_port(const struct cay_spec *spec, unsigned port)
{
    for (size_t i = 0; i < spec->port_count; i++)
        if (spec->ports[i].port == port)
            return &spec->ports[i];
    return NULL;
}
