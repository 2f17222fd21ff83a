"""The router: the list of pages and what all of them share."""

import contextlib

import streamlit as st

from app import jobs, ui

w = ui.words()
st.set_page_config(page_title="Goodput Lab", page_icon="📈", layout="wide", menu_items={"About": None})
pages = [
    st.Page(ui.START, title=w.text("Start"), default=True),
    st.Page(ui.NEW, title=w.text("New sweep"), url_path="new"),
    st.Page(ui.LIVE, title=w.text("Live"), url_path="live"),
    st.Page(ui.RESULTS, title=w.text("Results"), url_path="results"),
    st.Page(ui.COMPARE, title=w.text("Compare"), url_path="compare"),
    st.Page(ui.WHAT_IF, title=w.text("What if"), url_path="what-if"),
    st.Page(ui.BACKENDS, title=w.text("Backends"), url_path="backends"),
    st.Page(ui.METHOD, title=w.text("Method"), url_path="method"),
]
page = st.navigation(pages, position="top")
jobs.ensure_worker(ui.data_dir())
with contextlib.suppress(ui.PageEnd):  # the foot also stands below a page that ends early
    page.run()
ui.language_switch()
