/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox is to the Docker Engine: tighter than its own defaults. */
#include "init/proto.h"
#include "model/limits.h"
#include "model/network.h"
#include "provider/docker/docker.h"
#include <stdio.h>

#define CPU_PERIOD_US 100000
#define MAX_SHM_BYTES (2 * CAY_GIB)

static void add_limits(struct cay_json_writer *w, const struct cay_spec *spec)
{
    cay_jw_int(w, "Memory", (int64_t)spec->memory_bytes);
    cay_jw_int(w, "MemorySwap", (int64_t)spec->memory_bytes); /* both together: no swap */
    cay_jw_int(w, "CpuPeriod", CPU_PERIOD_US); /* may be more than the host has, as elsewhere */
    cay_jw_int(w, "CpuQuota", (int64_t)spec->cpu_milli * CPU_PERIOD_US / 1000);
    cay_jw_int(w, "PidsLimit", spec->pids);
}

bool cay_docker_has_limits(const struct cay_docker_box *box, const struct cay_spec *spec)
{
    return cay_json_get_int(box->host, "Memory", -1) == (int64_t)spec->memory_bytes &&
           cay_json_get_int(box->host, "PidsLimit", -1) == (int64_t)spec->pids &&
           cay_json_get_int(box->host, "CpuQuota", -1) ==
               (int64_t)spec->cpu_milli * CPU_PERIOD_US / 1000;
}

void cay_docker_write_limits(const struct cay_spec *spec, struct cay_buf *out)
{
    struct cay_json_writer w = {.buf = out};
    cay_jw_object(&w, NULL);
    add_limits(&w, spec);
    cay_jw_object_end(&w);
}

static void add_list(struct cay_json_writer *w, const char *key, const char *const *items,
                     size_t count)
{
    cay_jw_array(w, key);
    for (size_t i = 0; i < count; i++)
        cay_jw_str(w, NULL, items[i]);
    cay_jw_array_end(w);
}

/* What cay-init begins with, CAY_INIT_CAPS, by name. It keeps them for root inside, and gives none
 * to anybody else. */
static const char *const caps[] = {
    "CHOWN",  "DAC_OVERRIDE", "FOWNER", "FSETID",           "SETUID",
    "SETGID", "SETFCAP",      "KILL",   "NET_BIND_SERVICE", "SETPCAP"};
static const char *const all[] = {"ALL"};
static const char *const security[] = {"no-new-privileges"};
static const char *const resolvers[] = {CAY_NET_RESOLVER};

static void add_size(struct cay_json_writer *w, const char *key, const char *size)
{
    cay_jw_object(w, key);
    cay_jw_str(w, "size", size);
    cay_jw_object_end(w);
}

void cay_docker_write_volume(const struct cay_docker *d, const char *volume, uint64_t disk_bytes,
                             struct cay_buf *out)
{
    struct cay_json_writer w = {.buf = out};
    char size[24];
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)disk_bytes);
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "Name", volume);
    if (disk_bytes)
        add_size(&w, "DriverOpts", size);
    cay_jw_object(&w, "Labels");
    cay_jw_str(&w, CAY_DOCKER_LABEL, d->instance);
    cay_jw_object_end(&w);
    cay_jw_object_end(&w);
}

/* With a root that nobody can write to, these are memory: of the sandbox's own. */
static void add_read_only(struct cay_json_writer *w)
{
    cay_jw_bool(w, "ReadonlyRootfs", true);
    cay_jw_object(w, "Tmpfs");
    cay_jw_str(w, "/tmp", "exec,mode=1777");
    cay_jw_str(w, "/var/tmp", "exec,mode=1777");
    cay_jw_str(w, "/run", "mode=755");
    cay_jw_str(w, "/home/user", "exec,mode=755,uid=1000,gid=1000");
    cay_jw_object_end(w);
}

