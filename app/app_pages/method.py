"""Method: what every number means, how the choice is made, and what this tool cannot know."""

import streamlit as st

from app import method_text, ui

w = ui.words()
ui.say(w.text("Method"), level=1)
chapters = {  # a name for links, which no language changes: title and entries
    "measured": (w.text("What is measured"), method_text.metrics(w)),
    "kept": (w.text("What counts as kept"), method_text.goodput(w)),
    "choice": (w.text("How the choice is made"), method_text.choice(w)),
    "searches": (w.text("Quick check, searches and comparisons"), method_text.searches(w)),
    "others": (w.text("What other tools mean by the same words"), method_text.other_tools(w)),
    "limits": (w.text("What this tool can't know"), method_text.limits(w)),
    "sources": (w.text("Sources"), method_text.sources(w)),
}
st.markdown(" · ".join(f"[{ui.plain(title)}](#{name})" for name, (title, _) in chapters.items()))
with st.container(key="method"):
    for name, (title, entries) in chapters.items():
        st.header(ui.plain(title), anchor=name)
        for term, meaning in entries:
            ui.define(term, meaning)
