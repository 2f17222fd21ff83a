"""Pages, exports and other tools' files, through the data folder and the command line."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.cli import main
from app.data import load_prepared, report_html, result_of
from app.export.redact import redact
from app.imports import (
    add_files,
    delete_import,
    import_result,
    list_imports,
    load_import,
    prepared_import,
)
from app.views.badges import badge_line, badges, rescoring_note
from app.views.table import table_csv
from runner.config import Slo
from runner.errors import ConfigError
from runner.imports.model import ImportFailed
from tests.app.views.made_up import HOSTILE

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample_data" / "llama_cpp_sweep"
TOOLS = ROOT / "tests" / "fixtures" / "imports"
SHARES = ("goodput_per_s", "share", "share_low", "share_high", "met", "judged", "on_frontier", "flags")


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    """The real sweep that comes with the program, as a page tells it."""
    return json.loads(json.dumps(redact(result_of(load_prepared(SAMPLE), SAMPLE))))


@pytest.fixture(scope="module")
def page() -> bytes:
    return report_html(SAMPLE).encode()


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample as JSON, by the command."""
    folder = tmp_path_factory.mktemp("export")
    assert main(["export", str(SAMPLE), "--format", "json", "-o", str(folder)]) == 0
    return folder / "llama_cpp_sweep.json"


def one(data: Path, *files: tuple[str, bytes]) -> dict[str, Any]:
    """The document of the one import that these files make."""
    (import_id,) = add_files(data, files)
    return load_import(data / "imports" / import_id)


def without_mark(result: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in result.items() if k != "imported"}


def test_a_page_comes_back_as_it_went_out(tmp_path: Path, page: bytes, sample: dict[str, Any]) -> None:
    """The result object is equal, every number of it; at the page's own targets it scores to the same shares."""
    document = one(tmp_path, ("sweep.html", page))
    assert without_mark(import_result(document)) == sample
    again = import_result(document, targets={n: Slo(**t) for n, t in sample["targets"].items()})
    told = [[c[k] for k in SHARES] for c in sample["cells"]]
    assert [[c[k] for k in SHARES] for c in again["cells"]] == [[pytest.approx(v) for v in row] for row in told]
    assert again["choice"]["cells"] == sample["choice"]["cells"]
    assert (document["rescoring"], prepared_import(document)) == ("steps", None)


def test_an_export_comes_back_with_its_requests(tmp_path: Path, export: Path, sample: dict[str, Any]) -> None:
    """The result is equal, and other targets give what the sweep itself gives for them."""
    document = one(tmp_path, (export.name, export.read_bytes()))
    assert without_mark(import_result(document)) == sample
    assert document["rescoring"] == "full"
    targets = {"chat": Slo(ttft_ms=700, gap_ms=60, rule="mean_tpot")}
    mine = import_result(document, targets=targets, prepared=prepared_import(document))
    theirs = result_of(load_prepared(SAMPLE), SAMPLE, targets=targets)
    assert [[c[k] for k in SHARES] for c in mine["cells"]] == [[c[k] for k in SHARES] for c in theirs["cells"]]
    assert mine["choice"]["cells"] == theirs["choice"]["cells"]


def test_the_same_files_are_the_same_import(tmp_path: Path, page: bytes) -> None:
    """Twice the same page is one import; several at once are several; deleting takes one away."""
    first = add_files(tmp_path, [("a.html", page)])
    assert add_files(tmp_path, [("b.html", page)]) == first
    vllm = ("v.json", (TOOLS / "vllm_detailed.json").read_bytes())
    both = add_files(tmp_path, [("a.html", page), vllm])
    assert both[0] == first[0]
    assert {s.import_id for s in list_imports(tmp_path)} == set(both)
    delete_import(tmp_path, both[1])
    assert [s.import_id for s in list_imports(tmp_path)] == first
    with pytest.raises(ConfigError, match="no import"):
        delete_import(tmp_path, "imp-../../sweeps")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.html", b"<html>nothing</html>", "not a page of Goodput Lab"),
        ("a.json", b'{"format":"goodput-export","version":7}', "later version"),
        ("a.json", b'{"format":"goodput-export","version":1,"result":{}}', "damaged"),
        ("a.json", b'{"format":"goodput-export","version":1,"result":{"cells":[{"cell":0}]}}', "damaged"),
        ("../../etc/passwd\n\x1b[31m", b"{}", "is not a result that is known"),
        ("a.json", b"[" * 5000, "nested deeper"),
    ],
)
def test_what_can_not_be_taken_in_is_told(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    """One sentence, nothing kept, no control characters in it."""
    with pytest.raises(ImportFailed, match=said) as told:
        add_files(tmp_path, [(name, content)])
    assert str(told.value).isprintable()
    assert list_imports(tmp_path) == []


def _spoilt(sample: dict[str, Any], **changes: object) -> bytes:
    cells = [{**sample["cells"][0], **changes}, *sample["cells"][1:]]
    return json.dumps({"format": "goodput-export", "version": 1, "result": {**sample, "cells": cells}}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"share": "0.9"},
        {"ttft_ms": {"p50": "<b>"}},
        {"ttft_ms": [1]},
        {"classes": {"chat": 3}},
        {"setting": {"a": {"b": 1}}},
        {"flags": [1]},
        {"cell": "0"},
        {"cell": 1},
        {"repeat": 0.5},
        {"warnings": ["x"]},
        {"engine": {"running_max": [1]}},
    ],
)
def test_a_result_of_another_shape_is_refused(
    tmp_path: Path, sample: dict[str, Any], changes: dict[str, object]
) -> None:
    """What pages rely on is checked when it comes in, not when somebody looks."""
    with pytest.raises(ImportFailed, match="damaged"):
        add_files(tmp_path, [("a.json", _spoilt(sample, **changes))])


