"""Prometheus pages of real servers and of public bug reports give the right fields, or null, never a wrong number."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.engines.metric_names import ANY_METRICS, LLAMA_CPP_METRICS, SGLANG_METRICS, TGI_METRICS, VLLM_METRICS
from runner.engines.metrics_text import parse_points, read_fields, read_iteration_buckets

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
        "swapped": None,  # gone since V1
        "ttft_s_total": 3.217581272125244,
        "ttft_count": 40,
        "itl_s_total": 27.132067989994084,
        "itl_count": 5972,
        "kv_cache_usage_max": 0.782608695652174,
        "engines": 1,
        "server_start_s": None,  # the capture leaves the process's own metrics out
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


VLLM_V0 = """vllm:num_requests_running{model_name="m"} 3
vllm:num_requests_swapped{model_name="m"} 2
vllm:num_requests_waiting{model_name="m"} 4
vllm:gpu_cache_usage_perc{model_name="m"} 0.97
vllm:cpu_cache_usage_perc{model_name="m"} 0.5
vllm:time_in_queue_requests_sum{model_name="m"} 8.0
vllm:time_in_queue_requests_count{model_name="m"} 4.0
vllm:time_per_output_token_seconds_sum{model_name="m"} 5.0
vllm:time_per_output_token_seconds_count{model_name="m"} 100.0
vllm:gpu_prefix_cache_queries_total{model_name="m"} 10.0
vllm:gpu_prefix_cache_hits_total{model_name="m"} 7.0
process_start_time_seconds 1.7e+09
"""


def test_names_of_older_versions_of_vllm_are_known() -> None:
    """Swapped sequences, the GPU cache, the queue, the time per token and the prefix cache under their V0 names."""
    fields = read_fields(VLLM_V0, VLLM_METRICS, "m")
    assert (fields["running"], fields["swapped"], fields["waiting"], fields["kv_cache_usage"]) == (3, 2, 4, 0.97)
    assert (fields["queue_time_s_total"], fields["queue_time_count"]) == (8, 4)
    assert (fields["itl_s_total"], fields["itl_count"]) == (5, 100)
    assert (fields["prefix_cache_queries_total"], fields["prefix_cache_hits_total"]) == (10, 7)
    assert fields["server_start_s"] == 1.7e9


def test_a_name_present_under_its_old_and_its_new_form_is_counted_once() -> None:
    """During a migration both are shown: the newer one is read."""
    text = "vllm:request_queue_time_seconds_sum 1\nvllm:time_in_queue_requests_sum 1\n"
    assert read_fields(text, VLLM_METRICS)["queue_time_s_total"] == 1


SGLANG = """sglang:num_running_reqs{model_name="m",engine_type="unified",tp_rank="0",pp_rank="0"} 6.0
sglang:num_running_reqs{model_name="m",engine_type="unified",tp_rank="1",pp_rank="0"} 6.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 2.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.28
sglang:num_retracted_reqs{model_name="m",tp_rank="0"} 1.0
sglang:num_retracted_requests_total{model_name="m",tp_rank="0"} 9.0
sglang:gen_throughput{model_name="m",tp_rank="0"} 86.5
sglang:queue_time_seconds_sum{model_name="m"} 3.0
sglang:queue_time_seconds_count{model_name="m"} 6.0
sglang:time_to_first_token_seconds_sum{model_name="m"} 5.0
sglang:time_to_first_token_seconds_count{model_name="m"} 10.0
sglang:inter_token_latency_seconds_sum{model_name="m"} 2.0
sglang:inter_token_latency_seconds_count{model_name="m"} 100.0
sglang:prompt_tokens_total{model_name="m"} 8.0e+02
sglang:cached_tokens_total{model_name="m",cache_source="device"} 30.0
sglang:cached_tokens_total{model_name="m",cache_source="host"} 10.0
"""


@pytest.mark.parametrize("spelling", [":", "_"])
def test_sglang_is_read_with_a_colon_or_an_underscore_after_its_prefix(spelling: str) -> None:
    """Ranks of one engine tell the same and count once; sources of cached tokens add up."""
    fields = read_fields(SGLANG.replace("sglang:", f"sglang{spelling}"), SGLANG_METRICS, "m")
    assert {k: v for k, v in fields.items() if v is not None} == {
        "running": 6, "engines": 1, "waiting": 2, "kv_cache_usage": 0.28, "kv_cache_usage_max": 0.28, "swapped": 1,
        "num_preemptions_total": 9, "queue_time_s_total": 3, "queue_time_count": 6, "ttft_s_total": 5,
        "ttft_count": 10, "itl_s_total": 2, "itl_count": 100, "prompt_tokens_total": 800,
        "prefix_cache_queries_total": 800, "prefix_cache_hits_total": 40,
    }  # fmt: skip


def test_data_parallel_engines_of_sglang_add_up() -> None:
    """dp_rank is another engine, tp_rank is not."""
    lines = [f'sglang:num_running_reqs{{dp_rank="{d}",tp_rank="{t}"}} {d + 1}' for d in (0, 1) for t in (0, 1)]
    fields = read_fields("\n".join(lines) + "\n", SGLANG_METRICS)
    assert (fields["running"], fields["engines"]) == (1 + 2, 2)


TGI = """tgi_batch_current_size 5
tgi_queue_size 3
tgi_request_queue_duration_sum 12.5
tgi_request_queue_duration_count 25
tgi_batch_inference_count{method="prefill"} 10
tgi_batch_inference_count{method="decode"} 90
tgi_request_mean_time_per_token_duration_sum 1.5
tgi_request_mean_time_per_token_duration_count 30
tgi_request_input_length_sum 900
tgi_request_generated_tokens_sum 700
tgi_request_failure{err="overloaded"} 4
tgi_request_failure{err="validation"} 2
"""


def test_tgi_tells_its_batch_its_queue_and_its_rejections() -> None:
    """Prefill and decode passes are both iterations; of the failures only "overloaded" is a rejection."""
    assert {k: v for k, v in read_fields(TGI, TGI_METRICS).items() if v is not None} == {
        "running": 5, "engines": 1, "waiting": 3, "queue_time_s_total": 12.5, "queue_time_count": 25,
        "iterations_total": 100, "itl_s_total": 1.5, "itl_count": 30, "prompt_tokens_total": 900,
        "generation_tokens_total": 700, "rejected_total": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "running"), [(VLLM_V0, 3), (SGLANG, 6), (TGI, 5), ("llamacpp:requests_processing 4\n", 4)]
)
def test_a_page_of_a_server_of_unknown_kind_is_read_by_whatever_name_it_has(text: str, running: float) -> None:
    """A user may name the metrics page of a server that does not say what it is."""
    assert read_fields(text, ANY_METRICS, "m")["running"] == running


def test_tokens_a_step_are_kept_as_buckets_over_all_engines_of_the_model() -> None:
    """Cumulative counts add up by bound; another model's are left out; no histogram gives null."""
    name = "vllm:iteration_tokens_total_bucket"
    rows = [
        ("0", "m", "8.0", 4),
        ("0", "m", "+Inf", 5),
        ("1", "m", "8.0", 1),
        ("1", "m", "+Inf", 7),
        ("0", "x", "8.0", 9),
    ]
    text = "".join(f'{name}{{engine="{e}",le="{le}",model_name="{m}"}} {n}\n' for e, m, le, n in rows)
    assert json.loads(read_iteration_buckets(text, "m") or "") == {"8.0": 5, "+Inf": 12}
    assert read_iteration_buckets("vllm:num_requests_running 1\n") is None
    real = (CAPTURES / "vllm_metrics_iteration_tokens.txt").read_text(encoding="utf-8")
    counts = json.loads(read_iteration_buckets(real, "tiny") or "{}")
    assert counts["+Inf"] == read_fields(real, VLLM_METRICS, "tiny")["iterations_total"] == 4371
    assert (counts["1.0"], counts["128.0"]) == (398, 4367)


@pytest.mark.parametrize("bound", ["many", "", "NaN"])
def test_a_bucket_without_a_number_for_its_bound_is_left_out(bound: str) -> None:
    """Bounds are compared when the result is made: a page must not be able to stop that."""
    name = "vllm:iteration_tokens_total_bucket"
    text = f'{name}{{le="{bound}"}} 3\n{name}{{le="+Inf"}} 4\n'
    assert json.loads(read_iteration_buckets(text) or "") == {"+Inf": 4}


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
