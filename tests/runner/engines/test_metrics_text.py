"""Prometheus pages of real servers and of public bug reports give the right fields, or null, never a wrong number."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.engines.catalogue import LLAMA_CPP_METRICS, VLLM_METRICS
from runner.engines.metrics_text import parse_points, read_fields

CAPTURES = Path(__file__).parents[2] / "engines_support" / "captures"


def page(name: str) -> str:
    """The body of a capture, without its notes and HTTP head."""
    text = (CAPTURES / f"{name}.txt").read_text(encoding="utf-8")
    return text.partition("\n\n")[2] or text


def test_an_absent_gauge_is_null() -> None:
    """What the page does not tell is unknown, not zero."""
    assert set(read_fields("vllm:something_else 1\n", VLLM_METRICS).values()) == {None}


def test_a_model_name_that_no_series_has_is_not_used_as_a_filter() -> None:
    """An alias the server does not label its series with must not empty the sample."""
    assert read_fields('vllm:num_requests_running{model_name="m"} 5\n', VLLM_METRICS, "alias")["running"] == 5


def test_vllm_under_load_gives_the_numbers_of_the_page() -> None:
    """A scrape of vLLM 0.32 with 11 clients on a small KV cache."""
    fields = read_fields(page("vllm_metrics_under_load"), VLLM_METRICS, "tiny")
    assert fields == {
        "running": 2,
        "waiting": 9,  # not doubled by num_requests_waiting_by_reason
        "kv_cache_usage": 0.782608695652174,
        "num_preemptions_total": 24,
        "prompt_tokens_total": 1160,
        "generation_tokens_total": 6012,
        "iterations_total": 1504,
        "iteration_tokens_total": 7172,
        "iteration_seqs_total": None,
        "rejected_total": 12,  # both reasons
        "queue_time_s_total": 2.155037662999348,
        "queue_time_count": 34,
        "prefix_cache_queries_total": 0,
        "prefix_cache_hits_total": 0,
    }


def test_llama_cpp_idle_counts_cached_prompt_tokens_as_prompt_tokens() -> None:
    """983 computed and 102 reused tokens are 1085 prompt tokens, 102 of them hits."""
    fields = read_fields(page("llamacpp_metrics_idle"), LLAMA_CPP_METRICS)
    assert fields["prompt_tokens_total"] == 983 + 102
    assert fields["prefix_cache_queries_total"] == 983 + 102
    assert fields["prefix_cache_hits_total"] == 102
    assert fields["generation_tokens_total"] == 36
    assert (fields["running"], fields["waiting"]) == (0, 0)
    assert fields["kv_cache_usage"] is None


def test_llama_cpp_batch_size_between_two_scrapes_is_the_true_one() -> None:
    """Four slots were busy in all 19 steps between two scrapes, which the lifetime means 2.03 and 2.08 hide."""
    first = read_fields(page("llamacpp_metrics_under_load"), LLAMA_CPP_METRICS)
    second = read_fields(page("llamacpp_metrics_under_load_2nd"), LLAMA_CPP_METRICS)
    assert (first["running"], first["waiting"]) == (4, 4)
    steps = (second["iterations_total"] or 0) - (first["iterations_total"] or 0)
    seqs = (second["iteration_seqs_total"] or 0) - (first["iteration_seqs_total"] or 0)
    assert steps == 802 - 783
    assert seqs / steps == pytest.approx(4.0, abs=0.01)


def test_a_broken_line_costs_only_itself() -> None:
    """A torn page still gives what its whole lines say."""
    text = "vllm:num_requests_running 3\nvllm:num_requests_waiting{ 4\n# TYPE\nvllm:kv_cache_usage_perc 0.5\nvllm:num"
    fields = read_fields(text, VLLM_METRICS)
    assert (fields["running"], fields["waiting"], fields["kv_cache_usage"]) == (3, None, 0.5)
    assert [p.name for p in parse_points(text)] == ["vllm:num_requests_running", "vllm:kv_cache_usage_perc"]


def test_exemplars_and_windows_line_ends_are_read() -> None:
    """OpenMetrics exemplars and CRLF do not change a value."""
    text = 'vllm:num_requests_running{engine="0"} 3 # {trace_id="x"} 0.5\r\nvllm:num_requests_waiting 4\r\n'
    fields = read_fields(text, VLLM_METRICS)
    assert (fields["running"], fields["waiting"]) == (3, 4)


@given(st.text(max_size=200), st.sampled_from(["", "vllm:num_requests_running", 'vllm:num_requests_running{a="']))
def test_no_text_makes_the_reader_fail(text: str, start: str) -> None:
    """Whatever a server sends, the answer is fields of finite numbers or null."""
    fields = read_fields(f"{start}{text}\n{text}", VLLM_METRICS)
    parse_points(f"{start}{text}\n{text}")
    assert all(v is None or math.isfinite(v) for v in fields.values())
