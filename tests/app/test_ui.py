"""Text stays text in Streamlit's Markdown."""

import re

from hypothesis import given
from hypothesis import strategies as st

from app import ui


def test_markup_is_escaped() -> None:
    """Every sign that means something to Markdown has a backslash; colons and links are parted invisibly."""
    assert ui.plain("<b>*a*</b>") == r"\<b\>\*a\*\<\/b\>"
    assert ui.plain(":material/home:") == ":\u2060material\\/home:\u2060"
    assert ui.plain("me@x.test www.x.test\n# no") == "me@\u2060x\\.test www\u2060\\.x\\.test \\# no"


@given(st.text())
def test_no_sign_of_markdown_is_left_bare(text: str) -> None:
    """Whatever a server or a person calls a thing, nothing in it can begin markup, and it reads as it was."""
    told = ui.plain(text)
    bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", told)
    assert not set(bare) & set("<>[]()`$!_~|*#\\&+-.")
    assert not re.search(r":[^\u2060]", bare)
    shown = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", told).replace("\u2060", "")
    assert shown == " ".join(text.split()).replace("\u2060", "")
