"""The small picture of a frontier: numbers only, well-formed, and absent where there is nothing to show."""

import math
from typing import Any
from xml.etree import ElementTree

from app.thumbnail import BLUE, GREY, ORANGE, frontier_svg
from app.words import ENGLISH

SVG = "{http://www.w3.org/2000/svg}"


def cell(number: int, raw: float, goodput: float | None, **changes: object) -> dict[str, Any]:
    return {"cell": number, "status": "ok", "flags": [], "output_tok_per_s": raw, "goodput_per_s": goodput, **changes}


def drawn(*cells: dict[str, Any]) -> ElementTree.Element:
    svg = frontier_svg(cells, ENGLISH, dark=False)
    assert svg is not None
    return ElementTree.fromstring(svg)


def test_frontier_beaten_points_and_the_most_raw_output_are_told_apart() -> None:
    """By colour and by shape: dots on the line, grey dots below it, one cross."""
    root = drawn(cell(0, 10, 1.0), cell(1, 20, 0.9), cell(2, 8, 0.2), cell(3, 40, 0.1))
    dots = [c.get("fill") for c in root.iter(f"{SVG}circle")]
    assert dots == [BLUE, BLUE, GREY]
    strokes = [p.get("stroke") for p in root.iter(f"{SVG}path")]
    assert (strokes.count(BLUE), strokes.count(ORANGE)) == (1, 1)


def test_points_stay_inside_the_picture() -> None:
    """The largest values leave room; zero lies on the axis."""
    root = drawn(cell(0, 0, 0.0), cell(1, 1e9, 1e-9), cell(2, 3, 1e-9))
    width, height = (float(root.get(key) or 0) for key in ("width", "height"))
    for dot in root.iter(f"{SVG}circle"):
        assert 0 <= float(dot.get("cx") or -1) <= width
        assert 0 <= float(dot.get("cy") or -1) <= height


def test_nothing_is_drawn_of_cells_that_say_nothing() -> None:
    """Failed, torn, without numbers, not finite; and of a single point no frontier can be seen."""
    strange = [{}, cell(0, 1, None), cell(1, math.nan, 1), cell(2, 1, 1, status="failed"), {"status": "ok", "cell": 3}]
    assert frontier_svg([*strange, cell(4, 1, 1)], ENGLISH, dark=True) is None
    assert frontier_svg([cell(0, 0, 0.0), cell(1, 0, 0.0)], ENGLISH, dark=True) is not None
