"""Setting × setting grid of goodput. PURE. One grid of plain data; a figure or a table is drawn from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.words import ENGLISH, Words


@dataclass(frozen=True)
class Square:
    """One square. `state`: ok, invalid (ran, but can't be chosen), failed, empty (not planned, or not measured yet)."""

    state: str
    text: str
    hover: str
    value: float | None = None
    cell: int | None = None
    position: float | None = None  # 0–1 on the colour scale
    members: tuple[int, ...] = ()  # every measured cell that fits the square


@dataclass(frozen=True)
class Grid:
    """Rows top to bottom, columns left to right. `others`: setting keys over which the best was taken."""

    row_key: str
    column_key: str
    rows: list[str]
    columns: list[str]
    squares: list[list[Square]]
    others: list[str] = field(default_factory=list)


def heat_keys(result: c.Result) -> tuple[str, str]:
    """The two axes worth showing: the first two settings that vary, or one setting and the load."""
    keys = [k for k in c.varying_keys(c.settings_of(result).values())]
    axis = next((c.load_of(x)[0] for x in c.cells_of(result)), "load")
    return (keys[0], keys[1]) if len(keys) > 1 else (keys[0] if keys else "setting", axis)


def heat_grid(
    result: c.Result,
    row_key: str | None = None,
    column_key: str | None = None,
    *,
    load: float | None = None,
    words: Words = ENGLISH,
) -> Grid:
    """Goodput over two settings, at the best load (default) or at one load.

    A square shows the best valid cell that fits it; if none is valid the best invalid one, marked; if all failed the
    reason, never a zero.
    """
    first, second = heat_keys(result)
    row_key, column_key = row_key or first, column_key or second
    cells = [x for x in c.cells_of(result) if load is None or c.load_of(x)[1] == load]
    rows, columns = _values(cells, row_key), _values(cells, column_key)
    best = max((x["goodput_per_s"] for x in cells if x.get("goodput_per_s") is not None), default=0.0)
    squares = [
        [_square([x for x in cells if (_at(x, row_key), _at(x, column_key)) == (r, k)], best, words) for k in columns]
        for r in rows
    ]
    others = [k for k in c.varying_keys(c.settings_of(result).values()) if k not in (row_key, column_key)]
    return Grid(row_key, column_key, [_shown(r) for r in rows], [_shown(k) for k in columns], squares, others)


def _at(cell: c.Cell, key: str) -> object:
    axis, value = c.load_of(cell)
    return value if key == axis else (cell.get("setting") or {}).get(key)


def _values(cells: Sequence[c.Cell], key: str) -> list[object]:
    found = list(dict.fromkeys(_at(x, key) for x in cells))
    numbers = [v for v in found if isinstance(v, int | float)]
    return list(sorted(numbers)) if len(numbers) == len(found) else found


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "–" if value is None else str(value)


def _square(cells: Sequence[c.Cell], best: float, words: Words) -> Square:
    ran = [x for x in cells if x.get("status") == "ok" and x.get("goodput_per_s") is not None]
    if all(c.waits(x) for x in cells):
        return Square("empty", "", words.text("not measured"))
    if not ran:
        ended = next(x for x in cells if not c.waits(x))
        return Square("failed", c.failure(ended, words), c.failure(ended, words), cell=ended["cell"])
    valid = [x for x in ran if c.why_invalid(x) is None]
    top = max(valid or ran, key=lambda x: x["goodput_per_s"])
    reason = c.why_invalid(top, words)
    value = float(top["goodput_per_s"])
    hover = [c.load_name(top, words), words.text("goodput {goodput}", goodput=words.per_s(value, "req"))]
    hover.append(words.text("{share} inside targets", share=words.share(top.get("share"))))
    if reason:
        hover.append(words.text("can't be chosen: {reason}", reason=reason))
    return Square(
        state="invalid" if reason else "ok",
        text=words.significant(value) + (" *" if reason else ""),
        hover=" · ".join(h for h in hover if h),
        value=value,
        cell=top["cell"],
        position=value / best if best else 0.0,
        members=tuple(x["cell"] for x in ran),
    )


def heat_figure(grid: Grid, words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """The grid as a heat map with its numbers written in; failed squares carry their reason instead of a colour."""
    fig = theme.figure(
        theme.plain(grid.column_key), theme.plain(grid.row_key), dark=dark, height=120 + 56 * len(grid.rows)
    )
    fig.add_heatmap(
        z=[[s.value for s in row] for row in grid.squares],
        x=[theme.plain(x) for x in grid.columns],
        y=[theme.plain(y) for y in grid.rows],
        zmin=0,
        zmax=max((s.value for row in grid.squares for s in row if s.value is not None), default=1.0) or 1.0,
        colorscale=[[i / 8, colour] for i, colour in enumerate(theme.CIVIDIS)],
        customdata=[[[s.cell, theme.plain(s.hover)] for s in row] for row in grid.squares],
        hovertemplate="%{customdata[1]}<extra></extra>",
        hoverongaps=True,
        xgap=3,
        ygap=3,
        colorbar={
            "title": {"text": words.text("goodput (req/s)"), "side": "right", "font": {"size": 13}},
            "thickness": 12,
        },
    )
    for y, row in enumerate(grid.squares):
        for x, square in enumerate(row):
            on = theme.ink_on(theme.cividis(square.position)) if square.position is not None else theme.ink(dark)
            fig.add_annotation(x=x, y=y, text=theme.plain(square.text), showarrow=False, font={"color": on})
    fig.update_xaxes(type="category", showgrid=False)
    fig.update_yaxes(type="category", showgrid=False, autorange="reversed")
    return fig
