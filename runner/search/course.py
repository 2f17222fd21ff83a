"""The cells a sweep still has to run: fixed from the start, or chosen by what the finished ones gave. PURE.

What comes next depends on the config and the finished cells alone, so a sweep that was killed and is resumed goes the
way it would have gone.
"""

from collections.abc import Mapping, Sequence

from runner.config import SweepConfig
from runner.errors import ConfigError
from runner.plan import PlannedCell, count_cells, is_search, plan_cells
from runner.search.ended import Ended
from runner.search.halving import steps_left
from runner.search.race import race_of
from runner.search.rate import probes_left


class Course:
    """`ended`: finished cells by number; those of a search with what they gave, null is enough for the others."""

    def __init__(self, config: SweepConfig, ended: Mapping[int, Ended | None]) -> None:
        self._config = config
        self._searches = is_search(config)
        self._ended: list[Ended] = []
        self._left = [plan for plan in plan_cells(config) if plan.cell not in ended]
        for cell in sorted(ended):
            self.note(cell, ended[cell])

    def note(self, cell: int, ended: Ended | None) -> None:
        """A cell has ended."""
        if not self._searches:
            self._left = self._left[1:] if self._left and self._left[0].cell == cell else self._left
        elif ended is None:
            raise ValueError("a search cannot go on from a cell of which it knows nothing")
        else:
            self._ended.append(ended)

    def left(self) -> list[PlannedCell]:
        """What is still to run, the next one first; of a search that one for certain, the others as expected."""
        return expected_cells(self._config, self._ended) if self._searches else self._left


def expected_cells(config: SweepConfig, ended: Sequence[Ended] = ()) -> list[PlannedCell]:
    """The cells of a sweep that are still to come after these; of a search the first is certain, the rest a guess."""
    if not is_search(config):
        return plan_cells(config)[len(ended) :]
    return steps_left(config, ended) if config.run.budget is not None else probes_left(config, ended)


def count_expected(config: SweepConfig) -> int:
    """How many cells a sweep will have, before it begins."""
    return len(expected_cells(config)) if is_search(config) else count_cells(config)


def check_budget(config: SweepConfig) -> None:
    """Raises ConfigError for a time in which two settings cannot be told apart."""
    if config.run.budget is None:
        return
    race = race_of(config)
    lanes, level = min(2, len(race.lanes)), (len(race.axis.levels) - 1) // 2
    least = 2 * lanes * (race.cell_s(race.shortest_s(level), []) + race.start_s([]))
    if race.budget_s < least:
        minutes = int(-(-least // 60))
        raise ConfigError(
            f"run.budget = {config.run.budget} is too short to compare two settings and verify the better one: give it "
            f'"{minutes}m" or more, or shorten run.duration_s'
        )
