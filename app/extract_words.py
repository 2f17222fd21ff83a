"""Writes app/locale/goodput.pot, the template translators start from, and renews the catalogues: `make words`.

Collects the literal first argument of `words.text("…")`, `_("…")`, `words.plural("…", "…")` and `ngettext("…", "…")`,
and what is said elsewhere (app.extract_said), which also goes into app/locale/said.txt: by that it is known again.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from app.extract_said import said_templates
from app.presets import WORKLOADS
from runner.analysis.bound import TEXTS as BOUNDS
from runner.analysis.choice import NO_CHOICE, WHY
from runner.analysis.choice_notes import NOTES as BESIDE_CHOICE
from runner.analysis.compare_texts import NOTES as BESIDE_COMPARISON
from runner.analysis.compare_texts import TEXTS as COMPARISONS
from runner.analysis.isolation_texts import TEXTS as ISOLATION
from runner.analysis.isolation_texts import WHY_NOT
from runner.analysis.warnings import TEXTS
from runner.engines.catalogue import KINDS
from runner.engines.oddity import TEXTS as ODDITIES
from runner.search.max_rates import OURS
from runner.search.max_rates import TEXTS as RATES
from runner.search.report import TEXTS as BUDGETS

APP = Path(__file__).resolve().parent
TEMPLATE = APP / "locale" / "goodput.pot"
SAID = APP / "locale" / "said.txt"
SINGULAR = {"text", "_"}
PLURAL = {"plural", "ngettext"}
HEADER = """# Goodput Lab: source sentences. Copy to <lang>/LC_MESSAGES/goodput.po; make words compiles it.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"""


def _called_name(call: ast.Call) -> str:
    target = call.func
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


def _literals(call: ast.Call, wanted: int) -> tuple[str, ...] | None:
    values = [a.value for a in call.args[:wanted] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return tuple(values) if len(values) == wanted else None


def sentences(source: str) -> Iterator[tuple[str, ...]]:
    """(message,) or (one, many) for each call in a Python source text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            wanted = 1 if _called_name(node) in SINGULAR else 2 if _called_name(node) in PLURAL else 0
            found = _literals(node, wanted) if wanted else None
            if found and found[0]:
                yield found


def _quote(message: str) -> str:
    escaped = message.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def render(app: Path = APP) -> str:
    """The template's text: every sentence once, sorted, with the files that use it."""
    places: dict[tuple[str, ...], set[str]] = {}
    for path in sorted(app.rglob("*.py")):
        for found in sentences(path.read_text(encoding="utf-8")):
            places.setdefault(found, set()).add(path.relative_to(app.parent).as_posix())
    for template in (t for pair in TEXTS.values() for t in pair):  # warnings carry their templates as data
        places.setdefault((template,), set()).add("runner/analysis/warnings.py")
    for part in BOUNDS.values():
        places.setdefault((part,) if isinstance(part, str) else part, set()).add("runner/analysis/bound.py")
    for template in ODDITIES.values():
        places.setdefault((template,), set()).add("runner/engines/oddity.py")
    for sentence in (s for kind in KINDS.values() for s in (kind.metrics_hint, kind.cannot_know) if s):
        places.setdefault((sentence,), set()).add("runner/engines/catalogue.py")
    for workload in WORKLOADS.values():
        places.setdefault((workload.source,), set()).add("app/presets.py")
    for file, texts in (
        ("analysis/choice", [*NO_CHOICE.values(), *WHY.values()]),
        ("analysis/choice_notes", [*BESIDE_CHOICE.values()]),
        ("analysis/compare_texts", [*COMPARISONS.values(), *BESIDE_COMPARISON.values()]),
        ("analysis/isolation_texts", [text for text in (*ISOLATION.values(), *WHY_NOT.values()) if text]),
        ("search/max_rates", [*RATES.values(), OURS.strip()]),
        ("search/report", [*BUDGETS.values()]),
    ):
        for sentence in texts:
            places.setdefault((sentence,), set()).add(f"runner/{file}.py")
    for template, said_by in said_templates().items():
        places.setdefault((template,), set()).update(said_by)
    blocks = [HEADER]
    for message, files in sorted(places.items()):
        lines = [f"#: {' '.join(sorted(files))}", f"msgid {_quote(message[0])}"]
        if len(message) == 2:
            lines += [f"msgid_plural {_quote(message[1])}", 'msgstr[0] ""', 'msgstr[1] ""']
        else:
            lines.append('msgstr ""')
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def renew(folder: Path) -> None:
    """A catalogue's text and its compiled form after the template: new sentences empty, dead ones gone.

    Not by `pybabel compile`: it takes "95 % interval" for a C format and refuses the file.
    """
    from babel.messages.mofile import write_mo  # of the tools for development
    from babel.messages.pofile import read_po, write_po

    text, compiled = folder / "goodput.po", folder / "goodput.mo"
    with text.open("rb") as file:
        catalogue = read_po(file, locale=folder.parent.name)
    with TEMPLATE.open("rb") as file:
        catalogue.update(read_po(file), no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    for message in catalogue:
        message.flags.discard("python-format")
    with text.open("wb") as file:
        write_po(file, catalogue, width=120, sort_output=True, include_lineno=False)
    with compiled.open("wb") as file:
        write_mo(file, catalogue)


if __name__ == "__main__":
    TEMPLATE.write_text(render(), encoding="utf-8")
    SAID.write_text("".join(f"{template}\n" for template in sorted(said_templates())), encoding="utf-8")
    for place in sorted(TEMPLATE.parent.glob("*/LC_MESSAGES")):
        renew(place)
