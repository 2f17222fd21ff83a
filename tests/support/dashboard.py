"""A running dashboard for tests in a real browser, and a visitor who notes what is asked for and what goes wrong."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from app.views.theme import ink

ROOT = Path(__file__).parents[2]
PATIENCE_MS = 120_000
HEIGHT = 2000
SEARCHED = re.compile(r"/_stcore/(health|host-config)$")
# the page's ground has taken on the theme, and the writing of each figure in it
GROUND = """(dark) => {
    const ground = getComputedStyle(document.querySelector("[data-testid=stApp]") || document.body).backgroundColor;
    return (Number(ground.match(/\\d+/)[0]) < 128) === dark;
}"""
FIGURES = """(ink) => [...document.querySelectorAll(".js-plotly-plot")]
    .every((f) => f._fullLayout && f._fullLayout.font.color.toLowerCase() === ink)"""
# what scrolls sideways: the page itself, or the part of it that Streamlit scrolls
TOO_WIDE = """() => [document.documentElement, document.querySelector("[data-testid=stMain]")]
    .filter((e) => e && e.scrollWidth > e.clientWidth)
    .map((e) => `${e.tagName} ${e.scrollWidth} > ${e.clientWidth}`)"""


@contextmanager
def dashboard(data_dir: Path, **environment: str) -> Iterator[str]:
    """A running `goodput --no-browser` on a free port; its address with the last slash."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "--no-browser", "--port", "0", "--data", str(data_dir)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        cwd=ROOT,
    )
    try:
        assert process.stderr is not None
        told = next((m for line in process.stderr if (m := re.search(r"http://\S+", line))), None)
        assert told, "the dashboard did not start"
        yield told[0].rstrip("/") + "/"
    finally:
        process.terminate()
        process.wait(30)


class Visit:
    """A browser window that notes every address it asks for, every dialog, and every error in its pages."""

    def __init__(self, browser: Browser, address: str, width: int = 1280, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": HEIGHT},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.address = address
        self.scheme = scheme
        self.asked: list[str] = []
        self.trouble: list[str] = []
        self.page: Page = self.context.new_page()
        self.context.on("request", lambda r: self.asked.append(r.url))
        self.page.on("websocket", lambda ws: self.asked.append(ws.url))
        self.context.on("dialog", lambda d: (self.trouble.append(f"dialog: {d.message}"), d.dismiss()))
        self.context.on("weberror", lambda e: self.trouble.append(f"error: {e.error}"))
        self.context.on("console", self._said)

    def go(self, path: str = "") -> Page:
        self.page.goto(self.address + path)
        return self.page

    def _said(self, message: ConsoleMessage) -> None:
        """Notes errors, but for those of Streamlit's own search for the path below which it lies."""
        where = message.location["url"]
        if message.type == "error" and not SEARCHED.search(where):
            self.trouble.append(f"{message.text} ({where})")

    def look(self, width: int, scheme: str) -> None:
        """Another width and theme of the same page; waits until the page and its figures have followed."""
        dark = scheme == "dark"
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        if scheme != self.scheme:
            self.scheme = scheme
            self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            self.page.wait_for_function(GROUND, arg=dark)
            if self.page.locator("[data-testid=stApp]").count():
                self.page.keyboard.press("r")  # Streamlit draws figures anew only when it runs the page again
        self.page.wait_for_function(FIGURES, arg=ink(dark).lower())
        settled(self.page)

    def check(self) -> None:
        """Since the last time nothing but the dashboard was asked for anything, and nothing went wrong."""
        asked, trouble = self.asked[:], self.trouble[:]
        self.asked.clear()
        self.trouble.clear()
        home = urlsplit(self.address).netloc
        web = [url for url in asked if urlsplit(url).scheme not in ("data", "blob", "file")]
        assert web, "nothing was asked for"
        foreign = [url for url in web if urlsplit(url).netloc != home]
        assert not foreign, foreign
        assert not trouble, trouble


def settled(page: Page) -> None:
    """The page's script has run to its end, and every part of it is drawn; at once for a page that has none."""
    if page.locator("[data-testid=stApp], #root").count():
        page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=PATIENCE_MS)
        missing = page.locator("[data-testid=stSkeleton], [data-testid=stAppSkeleton]")
        expect(missing).to_have_count(0, timeout=PATIENCE_MS)


def results_drawn(page: Page) -> None:
    page.wait_for_selector(".st-key-frontier .main-svg", timeout=PATIENCE_MS)
    settled(page)
