/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the kernel and of the host that must not open. Opened and closed again, never written.
 */
#include "escape.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static long list(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return -errno;
    long found = 0;
    for (struct dirent *e; (e = readdir(dir));)
        found += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return found ? found : -ENOENT;
}

long try_path(const struct path *p)
{
    char bytes[64];
    bool write = strcmp(p->how, "write") == 0;
    if (strcmp(p->how, "list") == 0)
        return list(p->path);
    int fd = open(p->path, (write ? O_WRONLY | O_APPEND : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    long n = write ? 1 : read(fd, bytes, sizeof(bytes));
    close(fd);
    return n > 0 ? n : -ENODATA;
}

/* clang-format off */
const struct path paths[] = {
    {"write", HIGH, "/proc/sysrq-trigger"},
    {"write", HIGH, "/proc/kcore"},
    {"write", HIGH, "/proc/kmsg"},
    {"write", HIGH, "/proc/sys/kernel/core_pattern"},
    {"write", HIGH, "/proc/sys/kernel/modprobe"},
    {"write", MEDIUM, "/proc/sys/kernel/hostname"},
    {"write", HIGH, "/proc/sys/kernel/panic"},
    {"write", HIGH, "/proc/sys/kernel/sysrq"},
    {"write", HIGH, "/proc/sys/kernel/yama/ptrace_scope"},
    {"write", HIGH, "/proc/sys/kernel/unprivileged_userns_clone"},
    {"write", MEDIUM, "/proc/sys/kernel/ns_last_pid"},
    {"write", HIGH, "/proc/sys/vm/panic_on_oom"},
    {"write", MEDIUM, "/proc/sys/vm/overcommit_memory"},
    {"write", MEDIUM, "/proc/sys/vm/drop_caches"},
    {"write", MEDIUM, "/proc/sys/fs/file-max"},
    {"write", MEDIUM, "/proc/sys/fs/suid_dumpable"},
    {"write", HIGH, "/proc/sys/fs/binfmt_misc/register"},
    {"write", MEDIUM, "/proc/sys/net/ipv4/ip_forward"},
    {"write", MEDIUM, "/proc/sys/net/ipv4/ip_unprivileged_port_start"},
    {"write", MEDIUM, "/proc/irq/default_smp_affinity"},
    {"write", MEDIUM, "/proc/bus/pci/devices"},
    {"write", LOW, "/proc/timer_list"},
    {"write", MEDIUM, "/proc/1/oom_score_adj"},
    {"write", MEDIUM, "/proc/1/comm"},
    {"write", HIGH, "/proc/1/mem"},
    {"write", HIGH, "/proc/1/uid_map"},
    {"write", HIGH, "/sys/kernel/uevent_helper"},
    {"write", MEDIUM, "/sys/kernel/mm/transparent_hugepage/enabled"},
    {"write", HIGH, "/sys/power/state"},
    {"write", HIGH, "/sys/power/disk"},
    {"write", MEDIUM, "/sys/fs/cgroup/cgroup.procs"},
    {"write", HIGH, "/sys/fs/cgroup/release_agent"},
    {"write", MEDIUM, "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
    {"write", MEDIUM, "/sys/class/net/lo/mtu"},
    {"write", MEDIUM, "/sys/module/overlay/parameters/redirect_dir"},
    {"write", HIGH, "/sys/kernel/debug"},
    {"write", HIGH, "/sys/kernel/security"},
    {"write", HIGH, "/dev/mem"},
    {"write", HIGH, "/dev/kmem"},
    {"write", HIGH, "/dev/port"},
    {"write", HIGH, "/dev/kmsg"},
    {"write", HIGH, "/dev/kvm"},
    {"write", MEDIUM, "/dev/fuse"},
    {"write", HIGH, "/dev/loop-control"},
    {"write", HIGH, "/dev/loop0"},
    {"write", HIGH, "/dev/sda"},
    {"write", HIGH, "/dev/vda"},
    {"write", HIGH, "/dev/net/tun"},
    {"write", HIGH, "/dev/vhost-net"},
    {"write", HIGH, "/dev/vhost-vsock"},
    {"write", MEDIUM, "/dev/vsock"},
    {"write", MEDIUM, "/dev/userfaultfd"},
    {"write", HIGH, "/dev/mapper/control"},
    {"write", MEDIUM, "/dev/rtc0"},
    {"write", MEDIUM, "/dev/hwrng"},
    {"write", MEDIUM, "/dev/uinput"},
    {"read", HIGH, "/proc/kcore"},
    {"read", HIGH, "/proc/kmsg"},
    {"read", MEDIUM, "/proc/keys"},
    {"read", LOW, "/proc/key-users"},
    {"read", LOW, "/proc/timer_list"},
    {"read", LOW, "/proc/sched_debug"},
    {"read", MEDIUM, "/proc/iomem"},
    {"read", MEDIUM, "/proc/ioports"},
    {"read", HIGH, "/proc/1/environ"},
    {"read", HIGH, "/proc/1/mem"},
    {"read", MEDIUM, "/proc/1/maps"},
    {"read", LOW, "/proc/1/stack"},
    {"read", LOW, "/proc/1/auxv"},
    {"read", MEDIUM, "/proc/vmallocinfo"},
    {"read", LOW, "/proc/slabinfo"},
    {"read", LOW, "/proc/pagetypeinfo"},
    {"read", MEDIUM, "/proc/kpagecount"},
    {"read", MEDIUM, "/proc/kpageflags"},
    {"read", LOW, "/proc/config.gz"},
    {"read", LOW, "/proc/scsi/scsi"},
    {"read", LOW, "/proc/acpi/event"},
    {"read", LOW, "/proc/interrupts"},
    {"read", LOW, "/proc/diskstats"},
    {"read", LOW, "/proc/cmdline"},
    {"read", LOW, "/proc/partitions"},
    {"read", LOW, "/sys/kernel/notes"},
    {"read", LOW, "/sys/firmware/memmap/0/start"},
    {"read", MEDIUM, "/sys/kernel/vmcoreinfo"},
    {"read", HIGH, "/dev/mem"},
    {"read", HIGH, "/dev/kmsg"},
    {"read", HIGH, "/dev/vda"},
    {"read", HIGH, "/dev/sda"},
    {"read", HIGH, "/dev/loop0"},
    {"read", HIGH, "/etc/shadow-"},
    {"read", HIGH, "/root/.ssh/id_rsa"},
    {"read", HIGH, "/var/run/docker.sock"},
    {"list", MEDIUM, "/proc/acpi"},
    {"list", LOW, "/proc/scsi"},
    {"list", MEDIUM, "/sys/firmware"},
    {"list", HIGH, "/sys/kernel/debug"},
    {"list", HIGH, "/sys/kernel/tracing"},
    {"list", MEDIUM, "/sys/kernel/security"},
    {"list", MEDIUM, "/sys/fs/bpf"},
    {"list", MEDIUM, "/sys/fs/pstore"},
    {"list", MEDIUM, "/sys/devices/virtual/powercap"},
    {"list", LOW, "/sys/block"},
    {"list", HIGH, "/proc/1/fd"},
    {"list", MEDIUM, "/proc/1/map_files"},
    {"list", HIGH, "/proc/1/task/1/fd"},
    {0},
};
/* clang-format on */
