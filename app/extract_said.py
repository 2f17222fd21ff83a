"""What runner and storage say, and the errors of app, as templates: taken from their source for `make words`.

An f-string is a template whose holes are named after what stands in them. Of runner and storage every string is taken
that reads like a sentence, in whatever way it gets to a person; of app what its errors are made with, since the rest of
app asks for its words itself.
"""

import ast
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

from app.said import HOLE, PART
from runner.engines.oddity import TEXTS as ODDITIES

ROOT = Path(__file__).resolve().parent.parent
# error class -> which of its arguments is the sentence
ERRORS = {
    "GoodputError": 0, "ConfigError": 0, "BusyError": 0, "SettingSkipped": 0, "StorageError": 0, "ImportFailed": 0,
    "PageError": 0, "Unreadable": 0, "SettingFailed": 1, "ExchangeError": 1,
}  # fmt: skip
# whose sentences no page shows (commands speak English, and the built-in engine as vLLM does), or which are translated
# as templates with their values beside them
SILENT = (
    "app/calibrate_command.py", "app/cli.py", "app/commands.py", "app/compare_command.py", "app/export_command.py",
    "app/import_command.py", "app/isolate_command.py", "app/named_server.py", "app/output_file.py", "app/security",
    "app/serve.py", "runner/__main__.py", "runner/analysis/bound.py", "runner/analysis/choice",
    "runner/analysis/compare_texts.py", "runner/analysis/isolation.py", "runner/analysis/isolation_texts.py",
    "runner/analysis/warnings.py", "runner/bench/", "runner/engines/catalogue.py", "runner/engines/oddity.py",
    "runner/search/ask.py", "runner/search/max_rates.py", "runner/search/report.py", "runner/simulator/__main__.py",
    "runner/simulator/answer.py", "runner/simulator/ask.py", "runner/simulator/command.py",
    "runner/simulator/http_connection.py", "runner/simulator/server.py",
)  # fmt: skip
NOT_SAID: dict[str, tuple[str, ...]] = {  # several words, but nobody reads them
    "runner/probe.py": ("Say hello in one short sentence.",),
    "runner/by_hand.py": ("or press Enter here",),  # in a terminal
    "runner/calibration/held_out.py": ("Held-out run of the calibration of {backend}",),  # the name of a sweep
    "runner/config_errors.py": ("(and {error} more)",),  # PARTS has the whole
    "runner/engines/check.py": ("goodput engine",),
    "runner/engines/knowledge.py": ('policy = "priority"',),
    "runner/engines/orphan.py": ("stop_command, for a runner that was killed",),  # in the server's log
    "runner/quick_check.py": ("quick check",),
    "runner/simulator/presets.py": ("estimate, scaled from {value}{source}",),  # see app.views.schedulers.basis
    "runner/simulator/settings.py": (
        "largest safe token budget for gaps of {usual_gap_ms} ms: {alone}, and {beside} beside {seats} answers of "
        "{usual_context_tokens} tokens",  # of the command that serves the built-in engine
    ),
    "runner/simulator/virtual_server.py": ("goodput engine", "virtual time"),
    "storage/plain_errors.py": ("No such file",),  # looked for, not said
    "storage/queries.py": ("cell, scheduled_ns, request",),
}
# how sentences are put together, and what stands in them: a hole `said` is a sentence itself
PARTS = (
    "{where}: {said}", "{said}; {more}", "{before}; {said}", "{said}: {what}",
    "{said}, not {value}", "{said} (and {n} more)",
    "{key_word} to {value_word}", "{key_word} to {value_word}, {more}", "{key_word} to {value_word} and {more}",
    "(process {pid_word})", "{name}, process {pid_word}", "process {pid_word}", "signal {number_word}",
    "{path_word} says {status_word}",
    "{missing_gb} GB of RAM", "{missing_gib} GiB of GPU {gpu}", "unexpected {kind}: {error}", "TLS failed: {reason}",
    "its probes were skipped",
)  # fmt: skip
# pydantic's words for a value, as runner.config_errors begins them
PYDANTIC = (
    "input should be greater than {gt}", "input should be greater than or equal to {ge}",
    "input should be less than {lt}", "input should be less than or equal to {le}", "input should be a finite number",
    "input should be a valid number", "input should be a valid number, unable to parse string as a number",
    "input should be a valid integer", "input should be a valid integer, unable to parse string as an integer",
    "input should be a valid integer, got a number with a fractional part", "input should be a valid string",
    "input should be a valid boolean", "input should be a list, such as {example}",
    "{name} is {value}; give a number", "string should match pattern '{pattern}'",
    "string should have at least {min_length} character", "string should have at least {min_length} characters",
    "string should have at most {max_length} characters", "input should be {expected}",
)  # fmt: skip
# the system's words, where a file or a server is not as it should be
SYSTEM = (
    "Permission denied", "No such file or directory", "Is a directory", "Not a directory", "No space left on device",
    "Read-only file system", "Connection refused", "Connection reset by peer", "Connection timed out", "Broken pipe",
    "No route to host", "Network is unreachable", "[Errno {number}] {said}",
    "[Errno {number}] Connect call failed {address}", "Name or service not known",
    "Temporary failure in name resolution", "Exec format error",
)  # fmt: skip
_NOT_LOOKED_INTO = {  # calls whose strings are for a terminal, are patterns, or are translated already
    "print", "add_argument", "ArgumentParser", "text", "plural",
    ".compile", ".search", ".match", ".fullmatch", ".sub", ".split", ".strftime", ".execute", ".startswith",
    ".endswith", ".removeprefix", ".removesuffix", ".partition", ".rpartition", ".replace", ".get",
}  # fmt: skip
# errors of ours among ourselves, but for those that say what is wrong in a sweep file
_INTERNAL = {"ValueError", "RuntimeError", "KeyError", "TypeError", "EOFError", "ArgumentTypeError"}
_VALIDATORS = ("runner/config.py", "runner/config_checks.py", "runner/search/budget_text.py")
_WORD = re.compile(r"(?<![\w/.$-])[A-Za-z][a-z']+(?![\w/=(\\-])")
_PATTERN = re.compile(r"^#|\w\[|\bSELECT\b|\||\\[a-z]|\(\?|\.\*|\n")  # no sentence has these


