"""The what-if page and its form: from the defaults to an answer, and what it says about what can't be done."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import ui, what_if
from app.words import ENGLISH
from runner.config import Length, RequestClass, parse_sweep
from runner.simulator.capacity import capacity_per_s
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile, resolve_preset
from runner.simulator.schedulers.by_name import SCHEDULERS
from storage.json_files import read_json
from storage.side_files import list_sweeps
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import MAIN, data_dir, fine, started
from tests.support.tables import make_config, make_request, make_tables

__all__ = ["data_dir", "started"]  # fixtures
pytestmark = pytest.mark.usefixtures("started")
PROFILE = "kv_tokens = 40000\n[cost]\na = 10.0\nb = 0.2\nc = 0.1\n"


def opened(*, few: bool = True, **state: object) -> AppTest:
    """The page, with two schedulers and few requests unless all shall be there."""
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.run()
    if few:
        state = {"schedulers": ["vllm_v0", "vllm_v1"], "requests": 100, **state}
    for key, value in state.items():
        at.session_state[key] = value
    return fine(at.switch_page(ui.WHAT_IF).run())


def said(at: AppTest) -> str:
    """Everything the page says, as a reader sees it."""
    texts = (str(x.value) for kind in ("markdown", "caption", "error", "warning", "info") for x in at.get(kind))
    return "\n".join(texts).replace("\\", "").replace("\u2060", "").replace("\u00a0", " ")


def headline(at: AppTest) -> str:
    """The sentence that says who wins."""
    return next(line for line in said(at).splitlines() if "wins:" in line or "None keeps" in line)


def charts(at: AppTest) -> int:
    return len(at.get("plotly_chart"))


def test_the_page_answers_as_it_opens(data_dir: Path) -> None:
    """Defaults give a winner, the raw winner as what not to pick, a table and four figures, with no button pressed."""
    at = opened(few=False)
    assert headline(at).startswith("### vllm_v1 wins: at ")
    assert "do not pick" in said(at).lower()
    assert "Largest safe token budget for gaps of 150 ms" in said(at)
    assert "Estimate, nothing was measured on such a machine" in said(at)
    assert "The worst freeze of vllm_v0: request" in said(at)
    assert list(at.dataframe[0].value["scheduler"]) == ["static", "orca", "vllm_v0", "vllm_v1", "sarathi"]
    assert charts(at) == 4


def test_a_target_moves_the_answer_without_a_new_calculation(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap target that no chunk keeps turns the winner into nobody; the cells are the ones that were there."""
    at = opened()
    before = headline(at)
    again: list[object] = []
    monkeypatch.setattr("app.cache.in_memory", again.append)
    at.select_slider(key="gap-chat-what-if-chat").set_value(10.0)
    fine(at.run())
    assert headline(at) != before
    assert "None keeps 90 % for sure" in headline(at)
    assert again == []


def test_a_profile_of_the_data_folder_can_be_chosen_and_a_bad_one_says_a_sentence(data_dir: Path) -> None:
    """Its speed is no estimate; a file without a cost model names itself and the mend."""
    (data_dir / "profiles").mkdir()
    (data_dir / "profiles" / "mine.toml").write_text(PROFILE)
    (data_dir / "broken.toml").write_text("kv_tokens = 40000\n")
    at = opened(speed="profiles/mine.toml")
    assert "Speed from: profile mine.toml." in said(at)
    at.selectbox(key="speed").set_value("broken.toml")
    fine(at.run())
    assert "broken.toml: the table [cost] is missing" in said(at)
    assert charts(at) == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schedulers": []}, "Pick a scheduler above"),
        ({"rates-chat-RTX 3090, llama-3.1-8b q4_k_m-32": "fast"}, "grid.request_rate needs numbers above 0"),
        ({"rates-chat-RTX 3090, llama-3.1-8b q4_k_m-32": ""}, "grid.request_rate is an empty list"),
        ({"rates-chat-RTX 3090, llama-3.1-8b q4_k_m-32": "0.1, 900"}, "more than this page calculates at once"),
    ],
)
def test_what_can_not_be_calculated_is_said_in_a_sentence(
    data_dir: Path, change: dict[str, Any], sentence: str
) -> None:
    """Nothing is drawn then, and nothing was calculated."""
    at = opened(**change)
    assert sentence in said(at)
    assert charts(at) == 0


