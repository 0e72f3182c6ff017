"""Memory for training: kept by the process once it has it, and in huge pages.

A step allocates and frees hundreds of megabytes. Left to itself the C library hands large tensors back and the system
clears them anew; and in pages of 4 kB much of the time goes into finding them. Together that is a third of a step.
"""

import ctypes
import functools
import sys
import warnings

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4  # names of glibc's malloc.h
MADV_HUGEPAGE = 14  # of Linux's mman.h
HUGE_PAGE = 2**21
RESERVED = 2**31 - HUGE_PAGE  # addresses, not memory: what is never touched costs nothing
STEP = 2**26  # by which the heap grows beyond them


def let_workers_be_replaced() -> None:
    """Keeps joblib, which puts another worker in the place of one that keeps much memory, from warning of it."""
    warnings.filterwarnings("ignore", "A worker stopped", UserWarning)


@functools.cache
def keep_freed_memory() -> None:
    """Tells glibc's allocator to do both, where there is one. Results are the same bits with and without."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    libc.malloc.argtypes, libc.free.argtypes, libc.sbrk.argtypes = [ctypes.c_size_t], [ctypes.c_void_p], [ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.mallopt(MMAP_MAX, 0)
    libc.mallopt(TRIM_THRESHOLD, 2**31 - 1)
    libc.mallopt(TOP_PAD, RESERVED)
    begin = libc.sbrk(0)
    libc.free(libc.malloc(STEP))
    end = libc.sbrk(0)
    libc.mallopt(TOP_PAD, STEP)
    if begin is not None and end is not None and end - begin > HUGE_PAGE:
        first = -(-begin // HUGE_PAGE) * HUGE_PAGE
        libc.madvise(first, end // HUGE_PAGE * HUGE_PAGE - first, MADV_HUGEPAGE)
