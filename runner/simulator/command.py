"""`goodput engine`: flags -> a running server."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.errors import ConfigError
from runner.simulator.presets import DEFAULT_PRESET, EngineProfile, resolve_preset
from runner.simulator.profile import load_profile, parse_cost
from runner.simulator.schedulers.by_name import SCHEDULERS
from runner.simulator.settings import ServerSettings, context_tokens
from runner.simulator.state import Knobs
from storage.errors import GoodputError

MOST_WAIT_MS = 3_600_000  # an hour
DEFAULT_KV_TOKENS = 90_000  # beside --cost, which says nothing about memory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `goodput engine`."""
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument("--preset", metavar="DEVICE/MODEL/QUANT", help=f"cost model (default {DEFAULT_PRESET})")
    speed.add_argument("--profile", type=Path, metavar="FILE", help="cost model from a TOML file")
    speed.add_argument(
        "--cost", metavar="a=…,b=…", help="cost model in ms: a, b and optionally c, d, e, a_prefill, host"
    )
    parser.add_argument("--kv-tokens", type=_positive, metavar="N", help="size of the KV pool in tokens")
    parser.add_argument("--scheduler", default="vllm_v1", metavar="S", help=f"one of {', '.join(SCHEDULERS)}")
    parser.add_argument("--policy", default="fcfs", choices=("fcfs", "priority"), help="vllm_v1: who is served first")
    parser.add_argument(
        "--max-num-seqs", type=_positive, default=256, metavar="N", help="seats in a batch; llama_cpp: its slots"
    )
    parser.add_argument(
        "--max-num-batched-tokens",
        type=_positive,
        default=2048,
        metavar="N",
        help="tokens per iteration; distserve: of a prefill batch; llama_cpp: its -b",
    )
    parser.add_argument("--max-model-len", type=_positive, metavar="N", help="longest prompt plus answer")
    parser.add_argument(
        "--max-num-queued-reqs",
        "--max-queue",
        type=_whole,
        metavar="N",
        dest="max_queue",
        help="answer 503 when so many wait (default: no limit)",
    )
    _add_scheduler_arguments(parser)
    parser.add_argument("--model", metavar="NAME", help="name the server gives its model")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8000, help="port to listen on; 0: any free one (default 8000)")


def _add_scheduler_arguments(parser: argparse.ArgumentParser) -> None:
    """What only some schedulers look at; their names are Knobs' own."""
    own = Knobs()
    add = parser.add_argument
    add("--long-prefill-token-threshold", type=_whole, default=0, metavar="N", help="vllm_v1: most of one prompt")
    add("--enable-prefix-caching", **_switch("vllm_v1: known beginnings of prompts are not computed again"))
    add("--batch-wait-ms", type=_milliseconds, default=own.batch_wait_ms, metavar="MS", help="static: wait for a batch")
    add("--stream-static", **_switch("static: tokens stream, though rows stay until the batch ends"))
    add("--reservation", choices=("max", "pow2", "oracle"), default=own.reservation, help="orca: KV of a request")
    add("--preemption", choices=("recompute", "swap"), default=own.preemption, help="vllm_v0: what becomes of KV")
    add("--pcie-gb-per-s", type=_above_zero, default=own.pcie_gb_per_s, metavar="GB/S", help="vllm_v0: speed of swaps")
    add("--prefill-instances", type=_positive, default=own.prefill_instances, metavar="N", help="distserve")
    add("--decode-instances", type=_positive, default=own.decode_instances, metavar="N", help="distserve")
    add(
        "--kv-link-gbit-per-s",
        type=_above_zero,
        default=own.kv_link_gbit_per_s,
        metavar="GBIT/S",
        help="distserve: the link of a prefill instance",
    )
    add("--kv-unified", **_switch("llama_cpp: slots share the context"))


def _switch(says: str) -> dict[str, Any]:
    """A flag that may stand alone or with true or false, as a grid gives it."""
    return {"type": _yes_no, "nargs": "?", "const": True, "default": False, "metavar": "true|false", "help": says}


def run(args: argparse.Namespace) -> int:
    """Serves until it is told to stop. Exit code: 0, 130 after Ctrl-C, 2 with one sentence on stderr for a mistake."""
    # the server brings asyncio, which `goodput --help` does not need
    from runner.simulator.server import serve

    try:
        return serve(server_settings(args))
    except GoodputError as e:
        print(f"goodput engine: {e}", file=sys.stderr)
        return 2


def server_settings(args: argparse.Namespace, given: EngineProfile | None = None) -> ServerSettings:
    """What the flags ask for, checked as a whole; `given` goes before the profile they name. Raises ConfigError."""
    profile = engine_profile(args, given)
    knobs = Knobs(
        max_num_seqs=args.max_num_seqs,
        max_num_batched_tokens=args.max_num_batched_tokens,
        long_prefill_token_threshold=args.long_prefill_token_threshold,
        policy=args.policy,
        max_model_len=args.max_model_len or Knobs().max_model_len,
        batch_wait_ms=args.batch_wait_ms,
        stream_static=args.stream_static,
        reservation=args.reservation,
        preemption=args.preemption,
        kv_bytes_per_token=profile.kv_bytes_per_token,
        pcie_gb_per_s=args.pcie_gb_per_s,
        prefill_instances=args.prefill_instances,
        decode_instances=args.decode_instances,
        kv_link_gbit_per_s=args.kv_link_gbit_per_s,
        kv_unified=args.kv_unified,
        prefix_caching=args.enable_prefix_caching,
    )
    settings = ServerSettings(
        profile=profile,
        knobs=knobs,
        scheduler=args.scheduler,
        model=args.model or _model_name(args),
        host=args.host,
        port=args.port,
        max_model_len=args.max_model_len,
        max_queue=args.max_queue,
    )
    context_tokens(settings)
    return settings


def engine_profile(args: argparse.Namespace, given: EngineProfile | None = None) -> EngineProfile:
    """The cost model (`given`, or the one that the flags name) and the KV pool. Raises ConfigError."""
    if given is not None:
        profile = given
    elif args.cost is not None:
        profile = EngineProfile(parse_cost(args.cost), DEFAULT_KV_TOKENS, False, "cost given by hand")
    elif args.profile:
        profile = load_profile(args.profile)
    else:
        profile = resolve_preset(DEFAULT_PRESET if args.preset is None else args.preset)
    if args.kv_tokens is not None:
        if args.kv_tokens < 16:
            raise ConfigError("--kv-tokens must be at least 16, one block")
        profile = replace(profile, kv_tokens=args.kv_tokens)
    return profile


def _model_name(args: argparse.Namespace) -> str:
    if args.cost is not None or args.profile:
        return "goodput-engine"
    return str(args.preset or DEFAULT_PRESET).split("/")[1]


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _whole(text: str) -> int:
    value = _integer(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is below 0")
    return value


def _positive(text: str) -> int:
    value = _integer(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def _above_zero(text: str) -> float:
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def _milliseconds(text: str) -> float:
    value = _number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    if not value <= MOST_WAIT_MS:
        raise argparse.ArgumentTypeError(f"{text} is no time to wait")
    return value


def _yes_no(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text} is neither true nor false")
    return text.lower() == "true"


def _port(text: str) -> int:
    value = _whole(text)
    if value > 65535:
        raise argparse.ArgumentTypeError(f"{value} is above 65535")
    return value