def test_a_prompt_that_fits_nowhere_is_told_from_a_slow_machine(data_dir: Path) -> None:
    """The reason of the analysis, and what does not fit."""
    (data_dir / "tiny.toml").write_text(PROFILE.replace("40000", "2000"))
    at = opened(speed="tiny.toml")
    assert "The longest request of class chat (5,000 tokens) does not fit" in said(at)
    assert "no scheduler could run this load" in said(at)


def test_the_classes_of_an_earlier_sweep_can_be_replayed(data_dir: Path) -> None:
    """Its own targets stand beside the picture."""
    chat = {
        "name": "helpdesk", "rate": 2.0, "prompt_tokens": 50, "output_tokens": 20,
        "slo": {"ttft_ms": 700, "gap_ms": 90},
    }  # fmt: skip
    config = make_config(classes=[chat], grid={"max_num_seqs": [4, 8]})
    requests = [make_request(cell=0, class_name="helpdesk")]
    finished_sweep(data_dir, make_tables(requests=requests, config=config), "earlier")
    at = opened(load="earlier")
    assert at.select_slider(key="ttft-helpdesk-what-if-earlier").value == 700.0
    assert charts(at) == 4


def test_it_becomes_an_ordinary_sweep_in_virtual_time(data_dir: Path) -> None:
    """The button queues what is on the page, marked as simulated, with the profile beside it, and leads to Live."""
    (data_dir / "mine.toml").write_text(PROFILE)
    at = opened(speed="mine.toml")
    at.button(key="sweep").click()
    fine(at.run())
    (sweep,) = list_sweeps(data_dir)
    kept = read_json(sweep.folder / "sweep.json")
    assert kept is not None
    assert (kept["simulated"], kept["source"], kept["profile"]["kv_tokens"]) == (True, "what-if", 40000)
    assert kept["config"]["grid"]["scheduler"] == ["vllm_v0", "vllm_v1"]
    assert at.query_params["sweep"] in (sweep.sweep_id, [sweep.sweep_id])


@pytest.mark.parametrize("workload", ["chat", "rag", "mixed"])
def test_the_saved_file_is_the_sweep_of_the_page(workload: str) -> None:
    """Read back, the TOML gives the same config; every scheduler can run it."""
    tables = what_if.workload_tables(workload)
    raw = what_if.sweep_raw(
        'a "name" \\ ü', {"preset": "p40/qwen2.5-7b/q8_0"}, tables, list(SCHEDULERS), "0.2, 1", 30.0, (8, 256), 90_000
    )
    again = tomllib.loads(what_if.to_toml(raw, what_if.how_to_run({"profile": "x.toml"}, ENGLISH)))
    assert again == raw
    assert parse_sweep(again, "file") == parse_sweep(raw, "page")
    assert parse_sweep(again, "file").backend.max_model_len == {"chat": 5000, "rag": 8800, "mixed": 8800}[workload]


def test_rates_follow_the_machine() -> None:
    """A hand calculation: 100 tokens in, 50 out, 10 at once; 10 + 100 ms for a prompt, 1 ms a token and answer."""
    classes = [RequestClass(name="x", weight=1, prompt_tokens=Length(fixed=100), output_tokens=Length(fixed=50))]
    profile = EngineProfile(CostModel(a=10, b=1), 100_000, False, "")
    capacity = capacity_per_s(profile, classes, 10)
    assert capacity == pytest.approx(1000 / (110 + 50 * 1))
    assert what_if.usual_loads("request_rate", capacity, 10) == "1.6, 3.1, 5.6"
    assert what_if.usual_loads("max_concurrency", capacity, 10) == "2, 5, 9"
    assert what_if.duration_s("request_rate", "1.6, 4, 5", capacity, 200) == 50.0
    assert what_if.duration_s("request_rate", "0.001", capacity, 1000) == 4 * 3600
    few = replace(profile, kv_tokens=160)  # one answer at a time
    assert capacity_per_s(few, classes, 10) == pytest.approx(1000 / (110 + 50 * 10))


