"""What a server makes of settings is said before anything is measured: refused, ignored, or worth knowing."""

import string
from typing import Any

import pytest

from runner.config import BACKEND_KINDS, SweepConfig, parse_sweep
from runner.engines.catalogue import KINDS
from runner.engines.knowledge import RULES, engine_oddities, longest_tokens, setting_oddities, told_by_command
from runner.engines.oddity import TEXTS

CHAT: dict[str, Any] = {"name": "chat", "weight": 1, "prompt_tokens": 1500, "output_tokens": 500}


def sweep(kind: str, grid: dict[str, list[Any]], *classes: dict[str, Any], **control: object) -> SweepConfig:
    backend = {"kind": kind} if kind == "simulated" else {"kind": kind, "url": "http://127.0.0.1:8080"}
    raw: dict[str, Any] = {"name": "x", "backend": backend, "grid": {**grid, "request_rate": [1.0]}}
    raw["classes"] = list(classes or (CHAT,))
    if control or grid:
        raw["control"] = control or {"mode": "manual"}
    return parse_sweep({k: v for k, v in raw.items() if k != "control" or kind != "simulated"}, "test")


def codes(kind: str, config: SweepConfig, version: str | None = None) -> dict[str, str]:
    """code -> severity."""
    return {o.code: o.severity for o in engine_oddities(kind, version, config)}


def test_every_text_can_be_filled_and_every_rule_names_a_kind() -> None:
    """No template has a place without a name, and no rule stands under a kind that does not exist."""
    for template in TEXTS.values():
        names = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
        assert all(name.isidentifier() for name in names)
    assert set(RULES) <= set(BACKEND_KINDS)


@pytest.mark.parametrize("kind", BACKEND_KINDS)
def test_a_sweep_of_the_load_alone_is_not_odd(kind: str) -> None:
    """One class, nothing set: nothing to say, whatever the server."""
    assert engine_oddities(kind, None, sweep(kind, {})) == []


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.32.0", {"partial_prefills_gone": "refused"}),
        ("v0.27.0rc1", {"partial_prefills_gone": "refused"}),
        ("0.19.0", {"partial_prefills_unenforced": "ignored"}),
        (None, {"partial_prefills_unenforced": "ignored"}),
        ("nightly", {"partial_prefills_unenforced": "ignored"}),
        ("0.8.5", {}),
    ],
)
def test_vllm_limits_of_partial_prefills(version: str | None, expected: dict[str, str]) -> None:
    """Enforced by the old engine, by none since, and an unknown flag from 0.27 on."""
    assert codes("vllm", sweep("vllm", {"max_num_partial_prefills": [1, 4]}), version) == expected


def test_vllm_refuses_a_budget_below_the_number_of_sequences() -> None:
    """Only the pairs of the grid count, and the worst of them is told."""
    (oddity,) = engine_oddities(
        "vllm", None, sweep("vllm", {"max_num_seqs": [4, 64], "max_num_batched_tokens": [32, 48]})
    )
    assert (oddity.code, oddity.severity) == ("budget_below_seqs", "refused")
    assert "max_num_batched_tokens = 32 below max_num_seqs = 64" in oddity.sentence
    assert codes("vllm", sweep("vllm", {"max_num_seqs": [4], "max_num_batched_tokens": [32, 2048]})) == {}


def test_vllm_without_chunked_prefill_needs_a_budget_of_its_context() -> None:
    """Refused when the context is known and larger; a note while it is not known; nothing with chunked prefill."""
    off = {"enable_chunked_prefill": [False], "max_num_batched_tokens": [2048]}
    assert codes("vllm", sweep("vllm", off)) == {"budget_needs_context": "note"}
    assert codes("vllm", sweep("vllm", {**off, "context_tokens": [4096]})) == {"budget_below_context": "refused"}
    assert codes("vllm", sweep("vllm", {**off, "context_tokens": [2048]})) == {}
    on = {**off, "enable_chunked_prefill": [True], "context_tokens": [4096]}
    assert codes("vllm", sweep("vllm", on)) == {}


