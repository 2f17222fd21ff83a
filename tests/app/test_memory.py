"""How the dashboard's process asks the C library for memory."""

import os
import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from storage.data_folder import open_data_folder
from tests.support.dashboard import dashboard

HEAP_BYTES = 64 << 20  # on machines of 64 bits
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has heaps to be limited")
# threads that all hold memory at the same time; then a piece of 2 MB, after a larger one was freed
CHILD = """
import ctypes, sys, tempfile, threading
from app.memory import keep_heaps_few
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.malloc.argtypes = [ctypes.c_size_t]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]

def told():
    with tempfile.TemporaryFile() as file:
        stream = libc.fdopen(ctypes.c_int(libc.dup(file.fileno())), b"w")
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        file.seek(0)
        return file.read().decode()

def mapped():
    return int(told().split('type="mmap" count="')[1].split('"')[0])

if sys.argv[1] == "few":
    keep_heaps_few()
together = threading.Barrier(8)
def hold():
    piece = libc.malloc(1000)
    together.wait()
    libc.free(piece)
threads = [threading.Thread(target=hold) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.free(libc.malloc(8 << 20))
before = mapped()
piece = libc.malloc(2 << 20)
print(told().count("<heap nr="), mapped() - before)
"""


def _seen(how: str) -> tuple[int, int]:
    """(heaps after eight threads held memory at once, pieces of 2 MB that were mapped apart, of one)."""
    command = [sys.executable, "-c", CHILD, how]
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run(command, cwd=ROOT, env=usual, capture_output=True, text=True, check=True)
    heaps, apart = map(int, done.stdout.split())
    return heaps, apart


def test_threads_share_two_heaps_and_large_pieces_stay_out_of_them() -> None:
    """As without it each thread has a heap, and a large piece stays in one after a larger one was freed."""
    heaps, apart = _seen("as usual")
    assert heaps > 2
    assert apart == 0
    assert _seen("few") == (2, 1)


def _thread_heaps(pid: int) -> int:
    """Heaps beside the first one: each begins at a multiple of its 64 MB, which are kept for it but not yet used."""
    ranges = [line.split()[:2] for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    kept = {start: end for (start, end), mode in ((r.split("-"), m) for r, m in ranges) if mode == "---p"}
    used = [[int(x, 16) for x in (start, end, kept.get(end, "0"))] for start, end in (r.split("-") for r, _ in ranges)]
    return sum(start % HEAP_BYTES == 0 and kept_until - start == HEAP_BYTES for start, _, kept_until in used)


def test_the_dashboard_reads_files_for_many_browsers_in_few_heaps(tmp_path: Path) -> None:
    """However many threads do so; it began with at most one for each library that has threads of its own."""
    data = open_data_folder(tmp_path / "data")
    with dashboard(data) as home, httpx.Client(timeout=60) as client, ThreadPoolExecutor(24) as browsers:
        scripts = re.findall(r"static/[\w./-]+\.(?:js|css)", client.get(home).text)
        assert all(browsers.map(lambda name: client.get(home + name).is_success, scripts * 4))
        (process,) = (p for p in psutil.Process().children() if "app.cli" in p.cmdline())
        assert 1 <= _thread_heaps(process.pid) <= 3
