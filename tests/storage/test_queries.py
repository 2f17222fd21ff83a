"""A sweep that cannot be read says why and how to mend it, in one plain sentence."""

import os
import random
import shutil
from dataclasses import fields, replace
from pathlib import Path

import duckdb
import pytest

from storage.errors import StorageError
from storage.queries import read_sweep
from storage.records import CellRecord, EngineSample, RequestRecord, SweepMeta
from storage.sweep_store import SCHEMA_VERSION, SweepStore

META = SweepMeta("i", "n", SCHEMA_VERSION, "9.9.9", 0, False, "{}", "{}", "{}")


def make_sweep(folder: Path, meta: SweepMeta = META, requests: int = 300) -> bytes:
    """Writes a small finished sweep; returns the bytes of its database."""
    store = SweepStore.create(folder, meta)
    gaps = tuple(range(100))
    store.append([RequestRecord(0, i, "c", 0, 1, 1, i, chunk_deltas_us=gaps) for i in range(requests)], [], [])
    store.put_cell(CellRecord(0, "{}", "{}", 0, "ok"))
    store.close()
    return (folder / "sweep.duckdb").read_bytes()


def problem(folder: Path) -> str:
    """The one sentence that reading the folder gives."""
    with pytest.raises(StorageError) as e:
        read_sweep(folder)
    text = str(e.value)
    assert str(folder) in text
    assert "\n" not in text
    return text


def test_rows_come_sorted_by_cell_and_time_whatever_the_order_they_ended_in(tmp_path: Path) -> None:
    """Requests are ordered by (cell, scheduled_ns, request) with a fresh index."""
    order = [(c, t, r) for c in range(3) for t in (0, 5, 7) for r in (t * 10, t * 10 + 1)]
    rows = [RequestRecord(c, r, "c", 0, 1, 1, t) for c, t, r in order]
    random.Random(1).shuffle(rows)
    store = SweepStore.create(tmp_path, META)
    store.append(rows, [], [])
    store.close()
    requests = read_sweep(tmp_path).requests
    assert list(zip(requests["cell"], requests["scheduled_ns"], requests["request"], strict=True)) == order
    assert requests.index.tolist() == list(range(len(order)))


def test_reading_changes_nothing_on_the_disk_and_lets_go(tmp_path: Path) -> None:
    """After a read the folder holds the same bytes and a writer can open it at once."""
    before = make_sweep(tmp_path)
    read_sweep(tmp_path)
    assert (tmp_path / "sweep.duckdb").read_bytes() == before
    assert os.listdir(tmp_path) == ["sweep.duckdb"]
    SweepStore.reopen(tmp_path).close()


def test_a_folder_without_a_database_is_said(tmp_path: Path) -> None:
    """No sweep.duckdb: nothing measured yet, or half copied."""
    assert "nothing was measured yet" in problem(tmp_path)
    with pytest.raises(StorageError, match="nothing to resume"):
        SweepStore.reopen(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.5, 0.9])
def test_a_half_copied_database_is_said(tmp_path: Path, share: float) -> None:
    """A file cut at any point is told as half copied, never read as a smaller sweep."""
    whole = make_sweep(tmp_path, requests=3000)
    (tmp_path / "sweep.duckdb").write_bytes(whole[: int(len(whole) * share)])
    assert "half copied" in problem(tmp_path)
    with pytest.raises(StorageError, match="half copied"):
        SweepStore.reopen(tmp_path)


def test_flipped_bytes_are_noticed_or_harmless(tmp_path: Path) -> None:
    """Random damage gives the plain error or, in unused bytes, the same rows; never other rows, never a traceback."""
    whole = make_sweep(tmp_path, requests=3000)
    rng = random.Random(3)
    noticed = 0
    for _ in range(20):
        damaged = bytearray(whole)
        at = rng.randrange(len(damaged) - 64)
        damaged[at : at + 64] = rng.randbytes(64)
        (tmp_path / "sweep.duckdb").write_bytes(damaged)
        try:
            tables = read_sweep(tmp_path)
        except StorageError:
            noticed += 1
        else:
            assert tables.requests["request"].tolist() == list(range(3000))
            assert all(d.tolist() == list(range(100)) for d in tables.requests["chunk_deltas_us"])
    assert noticed > 0


