"""A backend's cost model from measuring it, with its errors on a run that the fit has not seen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runner.analysis.prepare import prepare
from runner.calibration.design import TIMES, USUAL_CONTEXT
from runner.calibration.fit import CHANGED, Fit, Row, fit_cost, pace_of, rows_of, seats_seen
from runner.calibration.held_out import errors_of, held_out_sweep, stand_in, worst_error
from runner.calibration.measure import Seen, measure_once
from runner.calibration.profile_file import write_profile
from runner.config import SweepConfig
from runner.engines.orphan import end_orphans
from runner.errors import BusyError, ConfigError, SettingFailed
from runner.queue import enqueue, hold_lock, sweep_folder
from runner.simulated_sweep import VirtualSweep
from runner.simulator.cost_model import BatchShape, iteration_ms, largest_safe_token_budget
from runner.simulator.presets import EngineProfile
from runner.simulator.settings import USUAL_GAP_MS
from runner.simulator.virtual_server import LEAST_MS, NEAREST_SCHEDULER
from runner.what_if import in_memory
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep

GUESSED_SEATS = 16
GUESSED_KV_TOKENS = 65_536
FEW_ANSWERS = 36
LARGE_ERROR = 0.25
COEFFICIENTS = ("a", "a_prefill", "b", "c", "d", "e")


def calibrate_backend(
    url: str,
    data_dir: Path,
    own: Mapping[str, str],
    *,
    seats: int | None,
    budget: int,
    kv_tokens: int | None,
    rounds: int = TIMES,
    held_out_s: float,
    write_to: Path,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """What `goodput calibrate --json` prints; the profile is written before the held-out run and again after it.

    `own`: api, model, api_key_env where given. Holds the lock of the data folder, so that no sweep measures the server
    meanwhile. Raises BusyError, ConfigError, SettingFailed, StorageError.
    """
    open_data_folder(data_dir)

    def look(times: int, part: str) -> Seen:
        with hold_lock(data_dir):
            end_orphans(data_dir)
            return measure_once(
                url, api=own.get("api"), model=own.get("model"), api_key_env=own.get("api_key_env"), seats=seats,
                rounds=times, on_step=lambda done, of: say(f"{part}: step {done + 1} of {of}"),
            )  # fmt: skip

    seen = look(rounds, "measuring")
    rows = _rows(seen)
    try:
        fit = fit_cost(rows)
    except ValueError:
        raise ConfigError(
            f"{url}: no time between two tokens could be measured (its answers come in one piece, or several tokens at "
            "once), so nothing can be fitted"
        ) from None
    if min(iteration_ms(fit.cost, BatchShape(1, 1)), iteration_ms(fit.cost, BatchShape(decode_seqs=1))) < LEAST_MS:
        raise SettingFailed("noise", f"{url}: its times vary too much for a fit; calibrate while nothing else runs")
    told = _told(seen, fit, rows, seats, budget, kv_tokens)
    write_profile(write_to, told)
    profile = EngineProfile(fit.cost, told["kv_tokens"], False, f"profile {write_to.name}")
    model = {"model": seen.detected.model} if seen.detected.model else {}
    backend = {"kind": _kind(seen), "url": url, **own, **model}
    context = seen.room.context_tokens or USUAL_CONTEXT
    config = held_out_sweep(backend, profile, told["max_num_seqs"], context, held_out_s)
    say(f"held-out run: {held_out_s:g} s at each of {len(config.grid['request_rate'])} rates")
    told["sweep_id"], told["held_out"] = hold_out(config, data_dir, profile, told)
    told["pace_after"] = pace_of(_rows(look(1, "is it still as fast?")), fit.cost)
    told["warnings"] = warnings(told)
    write_profile(write_to, told)
    return told


def _rows(seen: Seen) -> list[Row]:
    return [row for step, found in zip(seen.steps, seen.records, strict=True) for row in rows_of(step, found)]


def hold_out(
    config: SweepConfig, data_dir: Path, profile: EngineProfile, told: Mapping[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
    """(the id of the measured sweep, its errors by rate). Raises GoodputError."""
    sweep_id = enqueue(data_dir, config, "calibration")
    if run_one(data_dir, sweep_id, lambda _: None) != "done":
        raise BusyError(f"the held-out run was stopped; `goodput resume {sweep_id}` goes on with it")
    calm = stand_in(config, told["scheduler"], told["max_num_seqs"], told["max_num_batched_tokens"])
    predicted = in_memory(VirtualSweep(calm, profile, {}))
    return sweep_id, errors_of(prepare(read_sweep(sweep_folder(data_dir, sweep_id))), predicted)


def _kind(seen: Seen) -> str:
    """The kind that a sweep measures it as: a running built-in engine has vLLM's metrics."""
    return "vllm" if seen.detected.kind == "simulated" else seen.detected.kind


