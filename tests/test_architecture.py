"""The rules of the design, checked on the source itself: who may import whom, what is pure, how large things get."""

import ast
import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("app", "runner", "storage")
FILES = sorted(p.relative_to(ROOT) for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
MODULES = [f for f in FILES if f.name != "__init__.py"]

# which of our packages each may import
MAY_IMPORT = {"app": {"app", "runner", "storage"}, "runner": {"runner", "storage"}, "storage": {"storage"}}
# the only package that may import each of these
ONLY_IN = {
    "streamlit": "app",
    "plotly": "app",
    "duckdb": "storage",
    "httpx": "runner",
    "aiohttp": "runner",
    "asyncio": "runner",
    "uvloop": "runner",
}
PURE = (
    "runner/calibration/design.py",
    "runner/calibration/fit.py",
    "runner/config.py",
    "runner/config_checks.py",
    "runner/config_errors.py",
    "runner/isolation_plan.py",
    "runner/plan.py",
    "runner/secret_names.py",
    "runner/web_address.py",
    "runner/imports/*.py",
    "runner/load/arrivals.py",
    "runner/load/event_rate.py",
    "runner/load/trace_file.py",
    "runner/load/words.py",
    "runner/load/workload.py",
    "runner/protocols/*.py",
    "runner/engines/catalogue.py",
    "runner/engines/identify.py",
    "runner/engines/knowledge.py",
    "runner/engines/metric_names.py",
    "runner/engines/metrics_text.py",
    "runner/engines/oddity.py",
    "runner/engines/start_line.py",
    "runner/engines/failure.py",
    "runner/engines/silence.py",
    "runner/estimate.py",
    "runner/search/*.py",
    "runner/simulator/answer.py",
    "runner/simulator/ask.py",
    "runner/simulator/capacity.py",
    "runner/simulator/core.py",
    "runner/simulator/cost_model.py",
    "runner/simulator/engine.py",
    "runner/simulator/engine_metrics.py",
    "runner/simulator/paged.py",
    "runner/simulator/prefix_cache.py",
    "runner/simulator/presets.py",
    "runner/simulator/schedulers/*.py",
    "runner/simulator/virtual_engine.py",
    "runner/simulator/virtual_time.py",
    "runner/simulator/settings.py",
    "runner/simulator/state.py",
    "runner/simulator/step_log.py",
    "runner/analysis/*.py",
    "app/said.py",
    "app/views/*.py",
    "app/export/*.py",
    "storage/records.py",
    "storage/tables.py",
)
# not pure by place, but exceptions only, or words handed in by the caller (who loads the catalogue)
HARMLESS = {"storage.errors", "runner.errors", "app.words"}
# may read files, but only those that are part of the package: constants kept in a file
PACKAGE_DATA = {Path("app/export/assets.py")}
IMPURE_MODULES = {
    "asyncio", "duckdb", "fcntl", "glob", "http", "httpx", "logging", "multiprocessing", "os", "platform", "psutil",
    "queue", "requests", "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "streamlit",
    "subprocess", "tempfile", "threading", "time", "urllib.request", "uuid", "uvloop",
}  # fmt: skip
IMPURE_CALLS = {"open", "input", "print", "breakpoint", "exec", "eval"}
IMPURE_METHODS = {
    "now", "utcnow", "today", "read_text", "write_text", "read_bytes", "write_bytes", "mkdir", "unlink", "touch",
    "iterdir", "rglob", "exists", "is_file", "is_dir", "getenv", "urandom",
}  # fmt: skip
SEEDED = {"random": {"Random"}, "np.random": {"Generator", "default_rng", "PCG64", "SeedSequence", "Philox"}}
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 100


@cache
def tree(path: Path) -> ast.Module:
    """The parsed source of a file given relative to the root."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


def dotted(path: Path) -> str:
    """runner/load/arrivals.py -> runner.load.arrivals."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imports(node: ast.AST) -> Iterator[str]:
    """Every module imported anywhere below `node`; `from a.b import c` gives a.b, and a.b.c where that is a module."""
    for n in ast.walk(node):
        if isinstance(n, ast.Import):
            yield from (a.name for a in n.names)
        elif isinstance(n, ast.ImportFrom) and n.level == 0 and n.module:
            submodules = [f"{n.module}.{a.name}" for a in n.names if source(f"{n.module}.{a.name}")]
            yield from submodules or [n.module]


def top_level_imports(path: Path) -> Iterator[str]:
    """Imports that run when the module is loaded: all but those inside functions and `if TYPE_CHECKING`."""
    stack: list[ast.stmt] = list(tree(path).body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            stack += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            stack += [child for child in ast.walk(node) if isinstance(child, ast.Import | ast.ImportFrom)]


def source(module: str) -> Path | None:
    """The file of one of our modules, or None."""
    path = Path(*module.split("."))
    found = [p for p in (path.with_suffix(".py"), path / "__init__.py") if (ROOT / p).is_file()]
    return found[0] if found and path.parts[0] in PACKAGES else None


def is_pure(path: Path) -> bool:
    return any(path.match(pattern) and len(path.parts) == pattern.count("/") + 1 for pattern in PURE)


def name_of(node: ast.AST) -> str:
    """`np.random.default_rng` of a call's function; an empty text for anything that is not a dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


by_file = pytest.mark.parametrize("path", MODULES, ids=str)
by_pure_file = pytest.mark.parametrize("path", [p for p in MODULES if is_pure(p)], ids=str)


@by_file
def test_imports_point_from_app_to_runner_to_storage(path: Path) -> None:
    """No package imports one above it; relative imports are not used."""
    allowed = MAY_IMPORT[path.parts[0]]
    ours = {m for m in imports(tree(path)) if m.split(".")[0] in PACKAGES}
    assert {m for m in ours if m.split(".")[0] not in allowed} == set()
    assert [n.lineno for n in ast.walk(tree(path)) if isinstance(n, ast.ImportFrom) and n.level] == []


@by_file
def test_each_library_stays_in_its_package(path: Path) -> None:
    """Streamlit and Plotly only in app, DuckDB only in storage, HTTP and asyncio only in runner."""
    roots = {m.split(".")[0] for m in imports(tree(path))}
    assert {r for r in roots if ONLY_IN.get(r, path.parts[0]) != path.parts[0]} == set()


@by_file
def test_what_is_imported_of_ours_exists(path: Path) -> None:
    """Every import of one of our modules has a file, also those inside functions that run rarely."""
    ours = {m for m in imports(tree(path)) if m.split(".")[0] in PACKAGES}
    assert {m for m in ours if source(m) is None and not (ROOT / Path(*m.split("."))).is_dir()} == set()


@by_pure_file
def test_pure_modules_import_only_pure_ones(path: Path) -> None:
    """Nothing with a clock, a socket, a file or global state stands behind a pure module."""
    names = set(imports(tree(path)))
    bad = {m for m in names if m in IMPURE_MODULES or m.split(".")[0] in IMPURE_MODULES}
    ours = {m: source(m) for m in names if m.split(".")[0] in PACKAGES and m not in HARMLESS}
    bad |= {m for m, file in ours.items() if file is None or not is_pure(file)}
    assert bad == set()


@by_pure_file
def test_pure_modules_touch_no_clock_file_or_global_randomness(path: Path) -> None:
    """No call reads the time, a file or an unseeded generator."""
    bad = []
    methods = IMPURE_METHODS - {"read_text", "read_bytes"} if path in PACKAGE_DATA else IMPURE_METHODS
    for call in (n for n in ast.walk(tree(path)) if isinstance(n, ast.Call)):
        name = name_of(call.func)
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        module, _, function = name.replace("numpy.", "np.").rpartition(".")
        unseeded = module in SEEDED and (function not in SEEDED[module] or not (call.args or call.keywords))
        bare = name in ("default_rng", "Random") and not (call.args or call.keywords)
        if name in IMPURE_CALLS or method in methods or unseeded or bare:
            bad.append(f"line {call.lineno}: {name or method}")
    assert bad == []


def test_pure_patterns_still_name_something() -> None:
    """A pattern whose files were moved away would silently check nothing."""
    assert [p for p in PURE if not list(ROOT.glob(p))] == []


def test_package_init_files_are_empty() -> None:
    """Nothing is re-exported, so that a name has one home."""
    assert [str(f) for f in FILES if f.name == "__init__.py" and (ROOT / f).read_text().strip()] == []


def test_every_package_folder_has_its_init_file() -> None:
    """A folder with modules is a package, or the built wheel would lack it."""
    folders = {f.parent for f in MODULES}
    assert {str(d) for d in folders if not (ROOT / d / "__init__.py").is_file()} == set()


def test_nothing_in_app_shadows_a_package() -> None:
    """Streamlit puts app/ first on the path: a file there named like a library would be imported in its place."""
    taken = set(sys.stdlib_module_names) | set(importlib.metadata.packages_distributions()) | set(PACKAGES)
    names = {p.stem for p in (ROOT / "app").iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
    assert names & taken - {"__init__"} == set()
    assert not (ROOT / "app" / "pages").exists()


@by_file
def test_files_and_functions_stay_small(path: Path) -> None:
    """A file over 400 lines or a function over 100 does more than one thing."""
    assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    functions = [n for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {n.name: n.end_lineno - n.lineno + 1 for n in functions if n.end_lineno}
    assert {name: lines for name, lines in long.items() if lines > MAX_FUNCTION_LINES} == {}


def test_inheritance_is_at_most_one_deep() -> None:
    """A class of ours may have a parent of ours, never a grandparent."""
    classes = [n for f in MODULES for n in ast.walk(tree(f)) if isinstance(n, ast.ClassDef)]
    names = {c.name for c in classes}
    with_parent = {c.name for c in classes if any(name_of(b).split(".")[-1] in names for b in c.bases)}
    assert [c.name for c in classes if any(name_of(b).split(".")[-1] in with_parent for b in c.bases)] == []


def test_the_command_starts_without_the_dashboard() -> None:
    """Loading app/cli.py, and all of ours it loads, imports neither Streamlit nor Plotly."""
    seen: set[Path] = set()
    todo = [Path("app/cli.py")]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        loaded = set(top_level_imports(path))
        heavy = {m for m in loaded if m.split(".")[0] in ("streamlit", "plotly")}
        assert heavy == set(), f"{path} is loaded by app/cli.py"
        todo += [file for file in map(source, loaded) if file]
    assert len(seen) > 1


def test_no_tracked_file_names_one_machine() -> None:
    """What is published holds no path of a developer's machine and no address of a package index."""
    words = [
        "/wo" + "rk/",
        "/tmp/" + "plan",
        "py" + "pi.org",
        "python" + "hosted.org",
        "npm" + "js.org",
        "arti" + "factory",
    ]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    bad = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""
        bad += [f"{name}: {word}" for word in words if word.encode() in content]
    assert bad == []
