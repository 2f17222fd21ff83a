"""Memory that pages needed for a moment goes back to the system.

The scripts of pages and the files they load run in dozens of threads. The C library gives threads heaps of their own,
up to eight a core, and once a large piece was freed it takes pieces of that size from the heaps as well. Each heap
then keeps what its largest page took, for good: after a few hundred visits some 80 MB that nobody uses.
"""

import ctypes
import sys

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # malloc.h of glibc
HEAPS = 2
APART_BYTES = 1 << 20  # larger pieces are mapped apart, and gone when they are freed


def keep_heaps_few() -> None:
    """Few heaps for all threads that are started from here on, and no large pieces in them. Other C libraries than
    glibc have neither; nothing happens there. Processes that are started do not inherit it."""
    if sys.platform != "linux" or not hasattr(libc := ctypes.CDLL(None), "mallopt"):
        return
    libc.mallopt(M_ARENA_MAX, HEAPS)
    libc.mallopt(M_MMAP_THRESHOLD, APART_BYTES)