def _told(
    seen: Seen, fit: Fit, rows: Sequence[Row], seats: int | None, budget: int, kv_tokens: int | None
) -> dict[str, Any]:
    known_seats = seats or seen.room.seats or seats_seen(seen.steps, seen.records)
    known_kv = kv_tokens or seen.room.kv_tokens
    cost = asdict(fit.cost)
    return {
        "model": seen.detected.model,
        "kind": seen.detected.kind,
        "scheduler": NEAREST_SCHEDULER.get(seen.detected.kind, "vllm_v1"),
        "max_num_seqs": known_seats or GUESSED_SEATS,
        "max_num_seqs_told": known_seats is not None,
        "max_num_batched_tokens": budget,
        "kv_tokens": known_kv or GUESSED_KV_TOKENS,
        "kv_tokens_told": known_kv is not None,
        "cost": {name: cost[name] for name in COEFFICIENTS},
        "cost_low": fit.low,
        "cost_high": fit.high,
        "fit": {
            "rows": fit.rows, "median_error_share": fit.median_error, "worst_error_share": fit.worst_error,
        },
        "measured_up_to": {
            "prompt_tokens": max(r.prompt_tokens for r in rows),
            "seqs": max(r.seqs for r in rows),
            "context_tokens": round(max(r.context_tokens for r in rows)),
        },
        "largest_safe_token_budget": _safe_budget(fit),
        "held_out": [],
        "pace_after": None,
        "sweep_id": None,
        "warnings": [],
    }  # fmt: skip


def _safe_budget(fit: Fit) -> int | None:
    """Beside one answer at the usual gap target; null where prompt tokens cost next to nothing."""
    try:
        return largest_safe_token_budget(fit.cost, USUAL_GAP_MS, 1, 0)
    except ValueError:
        return None


def warnings(told: Mapping[str, Any]) -> list[str]:
    """What has to be known of this profile, a sentence each."""
    out = []
    if not told["kv_tokens_told"]:
        out.append(f"The server does not say how large its KV cache is: {told['kv_tokens']} tokens are a guess.")
    if not told["max_num_seqs_told"]:
        out.append(f"How many answers it gives at once is not known: {told['max_num_seqs']} are a guess.")
    if told["measured_up_to"]["seqs"] < 2:
        out.append("It answers one request at a time: what more answers cost each other could not be measured.")
    pace = told["pace_after"]
    if pace is not None and not 1 / CHANGED < pace < CHANGED:
        out.append(
            f"After the held-out run an iteration took {pace:.1f} times as long as when it was fitted: something else "
            "uses the machine, or it got hot; calibrate again when it is quiet."
        )
    worst = worst_error(told["held_out"])
    if worst is None:
        out.append("The held-out run has no answers: nobody knows how far off predictions are.")
    elif worst > LARGE_ERROR:
        out.append(f"One figure of the held-out run is {worst:.0%} off: take predictions as an order of magnitude.")
    few = min((row["requests"] for row in told["held_out"]), default=FEW_ANSWERS)
    if few < FEW_ANSWERS:
        out.append(f"Only {few} answers at one of the rates: give --held-out more seconds for firmer errors.")
    return out
