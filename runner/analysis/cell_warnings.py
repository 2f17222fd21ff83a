"""What is doubtful about one measured cell, found in its rows and samples. Texts: `warnings`."""

from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.engine import Samples, concurrency, restarted
from runner.analysis.gaps import Bools
from runner.analysis.own_stalls import hit_by_own_stalls
from runner.analysis.percentiles import nearest_rank
from runner.analysis.prefix_cache import unplanned_hits
from runner.analysis.requests import driven_freely, floats, is_rated
from runner.analysis.row_flags import material_flags, row_flags
from runner.analysis.steady import no_steady_state, overload_signs
from runner.analysis.warnings import MeasurementWarning
from runner.config import SweepConfig

LOOP_LAG_MS = 100.0  # worst lateness of a timer in a second; more than one second in ten, but not a single hiccup
HIT_SHARE = 0.01  # of the answers, whose times a hiccup may have spoilt
CPU_SHARE = 0.9  # of one core: the event loop is one thread
OTHERS_SHARE = 0.15  # of all processors: what an idle system does by itself is a tenth of that


def cell_warnings(
    cell: int,
    setting: dict[str, Any],
    rows: pd.DataFrame,
    base: dict[str, Any],
    engine: Samples,
    client: pd.DataFrame,
    config: SweepConfig,
    span: tuple[float, float],
    simulated: bool,
) -> list[MeasurementWarning]:
    """In the order of the flags in a cell. `rows`, `engine`, `client`: of the cell; `span`: its window, ns since its
    start; `base`: the cell's target-free numbers, with `engine` and the shares of kernel stamps and cached prompts.
    """
    answered = rows["completed"].to_numpy(dtype=bool) & rows["in_window"].to_numpy(dtype=bool)
    ours = hit_by_own_stalls(rows, client)
    values: dict[str, dict[str, Any] | None] = {
        "client_saturated": _client_saturated(client, span, answered, ours),
        "machine_busy": _machine_busy(base["others_share"]),
        "rate_not_reached": _rate_not_reached(rows, span),
        "server_serialises": _server_serialises(rows, base, span, setting),
        "metrics_lost": _metrics_lost(engine, span),
        "server_restarted": {} if restarted(engine) else None,
        "no_steady_state": {} if _drifts(rows, config) else None,
        "overload": {} if _overloaded(rows, base, config, span) else None,
        "user_clock": _user_clock(base["kernel_stamp_share"], simulated),
        "errors": _errors(rows),
    }
    flags = row_flags(rows)
    # short answers that came while our loop stood still are read in one piece
    flags["stream_buffered"] = flags["stream_buffered"] & ~ours
    for flag, share in material_flags(flags, answered).items():
        if flag != "prefix_cached":
            values[flag] = {"share": share}
    hits, intended = base["prefix_cache_hit_share"], base["prefix_cache_hit_share_intended"]
    values |= unplanned_hits(rows, hits, intended, setting)
    return [MeasurementWarning(key, cell, v) for key, v in values.items() if v is not None]


