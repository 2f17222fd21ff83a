#!/usr/bin/env python3
"""llama.cpp's own HTTP server (the C++ one inside the xllamacpp wheel) as a process, with llama-server's flag names.

SIGINT or SIGTERM ends it. Threads default to one: on a shared machine two compute threads wait for each other.
"""

import argparse
import os
import signal
from importlib import import_module
from typing import Any

xllamacpp: Any = import_module("xllamacpp")  # its modules are C++ without types


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add = parser.add_argument
    add("-m", "--model", required=True)
    add("-a", "--alias")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8080)
    add("-c", "--ctx-size", type=int, default=0)
    add("-np", "--parallel", type=int, default=1)
    add("-b", "--batch-size", type=int, default=2048)
    add("-ub", "--ubatch-size", type=int, default=512)
    add("-t", "--threads", type=int, default=1)
    add("-tb", "--threads-batch", type=int, default=1)
    add("--threads-http", type=int, default=-1)
    add("-nocb", "--no-cont-batching", dest="cont_batching", action="store_false")
    add("-kvu", "--kv-unified", action="store_true")
    add("--metrics", action="store_true")
    add("--no-slots", dest="slots", action="store_false")
    add("--no-cache-prompt", dest="cache_prompt", action="store_false")
    add("--cache-ram", type=int, default=0)
    add("--no-warmup", dest="warmup", action="store_false")
    add("--api-key")
    add("-lv", "--verbosity", type=int, default=3)
    return parser.parse_args()


def start_server(flags: argparse.Namespace) -> object:
    """Returns once the model is loaded; the server lives as long as what is returned."""
    params = xllamacpp.CommonParams()
    params.model.path = flags.model
    if flags.alias:
        params.model_alias = {flags.alias}
    params.hostnames = [flags.host]
    params.port = flags.port
    params.n_ctx, params.n_parallel = flags.ctx_size, flags.parallel
    params.n_batch, params.n_ubatch = flags.batch_size, flags.ubatch_size
    params.cpuparams.n_threads, params.cpuparams_batch.n_threads = flags.threads, flags.threads_batch
    params.n_threads_http = flags.threads_http
    params.cont_batching, params.kv_unified = flags.cont_batching, flags.kv_unified
    params.endpoint_metrics, params.endpoint_slots, params.endpoint_props = flags.metrics, flags.slots, True
    params.cache_prompt, params.cache_ram_mib, params.warmup = flags.cache_prompt, flags.cache_ram, flags.warmup
    params.fit_params, params.ui = False, False
    params.verbosity = flags.verbosity
    if flags.api_key:
        params.api_keys = [flags.api_key]
    return xllamacpp.Server(params)


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    server: Any = start_server(parse_args())
    print(f"ready on {server.listening_address}", flush=True)
    signal.sigwait((signal.SIGINT, signal.SIGTERM))
    os._exit(0)  # the C++ threads have no orderly end


if __name__ == "__main__":
    main()
