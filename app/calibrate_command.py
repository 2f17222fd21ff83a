"""`goodput calibrate`: measures a backend, fits its cost model, and holds that against a run it has not seen."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.named_server import check_named_server
from app.output_file import check_output
from runner.errors import ConfigError
from runner.web_address import with_scheme

HELD_OUT_S = 45.0


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("url", metavar="URL")
    p.add_argument("-o", "--output", type=Path, required=True, metavar="PROFILE.toml")
    p.add_argument("--api", help="dialect; default: found out")
    p.add_argument("--model", metavar="M", help="default: the first the server lists")
    p.add_argument("--api-key-env", metavar="V", help="name of the environment variable that holds the key")
    p.add_argument("--max-num-seqs", type=int, metavar="N", help="answers at once, where the server does not say")
    p.add_argument("--max-num-batched-tokens", type=int, default=2048, metavar="N", help="its token budget")
    p.add_argument("--kv-tokens", type=int, metavar="N", help="its KV cache, where the server does not say")
    p.add_argument("--rounds", type=int, default=3, metavar="N", help="times each step is measured (default: 3)")
    p.add_argument(
        "--held-out", type=float, default=HELD_OUT_S, metavar="S", help="seconds at each of two rates (default: 45)"
    )


def run(args: argparse.Namespace) -> int:
    """Some minutes. The held-out run is kept in the data folder as a sweep."""
    from runner.calibration.whole import calibrate_backend

    _check(args)
    told = calibrate_backend(
        with_scheme(args.url),
        args.data,
        {k: v for k, v in (("api", args.api), ("model", args.model), ("api_key_env", args.api_key_env)) if v},
        seats=args.max_num_seqs,
        budget=args.max_num_batched_tokens,
        kv_tokens=args.kv_tokens,
        rounds=args.rounds,
        held_out_s=args.held_out,
        write_to=args.output,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    if args.json:
        print(json.dumps({**told, "profile": str(args.output)}, allow_nan=False))
    else:
        print(summary(told))
    print(f"wrote {args.output}", file=sys.stderr)
    return 0


def _check(args: argparse.Namespace) -> None:
    check_named_server(args.url, args.api, args.api_key_env)
    for flag in ("max_num_seqs", "max_num_batched_tokens", "kv_tokens", "rounds", "held_out"):
        value = getattr(args, flag)
        if value is not None and not 0 < value < 1e9:
            raise ConfigError(f"--{flag.replace('_', '-')} {value:g} must be above 0")
    check_output(args.output, "profile", "profile.toml")


def summary(told: Mapping[str, Any]) -> str:
    """Coefficients with their intervals, and the errors on the held-out run, as a small text."""
    lines = ["cost of an iteration in ms: t = a + b*P + e*Q + c*B + d*K   (a_prefill in place of a without answers)"]
    for name, value in told["cost"].items():
        low, high = told["cost_low"][name], told["cost_high"][name]
        lines.append(f"  {name:9} {value:12.6g}   95 % interval {low:.4g} to {high:.4g}")
    fit = told["fit"]
    lines.append(f"fit: {fit['rows']} iterations, median error {fit['median_error_share']:.1%}")
    for row in told["held_out"]:
        lines.append(f"held out, {row['request_rate']:g} requests/s, {row['requests']} answers:")
        for key, title in (("ttft_ms", "first token"), ("gap_ms", "gap")):
            parts = [
                f"{name} {e['measured']:.1f} ms, predicted {e['predicted']:.1f} ({e['error_share']:+.0%})"
                for name, e in row[key].items()
            ]
            lines.append(f"  {title:11} {'; '.join(parts)}")
    return "\n".join([*lines, *told["warnings"]])
