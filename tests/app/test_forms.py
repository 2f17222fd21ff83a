"""The new-sweep form without a page: rows to a config, its size, and what is odd about it."""

import math
import tomllib
from typing import Any

import pytest

from app import forms
from app.presets import TARGETS, WORKLOADS, recorded, with_targets, workload_words
from app.what_if import to_toml
from app.words import ENGLISH
from runner.config import SweepConfig, parse_sweep
from runner.engines.knowledge import longest_tokens
from runner.errors import ConfigError
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import DEFAULT_PRESET, EngineProfile, resolve_preset
from runner.simulator.state import Knobs

SIMULATED = {"kind": "simulated", "preset": DEFAULT_PRESET}


def first_grid(workload: str) -> list[dict[str, str]]:
    """What the form begins with for the built-in engine."""
    return forms.first_grid(WORKLOADS[workload].load, ["max_num_seqs", "max_num_batched_tokens"])


def config_of(
    workload: str = "chat",
    grid: list[dict[str, str]] | None = None,
    backend: dict[str, Any] | None = None,
    **run: object,
) -> SweepConfig:
    raw = forms.sweep_data(
        "a sweep", backend or SIMULATED, grid or first_grid(workload), forms.WORKLOADS[workload], run
    )
    return parse_sweep(raw, "form")


def test_values_are_read_as_they_are_meant() -> None:
    """Whole numbers stay whole, halves are numbers, words are words."""
    assert forms.parse_values(" 4, 0.5 ,vllm_v1,, true") == [4, 0.5, "vllm_v1", True]


@pytest.mark.parametrize("workload", forms.WORKLOADS)
def test_every_workload_preset_is_a_valid_sweep(workload: str) -> None:
    """Each has words, a source of its numbers, and a load that its classes can be varied by."""
    assert config_of(workload).classes
    assert all(workload_words(ENGLISH)[workload])
    assert WORKLOADS[workload].source


def test_chat_documents_and_background_have_the_usual_targets() -> None:
    """Chat 1 s / 150 ms, documents 3 s / 150 ms, background without a promise (metrics page, defaults)."""
    targets = {c.name: c.slo and (c.slo.ttft_ms, c.slo.gap_ms) for c in config_of("mixed").classes}
    assert targets == {"chat": (1000, 150), "rag": (3000, 150), "background": None}


def test_published_targets_go_to_classes_with_a_promise() -> None:
    """MLPerf's and DistServe's numbers, in ms; of Sarathi the gap alone; background work gets none."""
    rows = WORKLOADS["mixed"].rows
    assert [(r.get("ttft_ms"), r.get("gap_ms")) for r in with_targets(rows, "mlperf_8b_interactive")] == [
        (500, 30), (500, 30), (None, None)
    ]  # fmt: skip
    assert [(r.get("ttft_ms"), r.get("gap_ms")) for r in with_targets(rows, "sarathi_7b_strict")] == [
        (1000, 100), (3000, 100), (None, None)
    ]  # fmt: skip
    assert TARGETS["distserve_summary"][1:] == (15000, 150)


def test_every_way_of_coming_is_read_from_the_table() -> None:
    """A rate, people who pause, all at once after a while, a kept trace: each as a sweep file says it."""
    lengths = {"prompt_p50": 10, "output_p50": 10}
    rows = [
        {"name": "own", "rate": 0.5, **lengths},
        {"name": "people", "closed": 4.0, "think_s": 10.0, **lengths},
        {"name": "heap", "dump": 240.0, "dump_at_s": 5.0, **lengths},
        {"name": "log", "trace": "log-01234567.csv", **lengths},
    ]
    raw = forms.sweep_data("a", SIMULATED, [{"key": "load_scale", "values": "1"}], rows, {}, ["log-01234567.csv"])
    assert [{k: c[k] for k in ("rate", "closed", "dump", "trace") if k in c} for c in raw["classes"]] == [
        {"rate": 0.5},
        {"closed": {"concurrency": 4, "think_s": 10.0}},
        {"dump": {"count": 240, "at_s": 5.0}},
        {"trace": "log-01234567.csv"},
    ]
    assert len(parse_sweep(raw, "form").classes) == 4


def test_a_recorded_trace_is_a_workload_and_no_other_file_is_read() -> None:
    """A name that is not among the kept traces, such as a path from a browser, is refused."""
    found = recorded("log-01234567.csv", 300, 100)
    grid = forms.first_grid(found.load)
    raw = forms.sweep_data("a", SIMULATED, grid, found.rows, {}, ["log-01234567.csv"])
    assert parse_sweep(raw, "form").classes[0].trace == "log-01234567.csv"
    with pytest.raises(ConfigError, match="is not a trace that was kept here"):
        forms.sweep_data("a", SIMULATED, grid, [{**found.rows[0], "trace": "../../etc/passwd"}], {}, ["x"])


