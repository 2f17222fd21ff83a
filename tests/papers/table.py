"""The README's table of published comparisons, from real runs of sample_data/papers in virtual time (about 20 s).

python -m tests.papers.table            prints it
python -m tests.papers.table --write    puts it into README.md, between its two markers
"""

import re
import sys
from pathlib import Path

from tests.papers.claims import CLAIMS, Claim

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- papers: python -m tests.papers.table --write -->", "<!-- /papers -->"


def table() -> str:
    """Markdown, one row a claim."""
    head = ["| check | published | reproduced | asserted | holds | files |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *map(_row, CLAIMS)])


def _row(claim: Claim) -> str:
    reproduced, holds = claim.look()
    files = ", ".join(f"`{name}`" for name in claim.files)
    cells = (claim.check, claim.published, reproduced, claim.asserted, "yes" if holds else "NO", files)
    return f"| {' | '.join(cells)} |"


def in_readme(text: str) -> str:
    """What stands between the markers. Raises ValueError when they are not there once each."""
    parts = re.findall(rf"{re.escape(BEGIN)}\n(.*?)\n{re.escape(END)}", text, re.S)
    if len(parts) != 1:
        raise ValueError(f"README.md needs one {BEGIN} … {END}")
    return str(parts[0])


def main(write: bool) -> None:
    made = table()
    if not write:
        print(made)
        return
    text = README.read_text(encoding="utf-8")
    old, new = (f"{BEGIN}\n{rows}\n{END}" for rows in (in_readme(text), made))
    README.write_text(text.replace(old, new), encoding="utf-8")


if __name__ == "__main__":
    main("--write" in sys.argv[1:])
