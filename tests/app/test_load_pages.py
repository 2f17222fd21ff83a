"""What is loaded before the first visitor comes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIRST = """
import sys
from app.load_pages import PARTS, THEIRS, load_pages
load_pages()
from streamlit.testing.v1 import AppTest
before = set(sys.modules)
for page in ("start", "results"):
    at = AppTest.from_file("app/main.py", default_timeout=60).run()
    at.switch_page(f"app_pages/{page}.py").run()
    assert not at.exception
late = {name for name in set(sys.modules) - before if name.startswith(("app.", "runner.", "storage."))}
print(*[name for name in (*PARTS, *THEIRS) if name not in sys.modules], *sorted(late))
"""


def test_the_first_visit_of_start_and_results_loads_nothing_of_ours(tmp_path: Path) -> None:
    """Every part of both pages is there before, and so is what this Streamlit loads for them."""
    ended = subprocess.run(
        [sys.executable, "-c", FIRST],
        cwd=ROOT,
        env={"GOODPUT_DATA": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == []
