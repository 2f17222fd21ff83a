"""How long a sweep will take. PURE. Shown before it starts and as the time left while it runs."""

from collections.abc import Sequence

from runner.config import SweepConfig
from runner.plan import PlannedCell, cell_config

IDLE_WAIT_S = 1.0  # between cells: queue and batch empty twice in a row
USUAL_DRAIN_S = 2.0  # most cells end long before the drain limit
START_S = {"simulated": 1.0, "llama_cpp": 10.0, "vllm": 90.0, "sglang": 90.0}  # a guess until one start was seen


def cell_seconds(config: SweepConfig) -> float:
    """Expected seconds of one cell without a restart: warm-up, window, usual drain, wait for idle."""
    return config.run.warmup + config.run.duration_s + min(config.run.drain, USUAL_DRAIN_S) + IDLE_WAIT_S


def longest_cell_seconds(config: SweepConfig) -> float:
    """The most that a cell without a restart may take: its drain to the limit."""
    return config.run.warmup + config.run.duration_s + config.run.drain + IDLE_WAIT_S


def owns_server(config: SweepConfig) -> bool:
    """Whether we start the server ourselves, or a command of the user does it for us."""
    return config.backend.kind == "simulated" or config.control.mode in ("process", "command")


def start_seconds(config: SweepConfig, measured_s: float | None = None) -> float:
    """Seconds of one server start: as the last one was measured, else a guess by kind. 0 for a server not ours."""
    if not owns_server(config):
        return 0.0
    return measured_s if measured_s is not None else START_S.get(config.backend.kind, 30.0)


def count_starts(cells: Sequence[PlannedCell]) -> int:
    """Server starts that this order of cells needs: one where the setting differs from the one before."""
    return sum(1 for i, c in enumerate(cells) if i == 0 or c.setting != cells[i - 1].setting)


def sweep_seconds(config: SweepConfig, cells: Sequence[PlannedCell], start_s: float | None = None) -> float:
    """Expected seconds for `cells` in order; `start_s`: seconds of one server start, when one was measured."""
    cooling = max(len(cells) - 1, 0) * config.run.cool_down_s
    loaded = sum(cell_seconds(cell_config(config, plan)) for plan in cells)
    return loaded + cooling + count_starts(cells) * start_seconds(config, start_s)
