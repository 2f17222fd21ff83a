"""Takes the pictures of the README: every page, of the recorded sweep, and of a demo that is measured meanwhile.

    python -m tests.take_screenshots [FOLDER]     (two minutes; into sample_data/screenshots)

Nothing else should run meanwhile, or the demo says of itself that it can't be relied on. Look at each picture before it
is committed.
"""

import sys
import tempfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from PIL import Image
from playwright.sync_api import Page

from app.cli import main as goodput
from tests.support.chromium import chromium
from tests.support.dashboard import PATIENCE_MS, ROOT, Visit, dashboard, settled

MOST_BYTES = 250_000
SAMPLE = "llama_cpp_sweep"
SCHEDULERS = ("vllm_v0", "vllm_v1")  # the demo by each in virtual time, to compare
BACKENDS = """[nas]
kind = "llama_cpp"
url = "http://192.168.1.20:8080"

[workstation]
kind = "vllm"
url = "http://192.168.1.30:8000"
api_key_env = "VLLM_API_KEY"
[workstation.control]
mode = "process"
command = ["vllm", "serve", "/models/qwen3-8b", "--max-num-seqs", "{max_num_seqs}", "--port", "{port}"]
"""


@dataclass(frozen=True)
class Picture:
    """One page: what is opened, what must be drawn, and the part that is taken: `height` px from `top` on."""

    name: str
    path: str
    drawn: str
    height: int
    top: str = ""  # a selector; the whole page where empty
    width: int = 1280
    scheme: str = "light"


_FRONTIER, _REQUEST = ".st-key-frontier .main-svg", ".st-key-request-timeline .main-svg"
PICTURES = (
    Picture("start", "", ".st-key-samples img", 1010),
    Picture("start_phone", "", ".st-key-samples img", 1150, width=400),
    Picture("new_sweep", "new?workload=coding", "[data-testid=stDataFrame]", 1250),
    Picture("results", "results?sweep={demo}", _FRONTIER, 1420),
    Picture("results_dark", f"results?sweep={SAMPLE}", _FRONTIER, 1420, scheme="dark"),
    Picture("results_phone", f"results?sweep={SAMPLE}", _FRONTIER, 1500, width=400, scheme="dark"),
    Picture("cell", f"results?sweep={SAMPLE}&section=cell&cell=3", _REQUEST, 1750, ".st-key-section"),
    Picture("compare", "compare?sweeps={pair}", ".st-key-differences .main-svg", 1900),
    Picture("what_if", "what-if", ".st-key-steps .main-svg", 1900),
    Picture("backends", "backends?edit=nas", ".st-key-backend-1", 800),
    Picture("method", "method", ".st-key-method", 1000),
    Picture("shared_page", f"reports/{SAMPLE}.html", "#fig-batch .main-svg", 1420),
    Picture("shared_page_phone", f"reports/{SAMPLE}.html", "#fig-batch .main-svg", 1500, width=400, scheme="dark"),
)  # fmt: skip


def take(page: Page, picture: Picture, folder: Path) -> None:
    """Writes one picture of the page as it is now, with as few colours as it needs."""
    top = 0.0
    if picture.top:
        box = page.locator(picture.top).bounding_box()
        assert box
        top = box["y"] - 16
    clip = {"x": 0, "y": top, "width": picture.width, "height": picture.height}
    png = page.screenshot(clip=clip, animations="disabled")  # type: ignore[arg-type]
    path = folder / f"{picture.name}.png"
    # the method that keeps rare colours: a median cut takes those of a figure's thin lines for one another
    few = Image.open(BytesIO(png)).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    size = path.stat().st_size
    assert size <= MOST_BYTES, f"{path.name}: {size:,} bytes"
    print(f"{path.name}: {size / 1000:,.0f} kB", file=sys.stderr)


def of_page(visit: Visit, picture: Picture, folder: Path, **ids: str) -> None:
    visit.page.set_viewport_size({"width": picture.width, "height": 4000})
    page = visit.go(picture.path.format(**ids))
    page.wait_for_selector(picture.drawn, timeout=PATIENCE_MS)
    settled(page)
    visit.look(picture.width, picture.scheme)
    page.set_viewport_size({"width": picture.width, "height": max(picture.height, 4000 if picture.top else 0)})
    page.wait_for_timeout(1500)  # tables are drawn on a canvas, which nothing tells of
    take(page, picture, folder)


def start_demo(visit: Visit) -> Page:
    """A tab in which the demo is watched live."""
    tab = visit.context.new_page()
    tab.set_viewport_size({"width": 1280, "height": 1600})
    tab.goto(visit.address)
    settled(tab)
    tab.get_by_role("button", name="Demo sweep").click()
    tab.wait_for_url("**/live?sweep=*")
    return tab


def simulate_two(data_dir: Path) -> None:
    demo = (ROOT / "sample_data" / "demo.toml").read_text(encoding="utf-8")
    for scheduler in SCHEDULERS:
        told = demo.replace('"vllm_v1"', f'"{scheduler}"').replace('documents"', f'documents, {scheduler}"', 1)
        file = data_dir / f"{scheduler}.toml"
        file.write_text(told, encoding="utf-8")
        assert goodput(["simulate", str(file), "--data", str(data_dir)]) == 0
        file.unlink()


def take_all(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        data_dir = Path(temporary)
        simulate_two(data_dir)
        pair = ",".join(sorted(p.name for p in (data_dir / "sweeps").iterdir()))
        (data_dir / "backends.toml").write_text(BACKENDS, encoding="utf-8")
        with dashboard(data_dir) as address, chromium() as browser:
            visit = Visit(browser, address)
            live = start_demo(visit)
            live.wait_for_selector("text=/[2345] of 8 cells/", timeout=PATIENCE_MS)
            live.wait_for_timeout(4000)  # into the cell, so that its figures have something to show
            live.wait_for_selector(".st-key-live-client .main-svg", timeout=PATIENCE_MS)  # the last of them
            live.wait_for_function("() => !document.querySelector('[data-stale=true]')")  # nothing half drawn
            take(live, Picture("live", "", "", 1500), folder)
            live.wait_for_url("**/results?sweep=*", timeout=PATIENCE_MS)
            demo = parse_qs(urlsplit(live.url).query)["sweep"][0]
            live.close()
            for picture in PICTURES:
                of_page(visit, picture, folder, pair=pair, demo=demo)
            visit.check()


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "sample_data" / "screenshots"
    target.mkdir(parents=True, exist_ok=True)
    take_all(target)
