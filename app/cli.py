"""The `goodput` command. Reads as a table of contents; what each command does is in app.commands."""

import argparse
import contextlib
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

import app.commands as commands
from app import calibrate_command as calibration
from app import compare_command
from app import isolate_command as isolate
from runner import __main__ as worker
from runner.bench import command as bench
from runner.search import ask as search
from runner.simulator import command as engine
from runner.version import tool_version
from storage.data_folder import default_data_folder
from storage.errors import GoodputError


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0 done, 1 failed, 2 wrong usage or config, 130 interrupted. Every error is one sentence on stderr."""
    args = parser().parse_args(argv)
    try:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a name in any script must not stop a plain terminal
        code: int = args.do(args)
        sys.stdout.flush()
        return code
    except GoodputError as e:
        print(f"goodput: {e}", file=sys.stderr)
        return commands.exit_code(e)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        sys.stderr.close()
        return 1
    except OSError as e:  # what a command does not foresee, such as a full disk behind `> file`
        print(f"goodput: {e.filename or 'the output'}: {e.strerror or e}", file=sys.stderr)
        with contextlib.suppress(OSError):
            sys.stdout.close()
        return 1


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence; argparse itself would put all flags before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` shows what there is\n")


def parser() -> argparse.ArgumentParser:
    """All commands and their flags."""
    top = _Parser(
        prog="goodput",
        description="Finds the batch settings at which your own LLM server keeps its latency promises. "
        "Without a command it starts the dashboard.",
    )
    top.add_argument("--version", action="version", version=f"goodput {tool_version()}")
    _dashboard(top)
    add = top.add_subparsers(title="commands", metavar="COMMAND").add_parser

    p = add("run", help="measure one sweep file to its end")
    p.add_argument("sweep", type=Path, metavar="SWEEP.toml")
    search.add_arguments(p)
    p.add_argument("--report", type=Path, metavar="FILE.html", help="write the shared page")
    p.add_argument("--yes", action="store_true", help="do not ask before a very large sweep")
    _data(p, json=True)
    p.set_defaults(do=commands.run)

    p = add("simulate", help="the same sweep in virtual time: no server, no waiting")
    p.add_argument("sweep", type=Path, metavar="SWEEP.toml")
    search.add_arguments(p)
    p.add_argument("--profile", type=Path, metavar="FILE", help="cost model that stands for the server")
    p.add_argument("--report", type=Path, metavar="FILE.html", help="write the shared page")
    p.add_argument("--yes", action="store_true", help="do not ask before a very large sweep")
    _data(p, json=True)
    p.set_defaults(do=commands.simulate)

    p = add("isolate", help="what keeps chats in time beside background work, and what it costs that work")
    isolate.add_arguments(p)
    _data(p, json=True)
    p.set_defaults(do=isolate.run)

    p = add("resume", help="go on with an interrupted or stopped sweep")
    p.add_argument("id", metavar="ID")
    p.add_argument("--report", type=Path, metavar="FILE.html", help="write the shared page")
    _data(p, json=True)
    p.set_defaults(do=commands.resume)

    p = add("continue", help="tell a sweep that its server was changed by hand")
    p.add_argument("id", metavar="ID")
    _data(p)
    p.set_defaults(do=commands.go_on)

    p = add("list", help="the sweeps of the data folder")
    _data(p, json=True)
    p.set_defaults(do=commands.list_all)

    p = add("show", help="one sweep's result")
    p.add_argument("id", metavar="ID", help="an id, its beginning, or the folder of a sweep")
    _data(p, json=True)
    p.set_defaults(do=commands.show)

    p = add("compare", help="is one sweep worse than another beyond noise? (exit code 1 if so, 2 if nobody can say)")
    compare_command.add_arguments(p)
    _data(p, json=True)
    p.set_defaults(do=compare_command.compare)

    p = add("delete", help="delete a sweep for good")
    p.add_argument("id", metavar="ID")
    _data(p)
    p.set_defaults(do=commands.delete)

    _sharing(add)

    p = add("probe", help="one streamed request to a server, with all its times")
    p.add_argument("url", metavar="URL")
    p.add_argument("--api", help="dialect; default: found out")
    p.add_argument("--model", metavar="M", help="default: the first the server lists")
    p.add_argument("--prompt", default="Say hello in five words.", metavar="T")
    p.add_argument("--max-tokens", type=int, default=32, metavar="N")
    p.add_argument("--api-key-env", metavar="V", help="name of the environment variable that holds the key")
    p.add_argument("--json", action="store_true", help="print the request object")
    p.set_defaults(do=commands.probe)

    p = add("discover", help="LLM servers on the usual ports of this host")
    p.add_argument("--json", action="store_true", help="print JSON to stdout, alone")
    p.set_defaults(do=commands.discover)

    p = add("calibrate", help="measure a backend and fit its cost model, with errors on a held-out run")
    calibration.add_arguments(p)
    _data(p, json=True)
    p.set_defaults(do=calibration.run)

    p = add("engine", help="serve the built-in engine")
    engine.add_arguments(p)
    p.set_defaults(do=engine.run)

    p = add("bench-client", help="accuracy and cost of our own client on this machine")
    bench.add_arguments(p)
    p.set_defaults(do=bench.run)

    p = add("runner", help="the queue worker alone")
    worker.add_arguments(p)
    p.set_defaults(do=worker.work)
    return top


def _sharing(add: Callable[..., argparse.ArgumentParser]) -> None:
    """What leaves the data folder, and what comes into it from elsewhere."""
    p = add("report", help="write a sweep as one HTML page")
    p.add_argument("id", metavar="ID", help="an id, its beginning, or the folder of a sweep")
    p.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.html")
    p.add_argument("--private", action="store_true", help="leave host names, addresses and paths in")
    p.add_argument("--lang", choices=("en", "ko", "pl"), default="en", help="language of the page (default: en)")
    _data(p)
    p.set_defaults(do=commands.report)

    p = add("export", help="write a sweep's numbers as CSV, Parquet or JSON")
    p.add_argument("id", metavar="ID", help="an id, its beginning, or the folder of a sweep")
    p.add_argument("--format", required=True, choices=("csv", "parquet", "json"))
    where = "json: a file, or a folder to put it in; csv, parquet: a folder for the tables, or a file for the cells"
    p.add_argument("-o", "--output", type=Path, required=True, metavar="PATH", help=where)
    p.add_argument("--private", action="store_true", help="leave host names, addresses and paths in")
    _data(p)
    p.set_defaults(do=commands.export)

    p = add("import", help="take in a shared page, an export, or result files and folders of other tools")
    p.add_argument("files", nargs="+", type=Path, metavar="FILE")
    _data(p, json=True)
    p.set_defaults(do=commands.import_files)


def _dashboard(top: argparse.ArgumentParser) -> None:
    top.add_argument("--host", help="address to listen on (default: GOODPUT_HOST or 127.0.0.1)")
    top.add_argument("--port", type=int, help="port (default: GOODPUT_PORT or 8501)")
    top.add_argument("--no-browser", action="store_true", help="do not open a browser")
    _data(top)
    top.set_defaults(do=commands.dashboard)


def _data(p: argparse.ArgumentParser, *, json: bool = False) -> None:
    p.add_argument(
        "--data", type=Path, default=default_data_folder(), metavar="DIR", help="data folder (GOODPUT_DATA or ./data)"
    )
    if json:
        p.add_argument("--json", action="store_true", help="print JSON to stdout, alone")


if __name__ == "__main__":
    sys.exit(main())
