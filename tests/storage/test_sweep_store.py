"""What is appended is kept, once, typed, in one file; what cannot be kept is said in one plain sentence."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest

import storage.sweep_store
from storage.errors import StorageError
from storage.queries import read_sweep
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord, SweepMeta
from storage.sweep_store import SCHEMA_VERSION, SweepStore

META = SweepMeta(
    "20261129-181502-x-ab12", "näme", SCHEMA_VERSION, "0.1.0", 5, True, '{"a": 1}', '{"kind": "vllm"}', "{}"
)


def request(cell: int, n: int, **more: object) -> RequestRecord:
    return replace(RequestRecord(cell, n, "chat", 0, 10, 20, n * 1000), **more)  # type: ignore[arg-type]


def cell(n: int, status: str = "ok", **more: object) -> CellRecord:
    return replace(CellRecord(n, '{"max_num_seqs": 4}', '{"request_rate": 1.5}', 0, status), **more)  # type: ignore[arg-type]


def plain(error: BaseException) -> str:
    """The message, checked to be one line without a traceback."""
    text = str(error)
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def test_rows_of_every_table_come_back_as_they_were(tmp_path: Path) -> None:
    """One row per table, all fields set and all fields null, is read back equal."""
    full = request(
        1, 0, sent_ns=1, connect_ns=2, tls_ns=3, first_byte_ns=4, first_chunk_ns=5, first_answer_ns=6, end_ns=7,
        chunk_deltas_us=(1, 0, 4_000_000_000), token_events=4, shared_stamps=1, user_stamps=2, output_tokens=4,
        output_tokens_source="usage", reasoning_tokens=1, prompt_tokens=11, cached_prompt_tokens=3, load_ms=0.5,
        retry_after_s=2.5, malformed_events=1, saw_terminator=True, outcome="error", error_kind="truncated",
        error_detail="日本 'q\"", http_status=200, finish_reason="stop", reused_connection=True, resends=1,
        clock="kernel",
    )  # fmt: skip
    told = {f.name: float(i) for i, f in enumerate(fields(EngineSample)[4:])}
    told["iteration_tokens_buckets"] = '{"1.0": 2.0}'  # type: ignore[assignment]
    engine = [EngineSample(0, 9, "metrics", 0.2, **told), EngineSample(0, 3, "none", 0.0)]  # type: ignore[arg-type]
    client = [ClientSample(0, 1, 0.25, 0.5, 3, 0.125)]
    store = SweepStore.create(tmp_path, META)
    store.append([full, request(0, 1)], engine, client)
    store.put_cell(cell(0))
    store.close()

    tables = read_sweep(tmp_path)
    assert tables.meta == {**asdict(META), "config": {"a": 1}, "backend": {"kind": "vllm"}, "environment": {}}
    assert json.loads(json.dumps(tables.meta)) == tables.meta
    assert tables.requests["cell"].tolist() == [0, 1]
    got = tables.requests.iloc[1].to_dict()
    assert tuple(got.pop("chunk_deltas_us")) == full.chunk_deltas_us
    assert got == {k: v for k, v in asdict(full).items() if k != "chunk_deltas_us"}
    assert tables.engine["at_ns"].tolist() == [3, 9]
    assert tables.engine.iloc[1].tolist() == list(asdict(engine[0]).values())
    assert tables.client.iloc[0].tolist() == list(asdict(client[0]).values())
    assert tables.cells["setting"][0] == {"max_num_seqs": 4}
    assert tables.cells["load"][0] == {"request_rate": 1.5}


def test_a_closed_sweep_is_one_file(tmp_path: Path) -> None:
    """After close nothing but sweep.duckdb lies in the folder: no log, no temporary file."""
    store = SweepStore.create(tmp_path, META)
    store.append([request(0, i) for i in range(100)], [], [])
    store.close()
    assert [p.name for p in tmp_path.iterdir()] == ["sweep.duckdb"]


def test_an_empty_sweep_is_readable(tmp_path: Path) -> None:
    """A sweep without any row has all tables with zero rows."""
    SweepStore.create(tmp_path, META).close()
    tables = read_sweep(tmp_path)
    assert [len(t) for t in (tables.cells, tables.requests, tables.engine, tables.client)] == [0, 0, 0, 0]


def test_a_cell_is_replaced_not_doubled(tmp_path: Path) -> None:
    """put_cell with the same number replaces the row; only ended cells count as finished."""
    store = SweepStore.create(tmp_path, META)
    store.put_cell(cell(0, "running"))
    assert store.finished_cells() == {}
    done = cell(0, "failed", error_kind="out_of_memory", exit_code=-9, window_end_ns=5)
    store.put_cell(done)
    store.put_cell(cell(1, "running"))
    assert store.finished_cells() == {0: done}
    store.close()
    assert read_sweep(tmp_path).cells["status"].tolist() == ["failed", "running"]


def test_resume_drops_only_what_did_not_finish(tmp_path: Path) -> None:
    """reopen keeps the rows of ok, failed and skipped cells and drops those of running ones and of no cell at all."""
    store = SweepStore.create(tmp_path, META)
    for n, status in enumerate(("ok", "failed", "skipped", "running")):
        store.put_cell(cell(n, status))
    for n in range(5):
        store.append([request(n, 0)], [EngineSample(n, 0, "metrics", 0.1)], [ClientSample(n, 0, 0.1, 0.1, 1)])
    store.close()
    store = SweepStore.reopen(tmp_path)
    assert sorted(store.finished_cells()) == [0, 1, 2]
    store.append([request(3, 0)], [], [])
    store.close()
    tables = read_sweep(tmp_path)
    assert tables.cells["cell"].tolist() == [0, 1, 2]
    assert tables.requests["cell"].tolist() == [0, 1, 2, 3]
    assert tables.engine["cell"].tolist() == [0, 1, 2]
    assert tables.client["cell"].tolist() == [0, 1, 2]


def test_create_refuses_to_write_over_a_sweep(tmp_path: Path) -> None:
    """An existing database is never replaced."""
    SweepStore.create(tmp_path, META).close()
    with pytest.raises(StorageError, match="resume") as e:
        SweepStore.create(tmp_path, META)
    plain(e.value)


def test_create_mends_a_start_that_was_killed_half_way(tmp_path: Path) -> None:
    """Left-overs of an earlier, killed create do not stand in the way."""
    (tmp_path / "sweep.duckdb.new").write_bytes(b"torn")
    SweepStore.create(tmp_path, META).close()
    assert read_sweep(tmp_path).meta["name"] == "näme"


def test_a_value_that_does_not_fit_is_said_and_the_store_stays_usable(tmp_path: Path) -> None:
    """A negative gap raises StorageError, adds no row, and the next append works."""
    store = SweepStore.create(tmp_path, META)
    with pytest.raises(StorageError, match="does not fit") as e:
        store.append([request(0, 0, chunk_deltas_us=(-1,))], [], [])
    plain(e.value)
    store.append([request(0, 1)], [], [])
    store.close()
    assert read_sweep(tmp_path).requests["request"].tolist() == [1]


def test_a_folder_below_a_file_is_said_plainly(tmp_path: Path) -> None:
    """A data folder that cannot exist names the path and the mend."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="GOODPUT_DATA") as e:
        SweepStore.create(tmp_path / "file" / "sweep", META)
    assert str(tmp_path / "file") in plain(e.value)