@cache
def spoken() -> dict[str, ast.Module]:
    """The files whose sentences a page may show, parsed, by name."""
    paths = sorted(path for folder in ("runner", "storage", "app") for path in (ROOT / folder).rglob("*.py"))
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    return {n: ast.parse((ROOT / n).read_text(encoding="utf-8")) for n in names if not n.startswith(SILENT)}


@cache
def said_templates() -> dict[str, set[str]]:
    """Every template, with the files that say it."""
    places: dict[str, set[str]] = {}
    for name, tree in spoken().items():
        for text in templates_in(tree, name):
            places.setdefault(text, set()).add(name)
    for name, texts in (
        ("runner/engines/oddity.py", [*ODDITIES.values()]),
        ("app/extract_said.py", [*PARTS, *PYDANTIC, *SYSTEM]),
    ):
        for text in texts:
            places.setdefault(text, set()).add(name)
    return places


def templates_in(tree: ast.Module, name: str) -> set[str]:
    """The templates of one file; its name decides what is looked at."""
    skipped = _NOT_LOOKED_INTO if name in _VALIDATORS else _NOT_LOOKED_INTO | _INTERNAL
    strings = _of_errors(tree) if name.startswith("app/") else _strings(tree, skipped)
    return {text for text in map(_template, strings) if text} - set(NOT_SAID.get(name, ()))


