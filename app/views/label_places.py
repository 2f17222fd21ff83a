"""Where the names beside marked points stand, so that they cover as little as they can. PURE.

Plotly knows nine places around a point and looks at nothing that lies there. A figure is as wide as its reader's
window: a place is judged in a wide window and on a phone. The shared page's script has the same rules, for targets that
move.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

PLACES = ("top center", "top left", "top right", "bottom left", "bottom right", "bottom center", "middle left",
          "middle right")  # fmt: skip
PLOTS = ((700, 300), (280, 200))  # pixels of the plot in a wide window and on a phone
LEFT, RIGHT, ABOVE = 14, 12, 20  # pixels around the plot that belong to the figure still and bear no numbers
UP, DOWN = 11, 3  # pixels of a line of writing above and below its foot
LETTER, WIDE_LETTER, FIRST_WIDE = 7, 13, 0x2E80  # pixels; from this character on they are as wide as high
CUT, MISTAKEN, OVER_LABEL, OVER_POINT, OVER_LINE, LATER = 1000.0, 300.0, 100.0, 10.0, 1.0, 0.01
Place = tuple[float, float]  # shares of the plot's width and height, from its lower left corner
Box = tuple[float, float, float, float]  # pixels: left, top, right, bottom


@dataclass(frozen=True)
class Label:
    """One line of writing beside a mark of `size` pixels."""

    x: float
    y: float
    text: str
    size: int


def label_places(
    labels: Sequence[Label], points: Sequence[tuple[float, float, float]], lines: Sequence[Sequence[Place]]
) -> list[str]:
    """A Plotly `textposition` a label: together they cost least. `points`: x, y and size in pixels.

    To be cut by an edge is worst, then to stand nearer to another mark than to the own, then to lie on another label,
    on a point, on a line; what is left goes by the order of PLACES.
    """
    marks = [*points, *((label.x, label.y, float(label.size)) for label in labels)]
    costs = [[_cost(label, place, marks, lines) for place in range(len(PLACES))] for label in labels]
    every = product(range(len(PLACES)), repeat=len(labels))
    best = min(every, key=lambda taken: sum(c[t] for c, t in zip(costs, taken, strict=True)) + _together(labels, taken))
    return [PLACES[place] for place in best]


def label_offset(size: float) -> float:
    """Pixels by which Plotly sets a label off from a mark of that size, up, down and aside."""
    return size / 2 / 0.8 + 1


def label_foot(up: str, offset: float) -> float:
    """Pixels from a mark down to the foot of its label, which is written 13 pixels high."""
    return {"top": -7 - offset, "middle": 1.0, "bottom": 10 + offset}[up]


def _cost(
    label: Label, place: int, points: Sequence[tuple[float, float, float]], lines: Sequence[Sequence[Place]]
) -> float:
    cost = LATER * place
    for wide, tall in PLOTS:
        box = _box(label, place, wide, tall)
        cost += CUT * (box[0] < -LEFT or box[2] > wide + RIGHT or box[1] < -ABOVE or box[3] > tall)
        cost += OVER_POINT * sum(_near(box, x * wide, (1 - y) * tall, size / 2) for x, y, size in points)
        ends = ((a, b) for line in lines for a, b in pairwise(line))
        cost += OVER_LINE * sum(
            _crosses(box, (a[0] * wide, (1 - a[1]) * tall), (b[0] * wide, (1 - b[1]) * tall)) for a, b in ends
        )
    return cost


def _together(labels: Sequence[Label], taken: Sequence[int]) -> float:
    cost = 0.0
    for wide, tall in PLOTS:
        boxes = [_box(label, place, wide, tall) for label, place in zip(labels, taken, strict=True)]
        for i, a in enumerate(boxes):
            far = [_distance(a, label.x * wide, (1 - label.y) * tall) for label in labels]
            cost += MISTAKEN * (far[i] > min(far))
            cost += OVER_LABEL * sum(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3] for b in boxes[:i])
    return cost


def _distance(box: Box, x: float, y: float) -> float:
    return math.hypot(max(box[0] - x, 0.0, x - box[2]), max(box[1] - y, 0.0, y - box[3]))


def _box(label: Label, place: int, wide: int, tall: int) -> Box:
    """What the writing covers."""
    off = label_offset(label.size)
    up, aside = PLACES[place].split()
    foot = (1 - label.y) * tall + label_foot(up, off)
    long = sum(WIDE_LETTER if ord(letter) >= FIRST_WIDE else LETTER for letter in label.text)
    left = label.x * wide + {"left": -off - long, "center": -long / 2, "right": off}[aside]
    return (left, foot - UP, left + long, foot + DOWN)


def _near(box: Box, x: float, y: float, radius: float) -> bool:
    return box[0] - radius < x < box[2] + radius and box[1] - radius < y < box[3] + radius


def _crosses(box: Box, a: Place, b: Place) -> bool:
    """Whether the line from a to b runs through the box (Liang and Barsky's clipping)."""
    enters, leaves = 0.0, 1.0
    for axis in (0, 1):
        step, low, high = b[axis] - a[axis], box[axis] - a[axis], box[axis + 2] - a[axis]
        if step == 0:
            if low > 0 or high < 0:
                return False
            continue
        first, last = sorted((low / step, high / step))
        enters, leaves = max(enters, first), min(leaves, last)
    return enters < leaves
