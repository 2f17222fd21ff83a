"""Which tool wrote these files, told by their keys and never by their names, and what they say. PURE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runner.imports import aiperf, genai_bench, guidellm, llmperf, serving
from runner.imports.model import ImportFailed, ToolFile
from runner.imports.reading import items, parse_json, shown

FORMATS = (
    "a page or JSON export of Goodput Lab, or a result of vllm bench serve, a vLLM sweep folder, SGLang bench_serving, "
    "guidellm, aiperf, genai-bench or llmperf"
)


@dataclass
class _Found:
    """What lay in the files, by tool; aiperf and llmperf by folder, since a run there is two files."""

    serving: list[Mapping[str, Any]] = field(default_factory=list)
    guidellm: list[Mapping[str, Any]] = field(default_factory=list)
    genai_bench: list[Mapping[str, Any]] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    aiperf: dict[str, tuple[list[Any], list[Any]]] = field(default_factory=dict)
    llmperf: dict[str, tuple[list[Any], list[Any]]] = field(default_factory=dict)


def read_files(files: Sequence[tuple[str, bytes]]) -> list[ToolFile]:
    """The imports that (name, content) pairs make: one a tool, and one a report of guidellm.

    Raises ImportFailed: a file of no known kind, damaged, or too large.
    """
    found = _Found()
    for name, content in files:
        _sort(found, name, parse_json(name, content))
    return _imports(found)


def _sort(found: _Found, name: str, value: Any) -> None:  # noqa: ANN401  (any JSON value)
    folder = name.replace("\\", "/").rpartition("/")[0]
    rows = value if isinstance(value, list) else [value]
    if rows and all(serving.is_serving(r) or serving.is_failure(r) for r in rows):
        found.serving += rows
    elif guidellm.is_guidellm(value):
        found.guidellm.append(rows[0])
    elif genai_bench.is_genai_bench(value):
        found.genai_bench.append(rows[0])
    elif genai_bench.is_metadata(value):
        found.metadata = rows[0]
    elif aiperf.is_aiperf(value):
        found.aiperf.setdefault(folder, ([], []))[0].append(value)
    elif aiperf.is_records(value):
        found.aiperf.setdefault(folder, ([], []))[1].extend(rows)
    elif llmperf.is_summary(value):
        found.llmperf.setdefault(folder, ([], []))[0].append(value)
    elif llmperf.is_responses(value):
        found.llmperf.setdefault(folder, ([], []))[1].extend(items(value))
    else:
        raise ImportFailed(f"{shown(name)} is not a result that is known here; give {FORMATS}")


def _imports(found: _Found) -> list[ToolFile]:
    out = [serving.read_serving(found.serving)] if found.serving else []
    out += [guidellm.read_guidellm(one) for one in found.guidellm]
    if found.genai_bench:
        out.append(genai_bench.read_genai_bench(found.genai_bench, found.metadata))
    elif found.metadata:
        raise ImportFailed("experiment_metadata.json alone holds no results; give the files beside it as well")
    out += _joined([aiperf.read_aiperf(s, r) for pair in found.aiperf.values() for s, r in _pairs(*pair)])
    out += _joined([llmperf.read_llmperf(s, r) for pair in found.llmperf.values() for s, r in _pairs(*pair)])
    return out


def _pairs(summaries: list[Any], requests: list[Any]) -> list[tuple[Mapping[str, Any], list[Any]]]:
    """A summary and its requests belong together only where there is one summary in the folder."""
    if len(summaries) == 1:
        return [(summaries[0], requests)]
    return [(s, []) for s in summaries] or [({}, requests)]


def _joined(found: Sequence[ToolFile]) -> list[ToolFile]:
    """Runs of one tool that came together are one import."""
    if not found:
        return []
    runs = serving.numbered([run for one in found for run in one.runs])
    return [replace(found[0], runs=tuple(runs))]
