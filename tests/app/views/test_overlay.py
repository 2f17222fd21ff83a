"""Several results in one picture, and a row each."""

from copy import deepcopy
from typing import Any

from app.views import overlay
from tests.app.views.made_up import HOSTILE, made_up_result


def summaries_only() -> dict[str, Any]:
    """As an import that tells percentiles but nothing of single requests."""
    result = deepcopy(made_up_result())
    for cell in result["cells"]:
        cell.update(dict.fromkeys(("goodput_per_s", "share", "share_low", "share_high")), on_frontier=False)
    return {**result, "choice": {"setting": None, "reason": "summaries only"}}


def test_each_result_has_its_own_look_and_its_own_frontier() -> None:
    """Colour, marker and dash differ; a point says which result it is of and which cell it is."""
    result = made_up_result()
    fig = overlay.overlay_figure([result, result], ["one", "two"])
    lines = [t for t in fig.data if t.meta["role"] == "frontier"]
    points = [t for t in fig.data if t.meta["role"] == "points"]
    assert [line.line.dash for line in lines] == ["solid", "dash"]
    assert len({line.line.color for line in lines}) == 2
    assert [t.name for t in points] == ["one", "two"]
    assert {d[-1] for d in points[1].customdata} == {1}
    assert {d[0] for d in points[0].customdata} == {x["cell"] for x in result["cells"] if x["status"] == "ok"}


def test_names_are_text() -> None:
    """A name that is markup is shown as it is."""
    fig = overlay.overlay_figure([made_up_result()], [HOSTILE])
    points = next(t for t in fig.data if t.meta["role"] == "points")
    assert "<img" not in points.name
    assert "<img" not in points.customdata[0][4]


def test_summaries_have_percentiles_and_no_goodput() -> None:
    """They are left out of the goodput picture, drawn in that of the first token, and have no pick."""
    results = [made_up_result(), summaries_only()]
    assert overlay.drawn(results, "goodput") == [True, False]
    assert overlay.drawn(results, "ttft") == [True, True]
    fig = overlay.overlay_figure(results, ["own", "theirs"], measure="ttft")
    assert [t.name for t in fig.data] == ["own", "theirs"]
    own, theirs = overlay.pick_rows(results, ["own", "theirs"])
    assert set(own) == set(overlay.pick_titles())
    assert (theirs["setting"], theirs["goodput"], theirs["share"]) == ("no pick", "–", "–")
    assert theirs["ttft"] != "–"


def test_a_result_without_a_measured_cell_has_an_empty_row() -> None:
    """Nothing measured: a row of dashes, and an empty picture."""
    empty = {"cells": [], "choice": {}}
    assert overlay.pick_rows([empty], ["none"])[0]["raw"] == "–"
    assert len(overlay.overlay_figure([empty], ["none"]).data) == 0


def test_equal_names_are_numbered() -> None:
    """Two sweeps of one name can be told apart in a legend."""
    assert overlay.alike(["a", "b", "a"]) == ["a (1)", "b", "a (2)"]


def test_summaries_are_drawn_by_the_percentile_that_they_state() -> None:
    """vLLM states the 99th and not the 95th: the axis says which, and the points are there."""
    result = summaries_only()
    for cell in result["cells"]:
        if cell.get("ttft_ms"):
            cell["ttft_ms"] |= {"p95": None, "p90": None, "p99": 700.0}
    assert overlay.stated_percentile(result) == "p99"
    fig = overlay.overlay_figure([result], ["vLLM"], measure="ttft", percentile="p99")
    (points,) = [t for t in fig.data if t.meta["role"] == "points"]
    assert set(points.y) == {700.0}
    assert fig.layout.yaxis.title.text == "first token (ms) · p99"
    assert overlay.stated_percentile({"cells": []}) == "p95"
    assert overlay.drawn([made_up_result(), result], "ttft") == [True, False]
    assert overlay.drawn([made_up_result(), result], "ttft", "p50") == [True, True]