def error_arguments(tree: ast.AST) -> Iterator[ast.expr]:
    """The sentence of each error that is made in a source text."""
    for node in ast.walk(tree):
        at = ERRORS.get(_called(node).removeprefix(".")) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and at is not None and len(node.args) > at:
            yield node.args[at]


def _of_errors(tree: ast.AST) -> Iterator[ast.expr]:
    """Strings in the sentences of errors, and those behind the names that stand in them."""
    arguments = list(error_arguments(tree))
    names = {n.id for argument in arguments for n in ast.walk(argument) if isinstance(n, ast.Name)}
    for argument in arguments:
        yield from _strings(argument)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and names & {t.id for t in node.targets if isinstance(t, ast.Name)}:
            yield from _strings(node.value)


def _strings(node: ast.AST, skipped: AbstractSet[str] = frozenset(_NOT_LOOKED_INTO)) -> Iterator[ast.expr]:
    """Literal strings and f-strings below a node: no docstrings, keys, comparisons, or arguments of certain calls."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield node
    if isinstance(node, ast.JoinedStr):
        children: list[ast.AST] = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    elif isinstance(node, ast.Call):
        passed_by = _called(node) in skipped or _called(node).removeprefix(".") in ("text", "plural")
        children = [node.func, *(() if passed_by else [*node.args, *node.keywords])]
    elif isinstance(node, ast.Dict):
        children = list(node.values)
    elif isinstance(node, ast.Compare) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        children = []
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from _strings(child, skipped)


def _called(call: ast.Call) -> str:
    """`print` of a name, `.split` of an attribute."""
    target = call.func
    return f".{target.attr}" if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


def _template(node: ast.expr) -> str | None:
    """The string as a template, without what joins it to others; None for what is no sentence."""
    if isinstance(node, ast.Constant):
        text = str(node.value)
        if HOLE.search(text):  # of a dictionary of templates, which are translated as such
            return None
    else:
        assert isinstance(node, ast.JoinedStr)
        names: dict[str, str] = {}
        holes = any(isinstance(part, ast.FormattedValue) for part in node.values)
        text = "".join(_part(part, names, escaped=holes) for part in node.values)
    text = text.strip().removeprefix("; ").removeprefix(": ").removeprefix(", ")
    return text if is_sentence(text) else None


def is_sentence(text: str) -> bool:
    """Two words or more beside the holes, not all of them names, and nothing of a pattern or a comment in TOML."""
    words = _WORD.findall(HOLE.sub(" ", text))
    return " " in text and len(words) >= 2 and any(word[0].islower() for word in words) and not _PATTERN.search(text)


def _part(part: ast.expr, names: dict[str, str], *, escaped: bool) -> str:
    """A piece of an f-string: its text, or `{name}`; the same expression has the same name, others differ."""
    if isinstance(part, ast.Constant):
        text = str(part.value)
        return text.replace("{", "{{").replace("}", "}}") if escaped else text
    assert isinstance(part, ast.FormattedValue)
    whole, name = ast.unparse(part.value), _name(part.value)
    if whole not in names:
        taken = sum(known.partition("__")[0] == name for known in names.values())
        names[whole] = f"{name}__{taken + 1}" if taken else name
    return f"{{{names[whole]}}}"


def _name(node: ast.AST) -> str:
    """What a hole is called."""
    found = "value"
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            found = "kind" if name == "__name__" else name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            found = name
        case ast.Subscript(value=inner) | ast.Await(value=inner) | ast.BinOp(left=inner) | ast.IfExp(body=inner):
            return _name(inner)
        case ast.BoolOp(values=[inner, *_]) | ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner):
            return _name(inner)
        case ast.Call(func=ast.Attribute(attr="join"), args=[inner]) | ast.Call(func=ast.Name(), args=[inner, *_]):
            return _name(inner)
        case ast.Call(func=ast.Attribute(value=inner)):
            return _name(inner)
    plain = re.sub(r"\W", "", found).strip("_").lower()
    return "told" if plain == PART or not plain[:1].isalpha() else plain
