"""The still picture that stands in a figure's place until Plotly has started."""

import re
from typing import Any
from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest

from app.views import theme
from app.views.frontier import frontier_figure
from app.views.sketch import BESIDE, BOTTOM, TOP, sketch_svg
from tests.app.views.made_up import made_up_result

POINTS = [(100.0, 1.0), (200.0, 2.0), (300.0, 0.0)]
SVG = "{http://www.w3.org/2000/svg}"


def figure(**axes: Any) -> go.Figure:  # noqa: ANN401  (Plotly's own properties)
    """Three points on a line, in a plot of 248 pixels' height."""
    trace = {
        "x": [x for x, _ in POINTS], "y": [y for _, y in POINTS], "mode": "lines+markers",
        "line": {"color": "#111111", "shape": "vh"},
        "marker": {"color": ["#222222", "#333333", "#444444"], "size": 12,
                   "symbol": ["circle", "square-open", "circle"]},
    }  # fmt: skip
    named = {"xaxis": {"title": {"text": "raw <b>"}}, "yaxis": {"title": {"text": "goodput"}, "range": [-1.0, 3.0]}}
    return theme.drawn([trace], {**named, **axes}, "", dark=False, height=400)


def circles(fig: go.Figure) -> list[tuple[float, float]]:
    """Share of the width, and pixels from the top, of every point."""
    drawn = ElementTree.fromstring(sketch_svg(fig, dark=False) or "")
    return [(float(x.attrib["cx"].rstrip("%")), float(x.attrib["cy"])) for x in drawn.iter(f"{SVG}circle")]


def test_points_stand_where_their_values_are() -> None:
    """Across: from the least to the most with the same room at both ends. Up: on the axis that the figure gives."""
    room = 100 * BESIDE / (1 + 2 * BESIDE)
    tall = 400 - TOP - BOTTOM
    assert [x for x, _ in circles(figure())] == pytest.approx([room, 50, 100 - room], abs=0.01)
    assert [y for _, y in circles(figure())] == pytest.approx([tall * 2 / 4, tall * 1 / 4, tall * 3 / 4], abs=0.1)


def test_it_is_a_document_of_its_own_in_which_text_is_text() -> None:
    """Names come from files: none of them becomes part of the drawing."""
    drawn = ElementTree.fromstring(sketch_svg(figure(), dark=True) or "")
    assert [t.text for t in drawn.iter(f"{SVG}text")] == ["raw <b>", "goodput"]
    assert {e.tag.removeprefix(SVG) for e in drawn.iter()} == {"svg", "g", "text", "path", "line", "circle"}


def test_a_frontier_goes_down_before_it_goes_on() -> None:
    """Each step has two lines, as Plotly draws the shape `vh`."""
    drawn = ElementTree.fromstring(sketch_svg(figure(), dark=False) or "")
    steps = [x.attrib for x in drawn.iter(f"{SVG}line")][1:]  # the first is the axis
    assert [(s["x1"] == s["x2"], s["y1"] == s["y2"]) for s in steps] == [(True, False), (False, True)] * 2


@pytest.mark.parametrize(
    "axes",
    [
        {"xaxis": {"type": "log"}},
        {"yaxis": {"type": "log", "range": [0, 1]}},
        {"yaxis": {}},
        {"xaxis2": {"anchor": "y2"}},
    ],
)
def test_what_it_would_draw_wrong_it_does_not_draw(axes: dict[str, Any]) -> None:
    """Logarithms, an axis that fits itself in height, several plots."""
    assert sketch_svg(figure(**axes), dark=False) is None


def test_nothing_measured_is_no_picture() -> None:
    """Without a point there is nothing to show before Plotly has started."""
    assert sketch_svg(frontier_figure({}), dark=False) is None


def test_names_beside_marks_stand_where_plotly_will_write_them() -> None:
    """Or they would jump, and a long one at the right edge would be cut until then."""
    result = made_up_result()
    marks = [t for t in frontier_figure(result).data if t.meta["role"] in ("pick", "raw")]
    anchors = {"left": "end", "center": "middle", "right": "start"}
    found = re.findall('<text x="[^>]*text-anchor="([a-z]+)" dx', sketch_svg(frontier_figure(result), dark=False) or "")
    assert found == [anchors[t.textposition.split()[1]] for t in marks]
    assert "end" in found


def test_hollow_points_stay_hollow() -> None:
    """A point that can't be chosen is not filled."""
    fills = re.findall('<circle[^>]* fill="([^"]*)"', sketch_svg(figure(), dark=False) or "")
    assert fills == ["#222222", "none", "#444444"]


def test_the_plot_lies_inside_its_picture_at_every_width() -> None:
    """Its left edge and its width are shares of the picture, so that neither a phone nor a wide window cuts it."""
    drawn = ElementTree.fromstring(sketch_svg(figure(), dark=False) or "")
    (plot,) = drawn.findall(f"{SVG}svg")
    assert "style" not in plot.attrib
    left, across = (float(plot.attrib[name].removesuffix("%")) for name in ("x", "width"))
    assert all(plot.attrib[name].endswith("%") for name in ("x", "width"))
    assert 0 < left < left + across < 100
