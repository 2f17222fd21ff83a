"""The cells of a sweep in virtual time: the same load and rows as measured ones, calculated instead of waited for."""

import contextlib
import gc
import json
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.cell import failed_cell, judged_cell, kind_of_end
from runner.config import SweepConfig
from runner.environment import library_versions
from runner.errors import SettingFailed
from runner.load.trace_file import TraceRow
from runner.load.workload import build_trace, in_flight_caps
from runner.plan import PlannedCell, cell_config, settings_of, trace_seed
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.simulator.settings import context_tokens
from runner.simulator.step_log import StepLog
from runner.simulator.virtual_records import records_of
from runner.simulator.virtual_server import check_speed, stand_for
from runner.simulator.virtual_time import Span, run_virtual
from runner.trace_texts import trace_rows
from runner.version import tool_version
from storage.records import CellRecord, EngineSample, RequestRecord

PROFILE = "profile"  # key of sweep.json: the profile given beside the sweep's own backend


@dataclass(frozen=True)
class CellRows:
    """What a cell of virtual time leaves behind."""

    record: CellRecord
    requests: list[RequestRecord]
    engine: list[EngineSample]


@dataclass(frozen=True)
class VirtualSweep:
    """A config with the speed that stands for its server; `profile` goes before the backend's own."""

    config: SweepConfig
    profile: EngineProfile | None
    traces: Mapping[str, Sequence[TraceRow]]

    def run(self, plan: PlannedCell, go_on: Callable[[], bool], log: StepLog | None = None) -> CellRows | None:
        """One cell; None when `go_on` said no. The numbers depend on config and profile alone, not on `log`."""
        with _no_collection():
            return self._run(plan, go_on, log)

    def _run(self, plan: PlannedCell, go_on: Callable[[], bool], log: StepLog | None) -> CellRows | None:
        run, load = cell_config(self.config, plan).run, plan.load
        stand = stand_for(self.config, plan.setting, self.profile)
        total_s = run.warmup + run.duration_s
        span = Span(*(round(s * 1e9) for s in (total_s, run.drain, run.request_timeout_s, run.scrape_interval_s)))
        started_unix_ns = time.time_ns()
        classes, seed = self.config.classes, trace_seed(self.config, plan)
        ran = run_virtual(
            build_trace(classes, load, total_s, seed, salt=plan.cell, rows=self.traces),
            stand.settings,
            span,
            max_in_flight=in_flight_caps(classes, load),
            shared_prefix={c.name: c.shared_prefix_tokens for c in classes},
            cell=plan.cell,
            go_on=go_on,
            log=log,
        )
        if ran.gave_up:
            return None
        record = CellRecord(
            plan.cell,
            json.dumps(plan.setting),
            json.dumps(load),
            plan.repeat,
            "running",
            start_line=stand.start_line,
            server=json.dumps(stand.facts),
            started_unix_ns=started_unix_ns,
            window_start_ns=round(run.warmup * 1e9),
            window_end_ns=span.end_ns,
            end_ns=ran.end_ns,
        )
        requests = records_of(ran, plan.cell, span.limit_ns, context_tokens(stand.settings))
        return CellRows(_with_status(record, requests), requests, ran.samples)

    def environment(self) -> dict[str, Any]:
        """What the numbers stand on, in place of the hardware of a measured sweep."""
        stands = [stand_for(self.config, setting, self.profile) for setting in settings_of(self.config)]
        return {
            "time": "virtual",
            "cost_models": list(dict.fromkeys(stand.facts["cost_model"] for stand in stands)),
            "python": platform.python_version(),
            "libraries": library_versions(("numpy", "pandas")),
            "tool_version": tool_version(),
        }


def check_virtual(config: SweepConfig, profile: EngineProfile | None) -> None:
    """Raises ConfigError when some setting has no speed, or one that virtual time cannot take."""
    check_speed(config, profile)
    for setting in settings_of(config):
        stand_for(config, setting, profile)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """A cell makes many objects and hardly a cycle: looking for cycles would take a fifth of its time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def virtual_sweep(config: SweepConfig, asked_for: Mapping[str, Any]) -> VirtualSweep:
    """From the content of a sweep.json. Raises ConfigError."""
    told = asked_for.get(PROFILE)
    return VirtualSweep(config, profile_from_json(told) if told else None, trace_rows(asked_for))


def profile_from_json(told: Mapping[str, Any]) -> EngineProfile:
    """What `dataclasses.asdict` made of a profile, after a way through JSON."""
    cost = dict(told["cost"])
    cost["knots"] = tuple((int(tokens), float(ms)) for tokens, ms in cost.get("knots", ()))
    return EngineProfile(**{**told, "cost": CostModel(**cost)})


def _with_status(record: CellRecord, requests: Sequence[RequestRecord]) -> CellRecord:
    """A prompt that the context cannot hold fails the cell, as when measured."""
    for r in requests:
        if r.error_kind == "context_overflow":
            detail = f"a prompt does not fit this setting's context ({r.error_detail})"
            why = SettingFailed("context_overflow", f"{detail}; raise the context per sequence or shorten the prompts")
            return failed_cell(record, why)
    return judged_cell(record, Counter(map(kind_of_end, requests)))