def test_a_text_file_is_not_a_sweep(tmp_path: Path) -> None:
    """A file that is no database at all is refused plainly."""
    (tmp_path / "sweep.duckdb").write_text("hello" * 5000)
    assert "damaged" in problem(tmp_path)


def test_another_database_is_not_a_sweep(tmp_path: Path) -> None:
    """A valid database with other tables is refused plainly."""
    with duckdb.connect(str(tmp_path / "sweep.duckdb")) as db:
        db.execute("CREATE TABLE birds (name VARCHAR)")
    assert "not a Goodput Lab sweep" in problem(tmp_path)


def test_a_future_version_asks_for_an_update(tmp_path: Path) -> None:
    """Tables of a later version are not guessed at, neither to read nor to resume."""
    make_sweep(tmp_path, replace(META, schema_version=SCHEMA_VERSION + 1))
    text = problem(tmp_path)
    assert "Goodput Lab 9.9.9" in text
    assert "update" in text
    with pytest.raises(StorageError, match="update"):
        SweepStore.reopen(tmp_path)


def test_a_copied_folder_reads_the_same(tmp_path: Path) -> None:
    """The folder is the unit to copy: the copy has the same rows."""
    make_sweep(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert read_sweep(tmp_path / "a").requests.equals(read_sweep(tmp_path / "b").requests)


def old_sweep(folder: Path) -> None:
    """A sweep as version 1 wrote it: engine_sample ends with prefix_cache_hits_total."""
    store = SweepStore.create(folder, replace(META, schema_version=1))
    store.append([RequestRecord(0, 0, "c", 0, 1, 1, 0)], [EngineSample(0, 5, "metrics", 0.1, running=3.0)], [])
    store.put_cell(CellRecord(0, "{}", "{}", 0, "ok"))
    store.put_cell(CellRecord(1, "{}", "{}", 0, "running"))
    store.close()
    names = [f.name for f in fields(EngineSample)]
    with duckdb.connect(str(folder / "sweep.duckdb")) as db:
        for name in names[names.index("prefix_cache_hits_total") + 1 :]:
            db.execute(f"ALTER TABLE engine_sample DROP COLUMN {name}")


def test_a_sweep_of_an_older_version_is_read_with_nulls_and_left_as_it_is(tmp_path: Path) -> None:
    """Columns it lacks are null, what it has keeps its value, and the file keeps its bytes."""
    old_sweep(tmp_path)
    before = (tmp_path / "sweep.duckdb").read_bytes()
    tables = read_sweep(tmp_path)
    assert tables.meta["schema_version"] == 1
    assert list(tables.engine.columns) == [f.name for f in fields(EngineSample)]
    assert tables.engine["running"].tolist() == [3.0]
    assert tables.engine["ttft_s_total"].isna().all()
    assert tables.engine["iteration_tokens_buckets"].tolist() == [None]
    assert (tmp_path / "sweep.duckdb").read_bytes() == before


def test_a_sweep_of_an_older_version_is_resumed_with_the_columns_it_lacked(tmp_path: Path) -> None:
    """Its finished cells are kept, new samples keep their new numbers, and the tables are of this version."""
    old_sweep(tmp_path)
    store = SweepStore.reopen(tmp_path)
    assert list(store.finished_cells()) == [0]
    store.append([], [EngineSample(1, 6, "metrics", 0.1, ttft_s_total=2.5, iteration_tokens_buckets="{}")], [])
    store.close()
    tables = read_sweep(tmp_path)
    assert tables.meta["schema_version"] == SCHEMA_VERSION
    assert tables.engine["ttft_s_total"].fillna(-1).tolist() == [-1, 2.5]
    assert tables.engine["iteration_tokens_buckets"].tolist() == [None, "{}"]


def test_the_recorded_sweep_of_an_older_version_stays_readable() -> None:
    """The sample in the repository was written before the tables grew."""
    tables = read_sweep(Path(__file__).parents[1] / "fixtures" / "version_1_sweep")
    assert tables.meta["schema_version"] == 1
    assert len(tables.engine) > 0
    assert tables.engine["seats"].isna().all()