def test_hostile_names_are_text(tmp_path: Path, sample: dict[str, Any]) -> None:
    """Markup and formulas in names stay as they are, and are only ever text."""
    spoilt = json.loads(_spoilt(sample, setting={"=cmd()": HOSTILE}))
    spoilt["result"]["name"] = HOSTILE
    document = one(tmp_path, ("a.json", json.dumps(spoilt).encode()))
    assert document["result"]["name"] == HOSTILE
    assert list_imports(tmp_path)[0].name == HOSTILE
    table = list(csv.reader(table_csv(document["result"]).splitlines()))
    assert not [cell for row in table for cell in row if cell[:1] in ("=", "+", "@")]


def test_badges_tell_how_definitions_differ(tmp_path: Path) -> None:
    """Each tool's own, in words; a sweep of our own has none."""
    document = one(tmp_path, ("v.json", (TOOLS / "vllm_detailed.json").read_bytes()))
    result = import_result(document)
    assert {b.id for b in badges(result)} >= {"ttft_from_send", "tpot_mean_of_request", "role_chunk", "whole_run"}
    assert badge_line(result).startswith("vLLM · TTFT from send · ")
    assert rescoring_note(result) is None
    summary = import_result(one(tmp_path, ("v.json", (TOOLS / "vllm_summary.json").read_bytes())))
    assert "stated" in {b.id for b in badges(summary)}
    assert rescoring_note(summary) == "Summaries only: its goodput can't be worked out again."
    guide = import_result(one(tmp_path, ("g.json", (TOOLS / "guidellm.json").read_bytes())))
    assert {b.id for b in badges(guide)} >= {"ttft_from_due", "tpot_with_first", "no_gaps", "mean_only"}
    assert badge_line(guide).startswith("guidellm 0.8.1 · ")
    assert (badges({}), badge_line({}), rescoring_note({})) == ([], "", None)
    known = [b for f in ("aiperf", "llmperf", "genai_bench") for b in _ids(tmp_path, f)]
    assert {"itl_is_tpot", "itl_with_first", "no_gaps"} <= set(known)


def _ids(data: Path, folder: str) -> list[str]:
    files = [(f"{folder}/{p.name}", p.read_bytes()) for p in sorted((TOOLS / folder).iterdir())]
    return [b.id for b in badges(import_result(one(data, *files)))]


