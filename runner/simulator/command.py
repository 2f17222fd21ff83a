"""`goodput engine`: flags -> a running server."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from runner.errors import ConfigError
from runner.simulator.core import Knobs
from runner.simulator.presets import DEFAULT_PRESET, EngineProfile, resolve_preset
from runner.simulator.profile import load_profile, parse_cost
from runner.simulator.schedulers.by_name import SCHEDULERS
from storage.errors import GoodputError

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
    parser.add_argument("--policy", default="fcfs", choices=("fcfs", "priority"), help="who is served first")
    parser.add_argument("--max-num-seqs", type=_positive, default=256, metavar="N", help="seats in a batch")
    parser.add_argument(
        "--max-num-batched-tokens", type=_positive, default=2048, metavar="N", help="tokens per iteration"
    )
    parser.add_argument(
        "--long-prefill-token-threshold", type=_whole, default=0, metavar="N", help="most tokens of one prompt per turn"
    )
    parser.add_argument("--max-model-len", type=_positive, metavar="N", help="longest prompt plus answer")
    parser.add_argument(
        "--max-queue", type=_whole, metavar="N", help="answer 503 when so many wait (default: no limit)"
    )
    parser.add_argument("--model", metavar="NAME", help="name the server gives its model")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8000, help="port to listen on; 0: any free one (default 8000)")


def run(args: argparse.Namespace) -> int:
    """Serves until it is told to stop. Exit code: 0, 130 after Ctrl-C, 2 with one sentence on stderr for a mistake."""
    # the server brings asyncio, which `goodput --help` does not need
    from runner.simulator.server import ServerSettings, serve

    try:
        knobs = Knobs(args.max_num_seqs, args.max_num_batched_tokens, args.long_prefill_token_threshold, args.policy)
        return serve(
            ServerSettings(
                engine_profile(args),
                knobs,
                args.scheduler,
                args.model or _model_name(args),
                args.host,
                args.port,
                args.max_model_len,
                args.max_queue,
            )
        )
    except GoodputError as e:
        print(f"goodput engine: {e}", file=sys.stderr)
        return 2


def engine_profile(args: argparse.Namespace) -> EngineProfile:
    """The cost model and the KV pool that the flags name. Raises ConfigError."""
    if args.cost:
        profile = EngineProfile(parse_cost(args.cost), DEFAULT_KV_TOKENS, False, "cost given by hand")
    elif args.profile:
        profile = load_profile(args.profile)
    else:
        profile = resolve_preset(args.preset or DEFAULT_PRESET)
    if args.kv_tokens is not None:
        if args.kv_tokens < 16:
            raise ConfigError("--kv-tokens must be at least 16, one block")
        profile = replace(profile, kv_tokens=args.kv_tokens)
    return profile


def _model_name(args: argparse.Namespace) -> str:
    if args.cost or args.profile:
        return "goodput-engine"
    return str(args.preset or DEFAULT_PRESET).split("/")[1]


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is below 0")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def _port(text: str) -> int:
    value = _whole(text)
    if value > 65535:
        raise argparse.ArgumentTypeError(f"{value} is above 65535")
    return value
