"""Names beside marks: what they cover, by hand-made plots."""

from hypothesis import given
from hypothesis import strategies as st

from app.views.label_places import PLACES, Label, label_places

LONG, SHORT = "most raw tokens – not the pick", "the pick"  # 210 and 56 pixels as counted here
ACROSS = st.floats(0.06, 0.94)


def one(label: Label, *points: tuple[float, float], lines: tuple[tuple[tuple[float, float], ...], ...] = ()) -> str:
    (place,) = label_places([label], [(x, y, 8.0) for x, y in points], lines)
    return place


def test_alone_a_name_stands_above_its_mark() -> None:
    """Where nothing is in the way, and neither edge cuts it."""
    assert one(Label(0.5, 0.5, LONG, 16)) == "top center"


def test_a_long_name_at_an_edge_is_written_towards_the_middle() -> None:
    """Its half would be cut by the edge of a phone, as it would above the plot and on the numbers below it."""
    assert one(Label(0.94, 0.5, LONG, 16)) == "top left"
    assert one(Label(0.06, 0.5, LONG, 16)) == "top right"
    assert one(Label(0.5, 0.97, LONG, 16)) == "bottom center"
    assert one(Label(0.94, 0.03, LONG, 16)) == "top left"


def test_a_name_keeps_off_points() -> None:
    """Left of the winner's mark, below or above it, whichever is free; in its own height where both are not."""
    above, below = (0.85, 0.58), (0.85, 0.42)
    assert one(Label(0.94, 0.5, LONG, 16), above) == "bottom left"
    assert one(Label(0.94, 0.5, LONG, 16), below) == "top left"
    assert one(Label(0.94, 0.5, LONG, 16), (0.85, 0.6), (0.85, 0.4)) == "middle left"


def test_a_name_keeps_off_lines_but_rather_lies_on_one_than_on_a_point() -> None:
    """The line of a setting that falls towards the winner crosses what is above it."""
    falling = ((0.06, 0.9), (0.94, 0.5))
    assert one(Label(0.94, 0.5, LONG, 16), lines=(falling,)) == "bottom left"
    assert one(Label(0.94, 0.5, LONG, 16), (0.85, 0.42), lines=(falling,)) == "top left"
    upright = ((0.9, 0.0), (0.9, 1.0))
    assert one(Label(0.94, 0.5, SHORT, 16), lines=(upright,)) == "top center"


def test_two_names_lie_on_neither_and_stand_by_their_own_marks() -> None:
    """The pick just above the winner: its name is not written where it would be read as that of the other."""
    pick, raw = Label(0.94, 0.6, SHORT, 24), Label(0.94, 0.54, LONG, 16)
    first, second = label_places([pick, raw], [], [])
    assert first.startswith(("top", "middle"))
    assert second == "bottom left"


@given(st.lists(st.tuples(ACROSS, st.floats(0.05, 0.85), st.just(8.0)), max_size=30), ACROSS, ACROSS)
def test_what_has_the_most_raw_tokens_is_never_cut(
    points: list[tuple[float, float, float]], pick: float, height: float
) -> None:
    """However many points there are: at the right edge a long name ends at its mark."""
    labels = [Label(pick, height * 0.9, SHORT, 24), Label(0.94, 0.5, LONG, 16)]
    places = label_places(labels, points, [])
    assert set(places) <= set(PLACES)
    assert places[1].endswith("left")


def test_wide_letters_take_more_room() -> None:
    """Fifteen Korean letters are as wide as 28 Latin ones, and do not fit in the middle of a phone's edge."""
    assert one(Label(0.72, 0.5, "토" * 15, 16)) == "top left"
    assert one(Label(0.72, 0.5, "o" * 15, 16)) == "top center"
