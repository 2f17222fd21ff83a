"""A small picture of a sweep's frontier as SVG, from the lines of its cells. PURE: numbers only, no names.

Drawn without Plotly, so that a list can show it at once.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from app.words import Words
from runner.analysis.frontier import frontier

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 300, 150, 14, 16, 14, 20
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8a8f98"  # Okabe and Ito; readable on light and dark


def frontier_svg(cells: Sequence[Mapping[str, Any]], w: Words, *, dark: bool) -> str | None:
    """Goodput over raw output: dots for cells, a step line for the frontier, a cross for the most raw output.

    Null with fewer than two measured cells. An SVG document, for an image: it inherits nothing from the page.
    """
    rows = [
        cell for cell in cells if cell.get("status") == "ok" and "flags" in cell and all(map(_finite, _numbers(cell)))
    ]
    if len(rows) < 2:
        return None
    on = [row for row in rows if row["cell"] in frontier(rows)]
    raw = max(rows, key=lambda row: float(row["output_tok_per_s"]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        _axes("#e6e8eb" if dark else "#1f2328", w),
        _steps([_place(row, rows) for row in on]),
        *(_dot(*_place(row, rows), BLUE if row in on else GREY) for row in rows if row is not raw),
        _cross(*_place(raw, rows)),
        "</svg>",
    ]
    return "".join(parts)


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _numbers(cell: Mapping[str, Any]) -> tuple[object, ...]:
    return cell.get("cell"), cell.get("output_tok_per_s"), cell.get("goodput_per_s")


def _place(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Pixels; both axes begin at 0 and leave a tenth free."""
    most_x, most_y = (1.1 * max(float(r[key]) for r in rows) or 1.0 for key in ("output_tok_per_s", "goodput_per_s"))
    x = LEFT + (WIDTH - LEFT - RIGHT) * float(row["output_tok_per_s"]) / most_x
    y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * float(row["goodput_per_s"]) / most_y
    return x, y


def alt_text(w: Words) -> str:
    """The picture in words."""
    return w.text("Goodput over raw output: the cross is the most raw output, the line the frontier.")


def _axes(ink: str, w: Words) -> str:
    style = f'fill="{ink}" opacity="0.65" font-size="12" font-family="system-ui, sans-serif"'
    return (
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="{ink}" opacity="0.35"/>'
        f'<text x="{LEFT + 6}" y="{TOP - 4}" {style}>{escape(w.text("goodput"))}</text>'
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end" {style}>{escape(w.text("raw output"))}</text>'
    )


def _steps(places: Sequence[tuple[float, float]]) -> str:
    """From the left end at the best goodput, down a step at each point of the frontier."""
    ordered = sorted(places)
    if not ordered:
        return ""
    path = [f"M{LEFT:.1f} {ordered[0][1]:.1f}H{ordered[0][0]:.1f}"]
    path += [f"V{y:.1f}H{x:.1f}" for x, y in ordered[1:]]
    return f'<path d="{"".join(path)}" fill="none" stroke="{BLUE}" stroke-width="2"/>'


def _dot(x: float, y: float, color: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{color}"/>'


def _cross(x: float, y: float) -> str:
    return (
        f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10" stroke="{ORANGE}" stroke-width="3" fill="none" '
        'stroke-linecap="round"/>'
    )