def _client_saturated(
    client: pd.DataFrame, span: tuple[float, float], answered: Bools, ours: Bools
) -> dict[str, Any] | None:
    """Late or busy most of the time, or once so late that answers of the window would be held against the server."""
    at = floats(client["at_ns"])
    inside = (at >= span[0]) & (at < span[1])
    if not inside.any():
        return None
    # several processes make a large load, each with a row a second; one that is too slow spoils its own streams
    worst = client[inside].groupby((at[inside] // 1e9).astype(np.int64))[["loop_lag_ms", "cpu_share"]].max()
    lags = floats(worst["loop_lag_ms"])
    late = int((lags > LOOP_LAG_MS).sum()) > max(1.0, 0.1 * len(lags))
    cpu = float(floats(worst["cpu_share"]).mean())
    if late or cpu > CPU_SHARE:
        return {"loop_lag_ms": nearest_rank(lags, 0.90), "cpu_share": cpu}
    hit = int((ours & answered).sum())
    return {"loop_lag_ms": float(lags.max()), "cpu_share": cpu} if hit > HIT_SHARE * int(answered.sum()) else None


def others_share(client: pd.DataFrame, span: tuple[float, float]) -> float | None:
    """Mean share of all processors that programs other than ours and the server's kept busy; null if nobody looked."""
    told = floats(client["others_share"])
    at = floats(client["at_ns"])
    inside = told[(at >= span[0]) & (at < span[1]) & ~np.isnan(told)]
    return float(inside.mean()) if len(inside) else None


def _machine_busy(share: float | None) -> dict[str, Any] | None:
    return {"share": share} if share is not None and share >= OTHERS_SHARE else None


def _rate_not_reached(rows: pd.DataFrame, span: tuple[float, float]) -> dict[str, Any] | None:
    """Against the drawn schedule, not the mean rate: a Poisson window rarely holds exactly rate x time requests."""
    free = driven_freely(rows)
    scheduled = int((free & rows["in_window"].to_numpy(dtype=bool)).sum())
    sent_ns = floats(rows["sent_ns"])
    sent = int((free & (sent_ns >= span[0]) & (sent_ns < span[1])).sum())
    return {"sent": sent, "scheduled": scheduled} if scheduled and sent < 0.95 * scheduled else None


def _server_serialises(
    rows: pd.DataFrame, base: dict[str, Any], span: tuple[float, float], setting: dict[str, Any]
) -> dict[str, Any] | None:
    """Never two streams at once although others waited (4 streamed answers or more, 2 in the system on average)."""
    if setting.get("max_num_seqs") == 1:
        return None
    streamed = rows["completed"].to_numpy(dtype=bool) & (floats(rows["token_events"]) >= 2)
    mean, most = concurrency(floats(rows["sent_ns"]), floats(rows["end_ns"]), *span)
    if int(streamed.sum()) < 4 or base["engine"]["streams_max"] != 1 or mean < 2.0:
        return None
    return {"in_system": most}


def _metrics_lost(engine: Samples, span: tuple[float, float]) -> dict[str, Any] | None:
    """The server's own numbers came, and then did not until the window's end: 10 s and a quarter of it, or more."""
    told = floats(engine["at_ns"])[engine["source"].to_numpy(dtype=object) != "none"]
    if not len(told):
        return None
    missing_s = (span[1] - max(float(told.max()), span[0])) / 1e9
    window_s = (span[1] - span[0]) / 1e9
    return {"missing_s": missing_s} if missing_s >= max(10.0, window_s / 4) else None


def _drifts(rows: pd.DataFrame, config: SweepConfig) -> bool:
    timed = rows["in_window"].to_numpy(dtype=bool) & rows["latency_counts"].to_numpy(dtype=bool)
    names = rows["class_name"].to_numpy(dtype=object)
    steady = [c.name for c in config.classes if c.slo is not None and c.dump is None]
    return any(no_steady_state(rows["ttft_ms"].to_numpy(dtype=np.float64)[timed & (names == n)]) for n in steady)


def _overloaded(rows: pd.DataFrame, base: dict[str, Any], config: SweepConfig, span: tuple[float, float]) -> bool:
    names = rows["class_name"].to_numpy(dtype=object).astype(str)
    rated = np.isin(names, [c.name for c in config.classes if is_rated(c)]) & driven_freely(rows)
    return bool(rated.any()) and overload_signs(rows[rated], *span, base["engine"]["queue_time_mean_s"]).verdict


def _user_clock(share: float | None, simulated: bool) -> dict[str, Any] | None:
    return {"share": 1.0 - share} if share is not None and share < 0.95 and not simulated else None


def _errors(rows: pd.DataFrame) -> dict[str, Any] | None:
    window = rows["in_window"].to_numpy(dtype=bool)
    bad = window & (rows["failed"].to_numpy(dtype=bool) | rows["rejected"].to_numpy(dtype=bool))
    if int(bad.sum()) <= 0.01 * int(window.sum()):
        return None
    kinds = rows["error_kind"][bad].fillna("unknown").value_counts()
    return {"share": int(bad.sum()) / int(window.sum()), "kinds": ", ".join(f"{n} {k}" for k, n in kinds.items())}