def test_a_full_disk_is_said_and_keeps_what_was_there(tmp_path: Path) -> None:
    """With a limit on file size, append raises 'disk is full'; exactly the acknowledged rows are there."""
    script = f"""
import resource, signal
from pathlib import Path
import storage.sweep_store
from storage.errors import StorageError
from storage.records import RequestRecord, SweepMeta
from storage.sweep_store import SweepStore
folder = Path({str(tmp_path)!r})
store = SweepStore.create(folder, SweepMeta("i", "n", 1, "0", 0, False, "{{}}", "{{}}", "{{}}"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
batch = [RequestRecord(0, i, "c", 0, 1, 1, i, chunk_deltas_us=tuple(range(200))) for i in range(100)]
acknowledged = 0
try:
    for _ in range(1000):
        store.append(batch, [], [])
        acknowledged += 1
except StorageError as e:
    print(acknowledged)
    print(e)
store.close()
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    acknowledged, message = out.strip().split("\n")
    assert "the disk is full; free some space" in message
    assert str(tmp_path) in message
    assert 0 < int(acknowledged) < 1000
    assert len(read_sweep(tmp_path).requests) == 100 * int(acknowledged)


def test_a_running_sweep_names_its_holder(tmp_path: Path) -> None:
    """Reading while another process writes says which process has it open."""
    script = f"""
import sys
from pathlib import Path
from storage.records import SweepMeta
from storage.sweep_store import SweepStore
store = SweepStore.create(Path({str(tmp_path)!r}), SweepMeta("i", "n", 1, "0", 0, False, "{{}}", "{{}}", "{{}}"))
print("open", flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        with pytest.raises(StorageError, match=f"process {child.pid} has it open") as e:
            read_sweep(tmp_path)
        plain(e.value)
        child.kill()


def test_the_same_process_reading_while_writing_is_told(tmp_path: Path) -> None:
    """A reader in the writer's own process gets the same plain error."""
    store = SweepStore.create(tmp_path, META)
    with pytest.raises(StorageError, match="this process has it open"):
        read_sweep(tmp_path)
    store.close()
    assert len(read_sweep(tmp_path).requests) == 0


READER = """
import sys
import duckdb
db = duckdb.connect(sys.argv[1], read_only=True)
print("open", flush=True)
sys.stdin.readline()
"""


def test_a_resume_waits_for_a_page_that_is_just_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """reopen waits until a reader lets go; with no time to wait it names the reader."""
    SweepStore.create(tmp_path, META).close()
    child = subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path / "sweep.duckdb")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child, ThreadPoolExecutor(1) as writer:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        assert len(read_sweep(tmp_path).requests) == 0  # readers do not keep each other out
        with monkeypatch.context() as at_once:
            at_once.setattr(storage.sweep_store, "_LOCK_WAIT_S", 0.0)
            with pytest.raises(StorageError, match=f"process {child.pid} has it open"):
                SweepStore.reopen(tmp_path)
        monkeypatch.setattr(storage.sweep_store, "_LOCK_WAIT_S", 60.0)
        reopened = writer.submit(SweepStore.reopen, tmp_path)
        child.stdin.write("\n")
        child.stdin.flush()
        writer.submit(reopened.result(timeout=60).close).result(timeout=60)


def test_a_disk_that_is_full_at_the_start_leaves_no_half_made_database(tmp_path: Path) -> None:
    """Making the tables fails in plain words; no file is left that would pass for a sweep."""
    script = f"""
import resource, signal
from pathlib import Path
from storage.errors import StorageError
from storage.records import SweepMeta
from storage.sweep_store import SweepStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    SweepStore.create(Path({str(tmp_path)!r}), SweepMeta("i", "n", 1, "0", 0, False, "{{}}", "{{}}", "{{}}"))
except StorageError as e:
    print(e)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) in out
    assert not (tmp_path / "sweep.duckdb").exists()