def test_the_commands(tmp_path: Path, page: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """import prints ids and badges, list and show know them, delete takes them away; a folder is one import."""
    data, file = tmp_path / "data", tmp_path / "page.html"
    file.write_bytes(page)
    assert main(["import", str(file), str(TOOLS / "vllm_sweep"), "--data", str(data), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(r["tool"], r["cells"], r["rescoring"]) for r in rows] == [("goodput", 6, "steps"), ("vllm", 5, "none")]
    assert main(["import", str(TOOLS / "aiperf"), "--data", str(data)]) == 0
    assert "aiperf 0.13.0 · TTFT from send" in capsys.readouterr().err
    assert main(["list", "--data", str(data), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {(r["tool"], r["status"]) for r in listed} == {(t, "imported") for t in ("goodput", "vllm", "aiperf")}
    vllm = rows[1]["import_id"]
    assert main(["show", vllm[:9], "--data", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["imported"]["import_id"] == vllm
    assert main(["show", vllm, "--data", str(data)]) == 0
    assert "Summaries only" in capsys.readouterr().out
    assert main(["delete", vllm, "--data", str(data)]) == 0
    assert vllm not in {s.import_id for s in list_imports(data)}
    assert main(["show", vllm, "--data", str(data)]) == 2
    assert main(["import", str(tmp_path / "missing.json"), "--data", str(data)]) == 2
    assert main(["import", str(SAMPLE / "sweep.json"), "--data", str(data)]) == 1
    assert "is not a result that is known here" in capsys.readouterr().err


def test_tables_are_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CSV and Parquet hold the same cells, requests and engine samples; numbers are numbers, a list stays one."""
    for kind in ("csv", "parquet"):
        assert main(["export", str(SAMPLE), "--format", kind, "-o", str(tmp_path / kind)]) == 0
    prepared = load_prepared(SAMPLE)
    sizes = {"cells": 6, "requests": len(prepared.requests), "engine_samples": len(prepared.tables.engine)}
    for name, size in sizes.items():
        table = pq.read_table(tmp_path / "parquet" / f"{name}.parquet")
        with (tmp_path / "csv" / f"{name}.csv").open(encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(f))
        assert (table.num_rows, len(rows)) == (size, size)
        assert table.column_names == list(rows[0])
    requests = pq.read_table(tmp_path / "parquet" / "requests.parquet").to_pylist()
    raw = prepared.requests.iloc[0]
    assert requests[0]["chunk_deltas_us"] == raw["chunk_deltas_us"].tolist()
    assert requests[0]["ttft_ms"] == raw["ttft_ms"]
    with (tmp_path / "csv" / "requests.csv").open(encoding="utf-8", newline="") as f:
        first = next(csv.DictReader(f))
    assert first["chunk_deltas_us"].split(" ") == [str(d) for d in raw["chunk_deltas_us"]]
    assert (float(first["ttft_ms"]), first["completed"]) == (raw["ttft_ms"], "true")
    assert main(["export", str(SAMPLE), "--format", "csv", "-o", str(tmp_path / "cells.csv")]) == 0
    assert (tmp_path / "cells.csv").read_bytes() == (tmp_path / "csv" / "cells.csv").read_bytes()
    for where, said in ((tmp_path / "no" / "x.csv", "does not exist"), (tmp_path / "cells.csv" / "x", "not exist")):
        assert main(["export", str(SAMPLE), "--format", "csv", "-o", str(where)]) == 2
        assert said in capsys.readouterr().err
    assert main(["export", str(SAMPLE), "--format", "parquet", "-o", str(tmp_path / "cells.csv")]) == 2


def test_an_import_is_exported_too(tmp_path: Path) -> None:
    """Another tool's run leaves as JSON of ours and comes back the same."""
    document = one(tmp_path, ("v.json", (TOOLS / "vllm_detailed.json").read_bytes()))
    where = tmp_path / "out.json"
    command = ["export", document["import_id"], "--format", "json", "-o", str(where), "--data", str(tmp_path)]
    assert main(command) == 0
    back = one(tmp_path, ("out.json", where.read_bytes()))
    assert back["result"] == redact(without_mark(import_result(document)))
    assert (back["tool"], back["badges"]) == ("vllm", document["badges"])
    wanted = {"requests": Slo(ttft_ms=1000, gap_ms=150)}
    shares = [c["share"] for c in import_result(back, targets=wanted)["cells"]]
    assert shares == [c["share"] for c in import_result(document, targets=wanted)["cells"]] == [0.5]


def test_spread_gaps_are_never_exported(tmp_path: Path) -> None:
    """A tool that keeps no single gaps: its cells leave, and no requests whose gaps nobody measured."""
    document = one(tmp_path, ("g.json", (TOOLS / "guidellm.json").read_bytes()))
    assert document["rescoring"] == "mean_only"
    for kind in ("csv", "json"):
        command = ["export", document["import_id"], "--format", kind, "--data", str(tmp_path)]
        assert main([*command, "-o", str(tmp_path / f"out.{kind}.d" if kind == "csv" else tmp_path / "out.json")]) == 0
    assert [p.name for p in (tmp_path / "out.csv.d").iterdir()] == ["cells.csv"]
    back = one(tmp_path, ("out.json", (tmp_path / "out.json").read_bytes()))
    assert ("tables" in back, back["rescoring"], back["tool"]) == (False, "mean_only", "guidellm")
    assert "no_gaps" in {b.id for b in badges(import_result(back))}


def test_an_import_becomes_a_page(tmp_path: Path) -> None:
    """With its tool and badges told, and sliders where the requests are known; its page comes back as that tool's."""
    document = one(tmp_path, ("v.json", (TOOLS / "vllm_detailed.json").read_bytes()))
    where = tmp_path / "page.html"
    command = ["report", document["import_id"], "-o", str(where), "--data", str(tmp_path)]
    assert main(command) == 0
    html = where.read_text(encoding="utf-8")
    assert "Measured by vLLM" in html
    assert "role chunk counted" in html
    back = one(tmp_path, ("page.html", where.read_bytes()))
    assert (back["tool"], back["badges"], back["rescoring"]) == ("vllm", document["badges"], "steps")
    assert back["result"] == redact(document["result"])
    wider = {"requests": Slo(ttft_ms=2000, gap_ms=800)}
    assert import_result(back, targets=wider)["cells"][0]["met"] == 5
    summary = one(tmp_path, ("v.json", (TOOLS / "vllm_summary.json").read_bytes()))
    assert main(["report", summary["import_id"], "-o", str(where), "--data", str(tmp_path)]) == 0
    assert "Summaries only" in where.read_text(encoding="utf-8")


def test_the_command_line_stays_light() -> None:
    """Asking for help loads neither pandas nor plotly, imports and exports included."""
    code = "import sys, app.cli; app.cli.parser(); print([m for m in ('pandas', 'plotly') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_a_device_is_refused_before_it_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no size and no end."""
    assert main(["import", "/dev/zero", "--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "goodput: /dev/zero is no file\n"
