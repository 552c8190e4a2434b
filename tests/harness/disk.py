# SPDX-License-Identifier: Apache-2.0
"""What lies on the disk while others write and remove, and what of it in memory."""
import ctypes
import mmap
import os


def taken(directory, suffix=""):
    """Bytes of all files below whose names end so; what goes meanwhile takes none."""
    total = 0
    for top, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(top, name)).st_blocks * 512 if name.endswith(suffix) else 0
            except FileNotFoundError:
                pass
    return total


def in_memory(path):
    """Whether the kernel has any page of a file that has not more than one."""
    told = ctypes.c_ubyte()
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as m:
        assert len(m) <= mmap.PAGESIZE
        at = ctypes.c_char.from_buffer(m)
        failed = ctypes.CDLL(None, use_errno=True).mincore(ctypes.c_void_p(ctypes.addressof(at)), ctypes.c_size_t(len(m)), ctypes.byref(told))
        del at  # or it could not be unmapped
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return bool(told.value & 1)
