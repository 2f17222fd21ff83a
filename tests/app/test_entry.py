"""Ctrl-C at any moment of the command ends it without a traceback."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROGRAM = """
import sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
sys.argv = ["goodput", "list"]
from app.entry import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["app.cli", "app.commands", "pydantic"])
def test_an_interrupt_while_the_program_is_being_loaded_is_quiet(module: str) -> None:
    """Whichever part is being imported: exit code 130, nothing said."""
    code = PROGRAM.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_installed_command_begins_there() -> None:
    """pyproject.toml names it."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"]["goodput"] == "app.entry:main"