def test_vllm_queue_and_active_limits() -> None:
    """The queue limit counts running requests and came with 0.29; more active than possible is refused."""
    few = sweep("vllm", {"max_num_seqs": [16], "max_num_queued_reqs": [8]})
    assert codes("vllm", few, "0.32.0") == {"queue_counts_running": "note"}
    assert codes("vllm", few, "0.28.1") == {"queue_limit_too_new": "refused", "queue_counts_running": "note"}
    active = sweep("vllm", {"max_num_seqs": [8], "max_num_active_seqs": [9]})
    assert codes("vllm", active) == {"active_above_seqs": "refused"}


@pytest.mark.parametrize(
    ("kind", "grid", "expected"),
    [
        ("vllm", {}, {"priority_needs_policy": "ignored"}),
        ("vllm", {"policy": ["fcfs", "priority"]}, {}),
        ("simulated", {}, {"priority_needs_policy": "ignored"}),
        ("simulated", {"policy": ["priority"]}, {}),
        ("llama_cpp", {}, {"priority_not_sent": "ignored"}),
        ("sglang", {}, {"priority_not_sent": "ignored"}),
    ],
)
def test_priorities_that_change_nothing_are_said(
    kind: str, grid: dict[str, list[Any]], expected: dict[str, str]
) -> None:
    """Two classes of different priority at a server that takes none, or takes them with another policy only."""
    classes = (CHAT, {**CHAT, "name": "background", "priority": 1})
    assert codes(kind, sweep(kind, grid, *classes)) == expected


def test_a_policy_in_the_start_command_counts() -> None:
    """What control.command says is known as well as what the grid says."""
    classes = (CHAT, {**CHAT, "name": "background", "priority": 1})
    command = ["vllm", "serve", "m", "--scheduling-policy=priority"]
    assert codes("vllm", sweep("vllm", {}, *classes, mode="process", command=command)) == {}


def test_llama_cpp_slots_share_the_context() -> None:
    """-c 8192 over 8 slots leaves 1,024 tokens; a request of 2,000 needs -c 16000. Unified, it fits."""
    command = ["llama-server", "-m", "m.gguf", "-c", "8192", "-np", "{max_num_seqs}"]
    config = sweep("llama_cpp", {"max_num_seqs": [1, 4, 8]}, mode="process", command=command)
    (oddity,) = engine_oddities("llama_cpp", None, config)
    assert (oddity.code, oddity.severity) == ("slot_too_small", "note")
    assert oddity.values == {
        "seqs": 8, "context": 8192, "slot": 1024, "name": "chat", "longest": 2000, "needed": 16000,
    }  # fmt: skip
    unified = sweep("llama_cpp", {"max_num_seqs": [1, 4]}, mode="process", command=[*command, "--kv-unified"])
    assert codes("llama_cpp", unified) == {}
    full = sweep("llama_cpp", {"max_num_seqs": [8]}, mode="process", command=[*command, "--kv-unified"])
    assert codes("llama_cpp", full) == {"kv_can_run_out": "note"}


def test_llama_cpp_without_a_known_context_is_reminded() -> None:
    """The division is told also when we cannot compute it, but not for one slot."""
    assert codes("llama_cpp", sweep("llama_cpp", {"max_num_seqs": [1, 8]})) == {"slots_divide": "note"}
    assert codes("llama_cpp", sweep("llama_cpp", {"max_num_seqs": [1]})) == {}
    assert codes("llama_cpp", sweep("llama_cpp", {"max_num_seqs": [1], "context_tokens": [1000]})) == {
        "request_refused": "note"
    }


def test_llama_cpp_cuts_the_physical_batch() -> None:
    """-ub above -b is cut to it."""
    config = sweep("llama_cpp", {"max_num_batched_tokens": [256, 2048], "max_num_ubatch_tokens": [512]})
    (oddity,) = engine_oddities("llama_cpp", None, config)
    assert (oddity.code, oddity.severity) == ("ubatch_cut", "ignored")
    assert oddity.values == {"batch": 256, "ubatch": 512}


def test_ollama_reserves_a_context_for_each_request() -> None:
    """Requests × context is the memory; a change needs a restart; the queue limit does nothing for a loaded model."""
    config = sweep("ollama", {"max_num_seqs": [1, 4], "context_tokens": [1024], "max_num_queued_reqs": [8]})
    found = {o.code: o for o in engine_oddities("ollama", "0.32.1", config)}
    assert {c: o.severity for c, o in found.items()} == {
        "ollama_queue": "ignored", "ollama_restart": "note", "ollama_memory": "note", "request_cut": "note",
    }  # fmt: skip
    assert "4 × 1024 = 4096 tokens" in found["ollama_memory"].sentence


