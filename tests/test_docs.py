"""README and sample files say what is so: links lead somewhere, configs are valid, commands and variables exist."""

import re
import tomllib
from pathlib import Path

import pytest

from app.cli import parser
from runner.config import SweepConfig, parse_sweep
from runner.estimate import sweep_seconds
from runner.plan import count_cells, plan_cells
from runner.saved_backends import check_backend
from runner.sweep_file import load_sweep

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (
    "run", "resume", "continue", "list", "show", "delete", "report", "probe", "discover", "engine", "simulate",
    "bench-client", "runner", "compare", "export", "import", "isolate", "calibrate",
)  # fmt: skip


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    """Pictures and files named in links are part of the repository."""
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_sweep_file_of_the_readme_is_valid() -> None:
    """What people copy from the README passes the same check as their own file; a single table takes the place of the
    whole file's, and what is no part of a sweep file is a file of saved servers."""
    whole, *parts = [tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", README, re.S)]
    for part in ({}, *(part for part in parts if part.keys() <= SweepConfig.model_fields.keys())):
        assert count_cells(parse_sweep({**whole, **part}, "README")) > 0
    for part in parts:
        for name, table in part.items():
            assert name in SweepConfig.model_fields or check_backend(name, table)


@pytest.mark.parametrize("path", sorted((ROOT / "sample_data").glob("*.toml")), ids=lambda p: p.name)
def test_every_sample_config_is_valid(path: Path) -> None:
    """A clone can run each of them as it is."""
    assert plan_cells(load_sweep(path))


def test_the_demo_takes_at_most_a_minute_and_a_half() -> None:
    """The promise on the Start page, by the estimate that is shown there; its measured part is within 60 s."""
    config = load_sweep(ROOT / "sample_data" / "demo.toml")
    cells = plan_cells(config)
    assert len(cells) * (config.run.warmup + config.run.duration_s) <= 60
    assert sweep_seconds(config, cells) <= 90


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme_and_in_the_program(command: str) -> None:
    """Neither knows a command that the other lacks."""
    assert re.search(rf"[`·] ?(goodput )?{command}\b", README)
    assert re.search(rf"^ +{command}\b", parser().format_help(), re.M)


def test_the_readme_speaks_of_no_command_that_is_not_there() -> None:
    """`goodput X` with a word behind it is a command of the program."""
    named = set(re.findall(r"(?:`|bin/)goodput ([a-z][a-z-]+)", README))
    assert named - set(COMMANDS) == set()


def test_no_placeholder_is_left() -> None:
    """Tables that come from measurements are filled in."""
    assert not re.search(r"\b[A-Z]+_TABLE\b|TODO|FIXME", README)