def test_empty_fields_of_the_table_are_left_out() -> None:
    """None, NaN and empty texts say nothing; a length without p90 is fixed; a row without a name is no class."""
    row = {"name": "jobs", "weight": math.nan, "closed": 3.0, "prompt_p50": 64.0, "output_p50": 8, "ttft_ms": None}
    raw = forms.sweep_data(
        "a", {"kind": "openai", "model": ""}, [{"key": None, "values": "1"}], [row, {"name": ""}], {}
    )
    assert raw["classes"] == [
        {
            "name": "jobs",
            "priority": 0,
            "prompt_tokens": {"fixed": 64},
            "output_tokens": {"fixed": 8},
            "closed": {"concurrency": 3},
        }
    ]
    assert (raw["backend"], raw["grid"]) == ({"kind": "openai"}, {})


def test_size_counts_cells_starts_and_time() -> None:
    """18 cells of 60 s + 15 s warm-up + 2 s drain + 1 s idle, and 6 starts of 1 s (3 limits x 2 budgets)."""
    assert forms.size_of(config_of(duration_s=60)) == forms.Size(18, 6, 18 * 78 + 6)


def test_an_absurd_grid_is_counted_and_not_listed() -> None:
    """A typo that asks for a million cells answers at once."""
    values = ", ".join(map(str, range(1, 1001)))
    grid = [{"key": key, "values": values} for key in ("max_num_seqs", "request_rate")]
    assert (forms.size_of(config_of(grid=grid)).cells, forms.size_of(config_of(grid=grid)).starts) == (1_000_000, None)


def test_safe_budget_leaves_time_for_the_gap() -> None:
    """An iteration with the budget keeps the gap target, one with a token more does not: a + b*P + c*B + d*K."""
    config = config_of(grid=[{"key": "max_num_seqs", "values": "16"}, {"key": "request_rate", "values": "1"}])
    (budget,) = forms.safe_budgets(config).values()
    cost = resolve_preset(DEFAULT_PRESET).cost
    base = cost.a + cost.c * 16 + cost.d * 16 * (300 + 160 / 2)
    assert base + cost.b * budget <= 150 < base + cost.b * (budget + 1)


def test_the_safe_budget_is_that_of_the_classes_as_they_were_edited() -> None:
    """A wider gap target lets more in, longer answers to read leave less; the tightest target of all classes counts."""
    grid = [{"key": "max_num_seqs", "values": "16"}, {"key": "request_rate", "values": "1"}]
    cost = resolve_preset(DEFAULT_PRESET).cost

    def safe(*rows: dict[str, Any]) -> int:
        raw = forms.sweep_data("a sweep", SIMULATED, grid, rows, {})
        return forms.safe_budgets(parse_sweep(raw, "form"))[16]

    chat = {"name": "chat", "weight": 1, "ttft_ms": 1000, "gap_ms": 100, "prompt_p50": 1000, "output_p50": 200}
    left_ms = 100 - cost.a - cost.c * 16 - cost.d * 16 * (1000 + 200 / 2)
    assert safe(chat) == math.floor(left_ms / cost.b)
    assert safe({**chat, "gap_ms": 200}) == math.floor((left_ms + 100) / cost.b)
    assert safe({**chat, "prompt_p50": 3000}) < safe(chat)
    assert safe({**chat, "gap_ms": 200}, {**chat, "name": "voice", "weight": 1}) == safe(chat)


def test_a_safe_budget_needs_a_speed_and_a_number_of_answers() -> None:
    """Of a cost by hand or a calibrated server as of a preset; as many answers as are varied, set or asked for."""
    rows = [{"name": "chat", "weight": 1, "ttft_ms": 1000, "gap_ms": 100, "prompt_p50": 100, "output_p50": 10}]
    users = [{**{k: v for k, v in rows[0].items() if k != "weight"}, "closed": 1}]
    rate, server = [{"key": "request_rate", "values": "1"}], {"kind": "vllm", "url": "http://127.0.0.1:8000"}
    at_once = [{"key": "max_concurrency", "values": "2, 8"}]
    by_hand = {"kind": "simulated", "cost": {"a": 20.0, "b": 0.5}, "max_num_seqs": 4}

    def safe(
        backend: dict[str, Any],
        grid: list[dict[str, str]],
        classes: list[dict[str, Any]],
        speed: EngineProfile | None = None,
    ) -> dict[int, int]:
        raw = forms.sweep_data("a sweep", backend, grid, classes, {})
        return forms.safe_budgets(parse_sweep(raw, "form"), speed)

    assert safe(by_hand, rate, rows) == {4: 160}  # (100 ms - 20 ms) / 0.5 ms
    measured = EngineProfile(CostModel(20.0, 0.5, c=1.0), 10_000, False, "profile nas.toml")
    assert safe(server, at_once, users, measured) == {2: 156, 8: 144}
    assert safe(server, at_once, users) == {}
    assert safe(server, rate, rows, measured) == {}
    assert safe({**by_hand, "cost": {"a": 20.0, "b": 0.0}}, rate, rows) == {}
    assert list(safe(SIMULATED, rate, rows)) == [Knobs().max_num_seqs]


