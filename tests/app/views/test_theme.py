"""Colours, shapes and scales."""

import pytest

from app.views import theme
from app.words import Words


def test_names_are_text_in_plotly_labels() -> None:
    """plotly's pseudo-HTML is shown, not interpreted."""
    assert theme.plain('<a href="x">&amp;</a>') == '&lt;a href="x"&gt;&amp;amp;&lt;/a&gt;'


def test_each_series_has_its_own_colour_marker_and_dash() -> None:
    """No two of the eight styles share a channel, so colour is never alone."""
    styles = [theme.series_style(i) for i in range(theme.MAX_SERIES)]
    for key in ("colour", "symbol", "dash"):
        assert len({s[key] for s in styles}) == theme.MAX_SERIES


@pytest.mark.parametrize(
    ("position", "colour"), [(-1, "#00224e"), (0, "#00224e"), (0.5, "#707173"), (1, "#fee838"), (2, "#fee838")]
)
def test_cividis_ends_and_middle(position: float, colour: str) -> None:
    """The scale's own stops come back exactly; positions beyond it are cut."""
    assert theme.cividis(position) == colour


def test_text_on_a_colour_is_readable() -> None:
    """Contrast of number and ground is at least 4.5 (WCAG AA) over the whole scale."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for i in range(101):
        ground = theme.cividis(i / 100)
        pair = sorted((luminance(ground), luminance(theme.ink_on(ground))))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5


def test_log_axis_only_where_the_range_asks() -> None:
    """A factor of more than 20 among positive values makes an axis logarithmic; a zero never does."""
    assert theme.axis([1, 20])["type"] == "linear"
    assert theme.axis([0, 1000])["type"] == "linear"
    assert theme.axis([None, 5])["type"] == "linear"
    assert theme.axis([10, 400])["type"] == "log"


def test_log_ticks_are_written_in_full() -> None:
    """20 reads 20, not 2."""
    axis = theme.axis([12, 700])
    assert axis["tickvals"] == [10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
    assert axis["ticktext"] == ["10", "20", "50", "100", "200", "500", "1,000", "2,000", "5,000"]


def test_axes_write_numbers_as_the_language_does() -> None:
    """A reader of Polish takes "2,000" for two: the marks are the language's, in plotly's own ticks and in ours."""
    fig = theme.figure("x", "y").update_xaxes(**theme.axis([0.2, 900]))
    theme.speak(fig, Words(lang="pl"))
    assert fig.layout.separators == ",\u00a0"
    assert {"0,3", "1\u00a0000"} <= set(fig.layout.xaxis.ticktext)
    english = theme.figure("x", "y")
    theme.speak(english, Words())
    assert english.layout.separators == ".,"


def test_a_long_name_is_folded_and_stays_text() -> None:
    """Lines break between words; markup in a name is shown."""
    assert theme.folded("cap 4 and server priority", 20) == "cap 4 and server<br>priority"
    assert theme.folded("<b>", 20) == "&lt;b&gt;"
    assert theme.folded("", 20) == ""


def test_light_and_dark_have_transparent_grounds() -> None:
    """The page decides what is behind a figure."""
    for dark in (False, True):
        layout = theme.template(dark).layout
        assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert theme.template(False).layout.font.color != theme.template(True).layout.font.color