@pytest.mark.parametrize(
    ("kind", "grid", "expected"),
    [
        ("sglang", {"max_num_seqs": [64]}, {"sglang_memory": "note"}),
        ("tgi", {"max_num_batched_tokens": [1000]}, {"tgi_prompt_over_budget": "note"}),
        ("tgi", {"max_num_batched_tokens": [4096]}, {}),
        ("tgi", {"max_concurrent_requests": [8]}, {"tgi_concurrent": "note"}),
        ("tgi", {"max_num_seqs": [8]}, {"tgi_batch_size": "note"}),
        ("lmstudio", {"max_num_seqs": [8]}, {"lmstudio_reload": "note"}),
        ("koboldcpp", {"max_num_batched_tokens": [300]}, {"kobold_batch": "refused"}),
        ("koboldcpp", {"max_num_batched_tokens": [256]}, {}),
        ("koboldcpp", {"max_num_seqs": [4]}, {"kobold_parallel": "note"}),
        ("tabbyapi", {"kv_tokens": [1000]}, {"tabby_cache": "note"}),
        ("tabbyapi", {"kv_tokens": [1024]}, {}),
        ("localai", {"max_num_seqs": [4]}, {"localai_yaml": "note"}),
        ("mlx_lm", {"max_num_seqs": [4]}, {"mlx_batchable": "note"}),
        ("openai", {"max_num_seqs": [4]}, {"unknown_setting": "note"}),
        ("vllm", {"scheduler_delay": [4]}, {"unknown_setting": "note"}),
        ("vllm", {"model": ["a", "b"]}, {}),
    ],
)
def test_what_the_other_servers_make_of_settings(
    kind: str, grid: dict[str, list[Any]], expected: dict[str, str]
) -> None:
    """One fact of a server's documentation each."""
    assert codes(kind, sweep(kind, grid)) == expected


def test_the_refused_stand_first_and_each_setting_can_be_asked_alone() -> None:
    """The page and the command line show the worst first; a cell keeps what concerns its own setting."""
    config = sweep("vllm", {"max_num_seqs": [4, 64], "max_num_batched_tokens": [32], "odd_one": [1]})
    assert [o.severity for o in engine_oddities("vllm", None, config)] == ["refused", "note"]
    four = setting_oddities("vllm", None, config, {"max_num_seqs": 4, "max_num_batched_tokens": 32, "odd_one": 1})
    assert [o.code for o in four] == ["unknown_setting"]


def test_a_start_command_is_read_with_its_other_spellings() -> None:
    """Long flags, flag=value, switches and the environment, placeholders filled from the setting."""
    config = sweep(
        "llama_cpp",
        {"max_num_seqs": [4]},
        mode="process",
        command=["llama-server", "--parallel", "{max_num_seqs}", "--ctx-size=8192", "--no-kv-unified", "--metrics"],
        env={"LLAMA_ARG_UBATCH": "128"},
    )
    assert told_by_command("llama_cpp", config, {"max_num_seqs": 4}) == {
        "max_num_seqs": 4, "context_tokens": 8192, "kv_unified": False, "max_num_ubatch_tokens": 128,
    }  # fmt: skip


def test_lengths_are_taken_at_their_longest() -> None:
    """Fixed, the upper end, the cut, or the p90 of a length that is not cut."""
    texts = [5, {"uniform": [2, 7]}, {"p50": 3, "p90": 8, "max": 9}, {"p50": 3, "p90": 8}]
    found = [sweep("openai", {}, {**CHAT, "prompt_tokens": t}).classes[0].prompt_tokens for t in texts]
    assert [longest_tokens(length) for length in found] == [5, 7, 9, 8]


def test_no_start_line_flag_is_named_twice() -> None:
    """Each flag, variable and file key of a kind belongs to one grid key."""
    for kind in KINDS.values():
        for table in (kind.flags, kind.variables, kind.file_keys):
            assert len(set(table.values())) == len(table)
