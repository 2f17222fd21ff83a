"""The compare page without a browser: what is chosen, what it says, and files that were taken in."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app import ui
from app.data import report_html
from app.imports import add_files
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import Open, data_dir, fine, opened, said, shown, started
from tests.support.two_sweeps import quick, slow, sweep_tables

__all__ = ["data_dir", "opened", "started"]  # fixtures


@pytest.fixture
def two(data_dir: Path) -> Path:
    """Two sweeps of the same load, the second one much slower."""
    for name, answer in (("before", quick), ("after", slow)):
        finished_sweep(data_dir, sweep_tables([answer], name=name), name)
    return data_dir


def sweeps(at: AppTest) -> str:
    """The sweeps of the page's address."""
    value = at.query_params["sweeps"]
    return str(value[0] if isinstance(value, list) else value)


def test_nothing_to_compare_says_what_the_page_is_for(opened: Open, data_dir: Path) -> None:
    """A first visit without any sweep is told what can be done."""
    at = opened(ui.COMPARE)
    assert "Nothing is chosen yet." in shown(at)


def test_a_worse_sweep_is_called_worse(opened: Open, two: Path) -> None:
    """The address names both sides in order; the verdict, the numbers and what differs are there."""
    at = opened(ui.COMPARE, sweeps="before,after")
    assert at.multiselect(key="chosen").value == ["before", "after"]
    assert sweeps(at) == "before,after"
    assert "worse" in at.warning[0].value
    verdicts = [frame.value for frame in at.dataframe if "verdict" in frame.value.columns]
    assert "worse" in list(verdicts[0]["verdict"])
    at.multiselect(key="chosen").set_value(["after", "before"])
    fine(at.run())
    assert not at.warning
    assert "better" in at.info[0].value
    assert sweeps(at) == "after,before"


def test_a_sweep_beside_itself_is_noise(opened: Open, two: Path) -> None:
    """The same thing twice: no difference."""
    finished_sweep(two, sweep_tables([quick], name="again"), "again")
    at = opened(ui.COMPARE, sweeps="before,again")
    assert "noise" in at.info[0].value


def test_one_sweep_alone_is_drawn_without_a_verdict(opened: Open, two: Path) -> None:
    """Nothing to compare with yet: its picture and its row."""
    at = opened(ui.COMPARE, sweeps="before")
    assert len(at.dataframe) == 1
    assert "Better, worse" not in shown(at)


def test_targets_of_the_first_judge_all(opened: Open, two: Path) -> None:
    """A slider moves every side."""
    at = opened(ui.COMPARE, sweeps="before,after")
    before = list(at.dataframe[0].value["share"])
    at.select_slider(key="ttft-chat-compare-before").set_value(50.0)
    fine(at.run())
    assert list(at.dataframe[0].value["share"]) != before


def test_a_shared_page_stands_beside_a_sweep(opened: Open, two: Path) -> None:
    """Somebody's page that was taken in is a side like any other, its origin is told, and it can be deleted."""
    html = report_html(two / "sweeps" / "after")
    (import_id,) = add_files(two, [("theirs.html", html.encode())])
    at = opened(ui.COMPARE, sweeps=f"before,{import_id}")
    assert len(at.dataframe[0].value) == 2
    assert "Goodput Lab" in shown(at)
    assert "nothing to pair" in shown(at)
    at.button(key=f"forget-{import_id}").click()
    fine(at.run())
    assert at.multiselect(key="chosen").value == ["before"]
    assert "Not here any more" in shown(at)


def test_the_percentile_of_times_is_the_readers_choice(opened: Open, two: Path) -> None:
    """Other tools state what they like: of one that states a median and the 99th both can be drawn beside a sweep."""
    told = {"backend": "vllm", "num_prompts": 50, "completed": 50, "duration": 10.0, "max_concurrency": 4,
            "output_throughput": 60.0, "median_ttft_ms": 80.0, "p99_ttft_ms": 900.0, "mean_ttft_ms": 100.0}  # fmt: skip
    (import_id,) = add_files(two, [("theirs.json", json.dumps(told).encode())])
    at = opened(ui.COMPARE, sweeps=f"before,{import_id}")
    assert not [x for x in at.segmented_control if x.key == "compare-percentile"]
    at.segmented_control(key="measure").set_value("ttft")
    fine(at.run())
    assert at.segmented_control(key="compare-percentile").value == "p95"
    assert "Nothing to draw of vLLM" in shown(at)
    assert "\\u00b7 p95" in at.get("plotly_chart")[0].proto.spec
    at.segmented_control(key="compare-percentile").set_value("p50")
    fine(at.run())
    assert "Nothing to draw" not in shown(at)
    assert "\\u00b7 p50" in at.get("plotly_chart")[0].proto.spec
    at.multiselect(key="chosen").set_value([import_id])
    fine(at.run())
    assert at.segmented_control(key="compare-percentile").value == "p50"


def test_a_file_without_a_95th_percentile_is_drawn_by_what_it_states(opened: Open, two: Path) -> None:
    """Nothing would be drawn otherwise."""
    told = {"backend": "vllm", "num_prompts": 50, "completed": 50, "duration": 10.0, "max_concurrency": 4,
            "output_throughput": 60.0, "p99_ttft_ms": 900.0, "mean_ttft_ms": 100.0}  # fmt: skip
    (import_id,) = add_files(two, [("theirs.json", json.dumps(told).encode())])
    at = opened(ui.COMPARE, sweeps=import_id)
    at.segmented_control(key="measure").set_value("ttft")
    fine(at.run())
    assert at.segmented_control(key="compare-percentile").value == "p99"


def test_a_damaged_side_is_told_and_the_other_stays(opened: Open, two: Path) -> None:
    """One sentence for the one that can't be read; the rest is shown."""
    (two / "sweeps" / "after" / "sweep.duckdb").write_bytes(b"not a database")
    at = opened(ui.COMPARE, sweeps="before,after")
    assert len(at.error) == 1
    assert len(at.dataframe[0].value) == 1


def test_wrong_names_in_the_address_are_told(opened: Open, two: Path) -> None:
    """What is not there is named; it is text and never markup."""
    at = opened(ui.COMPARE, sweeps="before,<b>x</b>")
    assert "Not here any more: <b>x</b>" in shown(at)
    assert "<b>" not in said(at)
