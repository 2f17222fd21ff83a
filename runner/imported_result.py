"""The result object of another tool's runs: scored by our rules where its data allow it, else as the tool states it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runner.analysis.prepare import Prepared, prepare
from runner.analysis.result import score
from runner.config import GapRule, Slo
from runner.imported import tables_of, window_s
from runner.imports.model import CLASS, ToolFile, ToolRun

_NO_PLAN = -1  # a cell that no plan has: the runs are taken as they are
# what can be said of a run that another program drove; of one without times only what needs none
_JUDGED = frozenset({"errors", "multi_token_chunks", "stream_buffered", "overload", "no_steady_state"})
_UNTIMED = frozenset({"errors", "multi_token_chunks", "stream_buffered"})
_RATES = ("goodput_per_s", "output_tok_per_s", "prompt_tok_per_s", "request_per_s", "offered_rate")
_COUNTS = ("scheduled", "completed", "failed", "cancelled", "rejected")
_SHARES = ("goodput_per_s", "share", "share_low", "share_high", "met", "judged", "design_effect")
_TIMES = ("ttft_ms", "gap_ms", "tpot_ms", "e2e_ms")
NO_REQUESTS = "The file holds summaries only: which requests kept their promises can't be worked out from it."


def prepared_of(file: ToolFile, meta: Mapping[str, Any]) -> Prepared:
    """All that does not depend on targets; keep it to score it again. Raises ImportFailed."""
    prepared = prepare(tables_of(file, meta), only=_NO_PLAN)
    cells = []
    for facts, run in zip(prepared.cells, file.runs, strict=True):
        allowed = _JUDGED if run.timed else _UNTIMED
        kept = tuple(w for w in facts.warnings if w.message_id in allowed)
        cells.append(replace(facts, warnings=kept, send_lags_ms=facts.send_lags_ms[:0], seen=None))
    return replace(prepared, cells=tuple(cells))


def tool_result(
    file: ToolFile,
    prepared: Prepared,
    *,
    targets: Mapping[str, Slo] | None = None,
    rule: GapRule | None = None,
    share_target: float | None = None,
) -> dict[str, Any]:
    """The result object of `prepared_of(file, …)`, whose cells have `stated` beside the usual keys.

    `targets`: that of the class "requests", or the first one given. A file without single gaps is judged by the mean
    whatever rule is asked for.
    """
    mean_only = file.rescoring == "mean_only"
    wanted = _for_our_class(targets)
    judged_by: GapRule | None = "mean_tpot" if mean_only else rule
    if mean_only and wanted:
        wanted = {name: slo.model_copy(update={"rule": "mean_tpot"}) for name, slo in wanted.items()}
    result = score(prepared, targets=wanted, rule=judged_by, share_target=share_target, status="done")
    for row, run in zip(result["cells"], file.runs, strict=True):
        row["stated"] = dict(run.stated)
        for part in (row, *row["classes"].values()):
            if file.rescoring == "none":
                _state(part, run)
            elif mean_only:
                _forget_gaps(part)
            if window_s(run) is None:
                part.update(dict.fromkeys(_RATES))
    return _summaries(result) if file.rescoring == "none" else result


def _for_our_class(targets: Mapping[str, Slo] | None) -> dict[str, Slo] | None:
    if not targets:
        return None
    return {CLASS: targets.get(CLASS) or next(iter(targets.values()))}


def _forget_gaps(part: dict[str, Any]) -> None:
    """Nothing was told of single gaps."""
    part["gap_ms"] = {**dict.fromkeys(part["gap_ms"]), "n": 0}
    if "rules" in part:
        part["rules"] = {name: share if name == "mean_tpot" else None for name, share in part["rules"].items()}


def _state(part: dict[str, Any], run: ToolRun) -> None:
    """The tool's own numbers in place of ours; what depends on single requests is unknown."""
    told = run.stated
    part.update({key: told.get(key) for key in _RATES if key != "goodput_per_s"})
    part.update({key: int(told.get(key) or 0) for key in _COUNTS})
    part.update({key: dict(told[key]) for key in _TIMES if key in told})
    part.update(dict.fromkeys(_SHARES))
    part.update({"flags": [], "warnings": [], "bound": None} if "flags" in part else {})


def _summaries(result: dict[str, Any]) -> dict[str, Any]:
    """Of such a file nothing can be chosen; the setting with the most raw tokens is known all the same."""
    rated = [row for row in result["cells"] if row["output_tok_per_s"] is not None]
    raw = max(rated, key=lambda row: row["output_tok_per_s"], default=None)
    for row in result["cells"]:
        row["on_frontier"] = False
    unknown = dict.fromkeys(result["choice"])
    result["choice"] = {
        **unknown,
        "reason": NO_REQUESTS,
        "target_met": False,
        "cells": [],
        "raw_throughput_setting": raw["setting"] if raw else None,
        "raw_throughput_load": raw["load"] if raw else None,
        "raw_throughput_cells": [raw["cell"]] if raw else [],
        "reason_templates": [NO_REQUESTS],
        "reason_values": {},
    }
    return {**result, "bounds": [], "warnings": []}
