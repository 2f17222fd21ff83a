"""What each `goodput` command does. JSON goes to stdout alone; words and progress go to stderr.

Imports of pandas, Streamlit and Plotly stand inside the functions that need them: a probe must start at once.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.named_server import check_named_server
from app.output_file import check_output
from runner.config import SweepConfig
from runner.errors import BusyError, ConfigError
from runner.plan import count_points, is_search
from runner.search.ask import searching
from storage.data_folder import open_data_folder
from storage.errors import GoodputError
from storage.side_files import LIVE, ask, list_sweeps, read_state, status_of

ASK_FROM_CELLS = 1_000


def exit_code(error: GoodputError) -> int:
    """2 for wrong usage or config, 1 for all else."""
    return 2 if isinstance(error, (ConfigError, BusyError)) else 1


def dashboard(args: argparse.Namespace) -> int:
    """Serves the pages until Ctrl-C."""
    from app.start_failure import show_in_container

    try:
        data_dir = open_data_folder(args.data)
    except GoodputError as e:
        show_in_container(str(e))
        raise
    from app.serve import serve

    return serve(data_dir, args.host, args.port, open_browser=not args.no_browser)


def run(args: argparse.Namespace) -> int:
    """One sweep file to its end."""
    return measure(args, _asked_for(args), args.sweep)


def _asked_for(args: argparse.Namespace) -> SweepConfig:
    """The sweep file, which may name a saved backend of the data folder, with what the flags add to it."""
    from runner.saved_backends import saved_backends
    from runner.sweep_file import load_sweep

    return searching(load_sweep(args.sweep, saved_backends(args.data.expanduser())), args)


def measure(args: argparse.Namespace, config: SweepConfig, source: Path) -> int:
    """One sweep to its end. `source`: the file it came from, in whose folder recorded traces lie, or what else made it;
    `args`: data, report, yes, json."""
    from runner.engines.orphan import end_orphans
    from runner.once import check_before_start, oddities_before_start
    from runner.queue import enqueue, hold_lock, stop_waiting

    if args.report:
        check_output(args.report)
    _ask_if_large(config, args.yes)
    data_dir = open_data_folder(args.data)
    with hold_lock(data_dir):  # before the sweep waits in the queue: what is refused must not be measured later
        end_orphans(data_dir)  # the engine of a killed runner would hold the port
    try:
        check_before_start(config)
        sweep_id = enqueue(data_dir, config, source.name, source.parent)
    except ConfigError as e:
        raise ConfigError(f"{source}: {e}") from None
    for oddity in oddities_before_start(config):
        print(f"{oddity.severity}: {oddity.sentence}", file=sys.stderr)
    try:
        return _measure(args, data_dir, sweep_id)
    except KeyboardInterrupt:  # before it began: it must not begin when somebody else works on the folder
        stop_waiting(data_dir, sweep_id)
        raise


def simulate(args: argparse.Namespace) -> int:
    """One sweep file in virtual time; what it leaves is a sweep like any other, marked as simulated."""
    from dataclasses import asdict

    from runner.queue import check_cell_count, enqueue, hold_lock
    from runner.simulated_sweep import check_virtual
    from runner.simulator.profile import load_profile
    from runner.simulator.virtual_server import for_virtual_time

    config = for_virtual_time(_asked_for(args))
    profile = load_profile(args.profile) if args.profile else None
    if args.report:
        check_output(args.report)
    _ask_if_large(config, args.yes, virtual=True)
    try:
        check_cell_count(config)
        check_virtual(config, profile)
    except ConfigError as e:
        raise ConfigError(f"{args.sweep}: {e}") from None
    data_dir = open_data_folder(args.data)
    with hold_lock(data_dir):
        pass
    given = asdict(profile) if profile else None
    try:
        sweep_id = enqueue(data_dir, config, args.sweep.name, args.sweep.parent, simulated=True, profile=given)
    except ConfigError as e:
        raise ConfigError(f"{args.sweep}: {e}") from None
    return _measure(args, data_dir, sweep_id)


def resume(args: argparse.Namespace) -> int:
    """What is left of a sweep; a finished one is only shown."""
    from runner.queue import find_sweep

    if args.report:
        check_output(args.report)
    data_dir = open_data_folder(args.data)
    return _measure(args, data_dir, find_sweep(data_dir, args.id))


def go_on(args: argparse.Namespace) -> int:
    """Tells a sweep that waits for a change by hand that it was made."""
    from runner.queue import find_sweep, sweep_folder

    sweep_id = find_sweep(args.data, args.id)
    folder = sweep_folder(args.data, sweep_id)
    waiting_for = (read_state(folder) or {}).get("waiting_for")
    if not waiting_for or status_of(folder) not in LIVE:
        raise ConfigError(f"sweep {sweep_id} is not waiting for a change by hand; `goodput list` shows what runs")
    ask(folder, "continue")
    print(f"{sweep_id} goes on when its server answers", file=sys.stderr)
    return 0


def list_all(args: argparse.Namespace) -> int:
    from app import import_command

    sweeps = list_sweeps(args.data)
    if args.json:
        keys = ("sweep_id", "name", "status", "created_unix_ns", "cells_total", "cells_done", "verdict", "simulated")
        _print_json([{k: getattr(s, k) for k in keys} for s in sweeps] + import_command.rows(args.data))
        return 0
    for s in sweeps:
        mark = "  (simulated)" if s.simulated else ""
        print(f"{s.sweep_id}  {s.status:<11} {s.cells_done}/{s.cells_total} cells  {s.name}{mark}")
        if s.verdict:
            print(f"    {s.verdict}")
    for line in (imported := import_command.lines(args.data)):
        print(line)
    if not sweeps and not imported:
        print(f"no sweeps in {args.data} yet; `goodput run sample_data/demo.toml` makes one", file=sys.stderr)
    return 0


def show(args: argparse.Namespace) -> int:
    from app import import_command

    imported = import_command.result_of_import(args.data, args.id)
    result = imported or _result(folder_of(args.id, args.data))
    if args.json:
        _print_json(result)
    else:
        _print_result(result)
        if imported:
            print(import_command.note_of(imported))
    return 0


def delete(args: argparse.Namespace) -> int:
    from app import import_command
    from runner.queue import delete_sweep, find_sweep

    if gone := import_command.delete(args.data, args.id):
        print(f"deleted {gone}", file=sys.stderr)
        return 0
    sweep_id = find_sweep(args.data, args.id)
    delete_sweep(args.data, sweep_id)
    print(f"deleted {sweep_id}", file=sys.stderr)
    return 0


def report(args: argparse.Namespace) -> int:
    from app.imports import find_import

    check_output(args.output)
    folder = find_import(args.data, args.id) or folder_of(args.id, args.data)
    _write_report(folder, args.output, private=args.private, lang=args.lang)
    return 0


def export(args: argparse.Namespace) -> int:
    from app import export_command

    return export_command.run(args)


def import_files(args: argparse.Namespace) -> int:
    from app import import_command

    return import_command.run(args)


def probe(args: argparse.Namespace) -> int:
    """Exit code 1 when the request failed; the object says why."""
    from runner.once import probe_once

    check_named_server(args.url, args.api, args.api_key_env)
    if args.max_tokens < 1:
        raise ConfigError(f"--max-tokens {args.max_tokens} is too small; ask for at least 1")
    for flag, text in (("--prompt", args.prompt), ("--model", args.model or "")):
        if text != text.encode(errors="replace").decode():  # bytes of the command line that are no UTF-8
            raise ConfigError(f"{flag} is not UTF-8 text; set the terminal to UTF-8, or write it in plain letters")
    answer = probe_once(
        args.url,
        api=args.api,
        model=args.model,
        prompt=args.prompt,
        max_tokens=args.max_tokens,
        api_key_env=args.api_key_env,
    )
    if args.json:
        _print_json(answer)
    else:
        _print_probe(answer)
    return 0 if answer["outcome"] == "ok" else 1


def discover(args: argparse.Namespace) -> int:
    """Servers on this host; none is no failure."""
    from app.views.servers import servers_text
    from runner.once import discover_once

    rows = [found.as_json() for found in discover_once()]
    if args.json:
        _print_json(rows)
    elif rows:
        print(servers_text(rows))
    else:
        print("no LLM server answers on the usual ports of this host", file=sys.stderr)
    return 0


def _measure(args: argparse.Namespace, data_dir: Path, sweep_id: str) -> int:
    from app.progress import Progress
    from runner.queue import sweep_folder
    from runner.work import run_one

    folder = sweep_folder(data_dir, sweep_id)
    print(f"sweep {sweep_id} in {folder}", file=sys.stderr)
    judged: list[dict[str, Any]] = []
    with Progress(sys.stderr) as progress:
        ended = status_of(folder) == "done"
        status = "done" if ended else run_one(data_dir, sweep_id, progress.show, judged.append)
    result = {**judged[0], "status": status} if judged else _result(folder)
    if args.report:
        _write_report(folder, args.report, private=False)
    if args.json:
        _print_json(result)
    else:
        _print_result(result)
    if status == "stopped":
        return _stopped(folder, result)
    return 0 if any(c["status"] == "ok" for c in result["cells"]) else 1


def _stopped(folder: Path, result: Mapping[str, Any]) -> int:
    """130 when the person stopped it, 1 after too many failed cells; an hour that was asked for is no failure."""
    state = read_state(folder) or {}
    why = state.get("message") or f"stopped; everything finished is kept: goodput resume {folder.name}"
    print(why, file=sys.stderr)
    if state.get("stopped_by") == "stop_by":
        return 0 if any(c["status"] == "ok" for c in result["cells"]) else 1
    return 1 if state.get("stopped_by") == "failures" else 130


def _ask_if_large(config: SweepConfig, yes: bool, virtual: bool = False) -> None:
    cells = count_points(config)
    if cells < ASK_FROM_CELLS or yes or is_search(config):
        return
    hours = cells * (config.run.warmup + config.run.duration_s) / 3600
    takes = f"calculates {hours:,.0f} hours of load" if virtual else f"takes at least {hours:,.0f} hours"
    text = f"this sweep has {cells:,} cells and {takes}"
    if not sys.stdin.isatty():
        raise ConfigError(f"{text}; shorten the lists in [grid], or pass --yes if you mean it")
    print(f"{text}. Start it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("not started; shorten the lists in [grid]")


def folder_of(name: str, data_dir: Path) -> Path:
    """Of a sweep in the data folder, or one that lies elsewhere, such as sample_data/llama_cpp_sweep."""
    from runner.queue import find_sweep, sweep_folder
    from storage.sweep_store import DATABASE

    named = Path(name)
    if (named / DATABASE).is_file():
        return named.resolve()
    if len(named.parts) > 1:
        raise ConfigError(
            f"{named} is not the folder of a measured sweep; `goodput list` shows those of the data folder"
        )
    return sweep_folder(data_dir, find_sweep(data_dir, name))


def _result(folder: Path) -> dict[str, Any]:
    from app.data import state_of
    from runner.analysis.result import build_result
    from storage.queries import read_sweep

    return build_result(read_sweep(folder), status=state_of(folder))


def _write_report(folder: Path, path: Path, *, private: bool, lang: str = "en") -> None:
    from app.data import write_report
    from app.words import load_words

    write_report(folder, path, include_private=private, words=load_words(lang))
    print(f"wrote {path}", file=sys.stderr)


def _print_json(value: object) -> None:
    print(json.dumps(value, allow_nan=False))  # ASCII: any terminal takes it, and half a surrogate pair as well


def _print_result(result: Mapping[str, Any]) -> None:
    from app.views.table import text_table
    from app.views.verdict import origin_note

    if result.get("simulated"):
        print(origin_note(result))
    print(text_table(result))
    print(result["choice"]["reason"])
    for note in result["choice"].get("notes") or []:
        print(note["text"])
    for found in [*(result.get("max_rates") or ()), *filter(None, [result.get("budget")])]:
        print(found["reason"])
    if isolation := result.get("isolation"):
        from app.views.isolation import gap_sentences

        for sentence in [isolation["reason"], *gap_sentences(isolation)]:
            print(sentence)
    if line := result["choice"].get("start_line"):
        print(line)


def _print_probe(answer: Mapping[str, Any]) -> None:
    from app.views.servers import printable

    for key, value in answer.items():
        if value not in (None, "", []):
            lines = str(value).split("\n")
            print(f"{key:22}", "\n".join(printable(line) for line in lines))