def test_the_size_of_a_comparison_counts_all_that_is_asked_for() -> None:
    """By hand, two schedulers, 100 + 25 s of warm-up: rates, a dump of 30 and a loop, 50 tokens each.

    One worker alone is answered in 110 ms for its prompt and 50 * 10 for the rest; thinking for 10 s it asks for 0.1/s.
    """
    base = {"prompt_tokens": 100, "output_tokens": 50}
    profile = EngineProfile(CostModel(a=10, b=1), 100_000, False, "")

    def tokens(axis: str, loads: str, *classes: dict[str, Any]) -> tuple[int, float]:
        tables = [{"name": f"c{i}", **base, **c} for i, c in enumerate(classes)]
        raw = what_if.sweep_raw("x", {"preset": "p"}, tables, ["orca", "static"], loads, 100.0, (8, 256), 90_000)
        assert axis in raw["grid"]
        return what_if.size_of(parse_sweep(raw, "x"), profile)

    chat, loop = {"weight": 1.0}, {"closed": {"concurrency": 1}}
    assert tokens("request_rate", "1, 3", chat) == (4, 2 * 4 * 125 * 50)
    assert tokens("request_rate", "1, 3", chat, {"dump": {"count": 30, "at_s": 5}}) == (4, 50_000 + 4 * 30 * 50)
    beside = tokens("request_rate", "1, 3", chat, loop)[1]
    assert beside == pytest.approx(50_000 + 4 * (1 + 125 / 0.61) * 50)
    thinking = tokens("max_concurrency", "1, 2", {"closed": {"concurrency": 1, "think_s": 10}})
    assert thinking == (4, pytest.approx(2 * (1 + 2) * (1 + 12.5) * 50))


def test_a_loop_beside_rare_requests_is_not_calculated_for_hours(data_dir: Path) -> None:
    """One request in 200 s means hours of a cell, in which a loop of 100 users makes millions of tokens: refused."""
    classes = [
        {"name": "chat", "weight": 1.0, "prompt_tokens": 50, "output_tokens": 20},
        {"name": "loop", "closed": {"concurrency": 100}, "prompt_tokens": 50, "output_tokens": 20},
    ]
    config = make_config(classes=classes, grid={"request_rate": [0.005]})
    finished_sweep(data_dir, make_tables(requests=[make_request(cell=0, class_name="chat")], config=config), "earlier")
    at = opened(load="earlier", **{"rates-earlier-RTX 3090, llama-3.1-8b q4_k_m-32": "0.005"})
    assert "more than this page calculates at once" in said(at)


def test_the_usual_load_is_within_reach_of_every_preset() -> None:
    """From an N100 to an RTX 5090 the field holds three rising numbers above 0."""
    classes = what_if.classes_of(what_if.workload_tables("chat"))
    for preset in ("n100/llama-3.2-1b/q4_k_m", "rtx5090/llama-3.2-1b/q4_k_m", "rtx3090/qwen3-30b-a3b/q4_k_m"):
        capacity = capacity_per_s(resolve_preset(preset), classes, 32)
        loads = [float(v) for v in what_if.usual_loads("request_rate", capacity, 32).split(", ")]
        assert 0 < loads[0] < loads[1] < loads[2] < capacity


def test_the_usual_budget_is_a_safe_one() -> None:
    """150 ms less 10 leave 140 tokens at 1 ms each: 128 of them; never below 32, never above 2048."""
    for b, budget in ((1.0, 128), (100.0, 32), (0.001, 2048), (0.0, 2048)):
        assert what_if.usual_budget(EngineProfile(CostModel(a=10, b=b), 100_000, False, ""), 32) == budget


def test_a_recorded_trace_is_left_out_and_a_rate_becomes_a_share() -> None:
    """What can't be replayed is not claimed to be; the rates of the page are the total of the classes."""
    base = {"prompt_tokens": 10, "output_tokens": 10}
    classes = [
        RequestClass.model_validate({"name": "a", "rate": 3, **base}),
        RequestClass.model_validate({"name": "b", "trace": "x.csv", **base}),
    ]
    tables = what_if.class_tables(classes)
    assert [(t["name"], t["weight"], "rate" in t) for t in tables] == [("a", 3.0, False)]
    assert what_if.load_axis(tables) == "request_rate"
    assert what_if.load_axis([{"closed": {"concurrency": 2}}]) == "max_concurrency"