/* Its own new one begins as the image has it; any other is left as it is, empty or not. */
static void add_workspace(const struct cay_docker *d, struct cay_json_writer *w, const char *volume,
                          const struct cay_spec *spec, const char *size)
{
    cay_jw_array(w, "Mounts");
    cay_jw_object(w, NULL);
    cay_jw_str(w, "Type", "volume");
    cay_jw_str(w, "Source", volume);
    cay_jw_str(w, "Target", CAY_DOCKER_WORKSPACE);
    cay_jw_object(w, "VolumeOptions");
    cay_jw_bool(w, "NoCopy", spec->volume || spec->from);
    cay_jw_object(w, "Labels");
    cay_jw_str(w, CAY_DOCKER_LABEL, d->instance);
    cay_jw_object_end(w);
    if (size) {
        cay_jw_object(w, "DriverConfig");
        cay_jw_str(w, "Name", "local");
        add_size(w, "Options", size);
        cay_jw_object_end(w);
    }
    cay_jw_object_end(w);
    cay_jw_object_end(w);
    cay_jw_array_end(w);
}

static void add_host(const struct cay_docker *d, struct cay_json_writer *w, const char *volume,
                     const struct cay_spec *spec, const char *size)
{
    uint64_t shm = spec->memory_bytes / 2;
    cay_jw_object(w, "HostConfig");
    add_limits(w, spec);
    if (d->runtime)
        cay_jw_str(w, "Runtime", d->runtime);
    if (d->read_only)
        add_read_only(w);
    if (size)
        add_size(w, "StorageOpt", size);
    add_list(w, "CapDrop", all, CAY_COUNT(all));
    add_list(w, "CapAdd", caps, CAY_COUNT(caps));
    add_list(w, "SecurityOpt", security, CAY_COUNT(security));
    add_list(w, "Dns", resolvers, CAY_COUNT(resolvers));
    cay_jw_str(w, "NetworkMode", "none"); /* its ways in and out are ours: engine/network.h */
    cay_jw_str(w, "IpcMode", "private");
    cay_jw_int(w, "ShmSize", shm > MAX_SHM_BYTES ? MAX_SHM_BYTES : (int64_t)shm);
    cay_jw_int(w, "OomScoreAdj", 500);
    cay_jw_object(w, "LogConfig");
    cay_jw_str(w, "Type", "none"); /* pid 1 says nothing, and the others have logs of ours */
    cay_jw_object_end(w);
    add_workspace(d, w, volume, spec, size);
    cay_jw_object_end(w);
}

void cay_docker_write_create(const struct cay_docker *d, const char *id, const char *image,
                             const char *volume, const struct cay_spec *spec, struct cay_buf *out)
{
    struct cay_json_writer w = {.buf = out};
    char disk[24];
    const char *const init[] = {CAY_INIT_DIR "/cay-init", disk, CAY_INIT_ALONE};
    (void)snprintf(disk, sizeof disk, "%llu", (unsigned long long)spec->disk_bytes);
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "Image", image);
    cay_jw_str(&w, "Hostname", spec->name);
    cay_jw_str(&w, "User", "0:0"); /* cay-init's, which becomes nobody at once */
    cay_jw_str(&w, "WorkingDir", "/");
    add_list(&w, "Entrypoint", init, CAY_COUNT(init));
    cay_jw_object(&w, "Labels");
    cay_jw_str(&w, CAY_DOCKER_LABEL, d->instance);
    cay_jw_str(&w, "cay.id", id);
    cay_jw_str(&w, "cay.generation", "1"); /* of what these labels mean */
    cay_jw_str(&w, "cay.volume", volume);
    cay_jw_str(&w, "cay.given", spec->volume ? "1" : "");
    cay_jw_str(&w, "cay.disk", disk);
    cay_jw_object_end(&w);
    add_host(d, &w, volume, spec, d->sized > 0 ? disk : NULL);
    cay_jw_object_end(&w);
}
