"""A writer killed at any moment loses no acknowledged row."""

import random
import subprocess
import sys
from pathlib import Path

from storage.queries import read_sweep
from storage.sweep_store import SweepStore

WRITER = """
import sys
from pathlib import Path
from storage.records import CellRecord, EngineSample, RequestRecord, SweepMeta
from storage.sweep_store import SweepStore

folder = Path(sys.argv[1])
if (folder / "sweep.duckdb").exists():
    store = SweepStore.reopen(folder)
else:
    store = SweepStore.create(folder, SweepMeta("i", "n", 1, "0", 0, False, "{}", "{}", "{}"))
cell = int(sys.argv[2])
store.put_cell(CellRecord(cell, "{}", "{}", 0, "ok"))
for batch in range(100_000):
    gaps = tuple(range(batch % 50))
    rows = [RequestRecord(cell, batch * 3 + i, "c", 0, 1, 1, batch, chunk_deltas_us=gaps) for i in range(3)]
    store.append(rows, [EngineSample(cell, batch, "metrics", 0.1)], [])
    print(batch, flush=True)
"""


def write_until_killed(folder: Path, cell: int, batches: int) -> int:
    """Lets a child append to `cell`, kills it after so many acknowledged batches; returns the last acknowledged."""
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(cell)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        for _ in range(batches):
            assert child.stdout.readline(), "the writer ended by itself"
        child.kill()
        acknowledged = child.stdout.read().split()  # what it still told before it died
    return int(acknowledged[-1]) if acknowledged else batches - 1


def test_ten_kills_lose_no_acknowledged_row(tmp_path: Path) -> None:
    """Ten times a writer is killed with SIGKILL and the next one goes on: all batches it told are there, whole."""
    rng = random.Random(7)
    told = []
    for cell in range(10):
        told.append(write_until_killed(tmp_path, cell, batches=rng.randint(1, 25)))
        tables = read_sweep(tmp_path)
        for c, last in enumerate(told):
            requests = tables.requests[tables.requests["cell"] == c]
            batches = len(requests) // 3
            assert batches >= last + 1, f"cell {c}: told {last + 1} batches, {batches} are there"
            assert requests["request"].tolist() == list(range(batches * 3)), "a batch is there in part, or twice"
            assert [len(d) for d in requests["chunk_deltas_us"]] == [(i // 3) % 50 for i in range(batches * 3)]
            assert (tables.engine["cell"] == c).sum() == batches
    SweepStore.reopen(tmp_path).close()
    assert [p.name for p in tmp_path.iterdir()] == ["sweep.duckdb"]
    assert len(read_sweep(tmp_path).requests) == len(tables.requests)