def test_oddities_name_what_is_probably_not_meant() -> None:
    """Too few requests, a request that does not fit, budgets that freeze, no load to vary: a sentence each."""
    grid = [{"key": "max_num_batched_tokens", "values": "8192"}, {"key": "max_num_seqs", "values": "8"}]
    rate = [{"key": "request_rate", "values": "0.1"}]
    told = forms.oddities(config_of("rag", [*grid, *rate], {**SIMULATED, "kv_tokens": 4096}, duration_s=10), ENGLISH)
    assert [s.split(" ")[0] for s in told] == ["At", "The", "Every", "Warm-up"]
    assert "about 1 requests of class rag; a share needs 36" in told[0]
    assert "(8,800 tokens) does not fit the KV cache of 4,096 tokens" in told[1]


def test_a_long_sweep_of_the_defaults_has_no_oddity() -> None:
    """Nothing is said where nothing is odd."""
    assert forms.oddities(config_of(duration_s=600), ENGLISH) == []


def test_presets_are_offered_in_three_steps() -> None:
    """Machines, models that fit it, quantizations that fit both; the default preset is what is picked first."""
    devices = forms.preset_parts()
    models = forms.preset_parts("rtx3090")
    assert devices[forms.usual(devices)] == "rtx3090"
    assert models[forms.usual(models)] == "llama-3.1-8b"
    assert "llama-3.1-70b" not in models
    assert "q4_k_m" in forms.preset_parts("rtx3090", "llama-3.1-8b")


def test_settings_of_a_running_server_are_changed_by_hand() -> None:
    """A grid with settings asks the person; a grid of the load alone leaves the server as it is."""
    server = {"kind": "ollama", "url": "http://127.0.0.1:11434"}
    load = [{"key": "request_rate", "values": "1"}]
    settings = [*load, {"key": "max_num_seqs", "values": "1, 4"}]
    assert config_of(grid=load, backend=server).control.mode == "none"
    assert config_of(grid=settings, backend=server).control.mode == "manual"
    assert config_of(grid=settings).control.mode == "none"


def test_what_the_server_makes_of_settings_is_odd_too() -> None:
    """The sentence of the knowledge base stands among the form's own."""
    server = {"kind": "ollama", "url": "http://127.0.0.1:11434"}
    grid = [{"key": "request_rate", "values": "1"}, {"key": "max_num_queued_reqs", "values": "8"}]
    found = forms.oddities(config_of(grid=grid, backend=server, duration_s=300), ENGLISH)
    assert any("OLLAMA_MAX_QUEUE" in sentence for sentence in found)


@pytest.mark.parametrize("workload", forms.WORKLOADS)
def test_the_form_can_be_saved_as_a_sweep_file(workload: str) -> None:
    """What `goodput run` reads from it is what the page would start, also of a saved backend and of one set by hand."""
    server = {"kind": "vllm", "url": "http://10.0.0.2:8000", "model": 'a "b" \\ c'}
    settings = [{"key": "max_num_seqs", "values": "4, 16"}, *forms.first_grid(WORKLOADS[workload].load)]
    for backend in (SIMULATED, server, "nas"):
        raw = forms.sweep_data("a sweep", backend, settings, forms.WORKLOADS[workload], {"duration_s": 60})
        saved = {"nas": {"kind": "simulated"}}
        assert parse_sweep(tomllib.loads(to_toml(raw)), "file", saved) == parse_sweep(raw, "form", saved)


def test_a_request_that_the_running_server_has_no_room_for_is_odd() -> None:
    """What the connection check found of a llama.cpp slot: as long as that is said, and one token longer."""
    server = {"kind": "llama_cpp", "url": "http://127.0.0.1:8080"}
    config = config_of(grid=[{"key": "request_rate", "values": "1"}], backend=server, duration_s=300)
    longest = max(longest_tokens(c.prompt_tokens) + longest_tokens(c.output_tokens) for c in config.classes)
    assert not [s for s in forms.oddities(config, ENGLISH, longest) if "does not fit" in s]
    (said,) = [s for s in forms.oddities(config, ENGLISH, longest - 1) if "does not fit" in s]
    assert f"does not fit the {ENGLISH.count(longest - 1)} tokens that this server has for one request" in said
