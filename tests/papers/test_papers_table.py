"""Published comparisons of schedulers hold on the built-in engine, and the README tells what really came out.

All files of sample_data/papers run once, about 20 s on one core; no result is stored but in the README.
"""

import pytest

from runner.sweep_file import load_sweep
from tests.papers.claims import CLAIMS, Claim
from tests.papers.sweeps import FOLDER, capacity, cell, cells_of
from tests.papers.table import README, in_readme, table


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.check for claim in CLAIMS])
def test_the_comparison_holds(claim: Claim) -> None:
    """In its order or range, by the figures of `goodput simulate FILE --json`."""
    reproduced, holds = claim.look()
    assert holds, f"asserted {claim.asserted}, got {reproduced}"


def test_the_readme_has_the_table_that_the_script_prints() -> None:
    """If not: python -m tests.papers.table --write."""
    assert in_readme(README.read_text(encoding="utf-8")) == table()


def test_every_file_belongs_to_a_comparison_and_every_cell_of_it_was_calculated() -> None:
    """No file lies about unused, and no claim stands on a cell that failed or answered only some requests."""
    used = {name for claim in CLAIMS for name in claim.files}
    assert used == {path.stem for path in FOLDER.glob("*.toml")}
    assert {c["status"] for name in used for c in cells_of(name)} == {"ok"}
    cut = ("background_isolation", "distserve_slow_link")  # what a cap of 0 or 1 GbE holds back is cut in the end
    whole = [(name, c) for name in used.difference(cut) for c in cells_of(name)]
    assert [(name, c["cell"]) for name, c in whole if c["completed"] != c["scheduled"]] == []


def test_the_two_sides_of_a_comparison_differ_in_what_is_compared_alone() -> None:
    """Where two files stand for one comparison, machine, load and seed are the same."""
    pairs = [claim.files for claim in CLAIMS if len(claim.files) == 2]
    for one, other in pairs:
        left, right = (load_sweep(FOLDER / f"{name}.toml") for name in (one, other))
        assert left.classes == right.classes
        assert (left.backend.cost, left.backend.kv_tokens, left.run.seed) == (
            right.backend.cost,
            right.backend.kv_tokens,
            right.run.seed,
        )


def test_a_cap_of_none_is_the_chat_alone_whatever_else_is_set() -> None:
    """The baseline of the isolation sweep: no job is sent, so seats and policy make no difference to the chats."""
    alone = [c for c in cells_of("background_isolation") if c["load"]["background_max_in_flight"] == 0]
    assert len(alone) == 4
    assert {c["classes"]["background"]["cancelled"] for c in alone} == {240}
    assert all(c["classes"]["chat"] == alone[0]["classes"]["chat"] for c in alone)


def test_a_capacity_is_read_only_from_a_line_that_reaches_it() -> None:
    """The highest rate must fail, and a choice of cells that is not one cell is refused."""
    assert capacity("distserve_one_gpu", lambda c: c["request_rate"] < 3.95) == 3.9
    assert capacity("distserve_one_gpu", lambda c: False) == 0
    with pytest.raises(AssertionError, match="holds at its highest rate"):
        capacity("distserve_one_gpu", lambda c: True)
    with pytest.raises(AssertionError, match="4 cells"):
        cell("distserve_one_gpu")
