"""Other tools' files, read as they are and scored by our rules. Expected numbers are worked out in the comments."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.config import Slo
from runner.imported import as_document, from_document
from runner.imported_result import prepared_of, tool_result
from runner.imports.detect import read_files
from runner.imports.model import CLASS, ImportFailed, ToolFile
from storage.errors import StorageError

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "imports"
META = {"sweep_id": "imp-1", "name": "test", "created_unix_ns": 0}
CHAT = {CLASS: Slo(ttft_ms=1000, gap_ms=150)}
SECRETS = ("10.1.2.3", "SECRET123", "private answer", "../../etc")


def files(*names: str) -> list[tuple[str, bytes]]:
    """The named fixtures; a folder stands for all files below it."""
    found: list[Path] = []
    for name in names:
        path = FOLDER / name
        found += sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return [(str(p.relative_to(FOLDER)), p.read_bytes()) for p in found]


def read(*names: str) -> ToolFile:
    """The one import of these fixtures, stored and loaded as the data folder does it."""
    (file,) = read_files(files(*names))
    return from_document(json.loads(json.dumps(as_document(file), allow_nan=False)))


def result(file: ToolFile, **changes: object) -> dict[str, Any]:
    scored = tool_result(file, prepared_of(file, META), **changes)  # type: ignore[arg-type]
    json.dumps(scored, allow_nan=False)
    return scored


@pytest.mark.parametrize("name", ["vllm_detailed.json", "sglang.jsonl"])
def test_requests_with_gaps_are_scored_by_our_rules(name: str) -> None:
    """Of six requests the three good ones meet 1 s / 150 ms; by the mean the one that stalled passes as well."""
    file = read(name)
    assert file.rescoring == "full"
    (cell,) = result(file, targets=CHAT)["cells"]
    assert (cell["scheduled"], cell["completed"], cell["failed"]) == (6, 5, 1)
    assert (cell["met"], cell["share"]) == (3, 0.5)
    assert cell["goodput_per_s"] == pytest.approx(3 / 12)  # over the run's 12 s
    assert cell["output_tok_per_s"] == pytest.approx(50 / 12)
    assert cell["ttft_ms"]["p50"] is None  # five values carry no percentile
    rules = cell["classes"][CLASS]["rules"]
    assert (rules["p99_gap"], rules["mean_tpot"]) == (0.5, pytest.approx(4 / 6))  # (8·20 + 600) / 9 = 84 ms
    (by_mean,) = result(file, targets=CHAT, rule="mean_tpot")["cells"]
    assert by_mean["met"] == 4
    (wider,) = result(file, targets={"chat": Slo(ttft_ms=2000, gap_ms=700)})["cells"]
    assert wider["met"] == 5  # a target under another name is that of the only class


def test_what_a_tool_said_stands_beside_what_we_say() -> None:
    """vLLM's own figures are kept under `stated`; SGLang's file tells targets, which are taken, by its mean rule."""
    (cell,) = result(read("vllm_detailed.json"))["cells"]
    assert (cell["stated"]["ttft_ms"]["p50"], cell["stated"]["ttft_ms"]["p90"]) == (300.0, None)
    assert cell["stated"]["goodput_per_s"] is None
    scored = result(read("sglang.jsonl"))
    assert scored["targets"][CLASS]["ttft_ms"] == 500.0
    assert (scored["rule"], scored["targets"][CLASS]["gap_ms"]) == ("mean_tpot", 60.0)
    (cell,) = scored["cells"]
    assert cell["goodput_per_s"] == pytest.approx(cell["stated"]["goodput_per_s"]) == pytest.approx(3 / 12)


def test_a_wait_in_the_tools_own_client_counts_as_time_to_first_token() -> None:
    """With a bound on requests at once vLLM tells how long each waited: 250 ms after 900 ms are 1.15 s, a miss."""
    file = read("vllm_queued.json")
    assert dict(file.runs[0].load) == {"request_rate": 0.5, "requests_max_in_flight": 1}
    assert "client_queue" in file.badges
    (cell,) = result(file, targets={CLASS: Slo(ttft_ms=1000, gap_ms=700)})["cells"]
    assert cell["met"] == 3  # without the wait it would be 4


@pytest.mark.parametrize("ms", [1e-12, 1e14])
def test_targets_that_no_server_could_have_are_brought_within_bounds(ms: float) -> None:
    """A foreign file may tell any number; its requests are scored all the same."""
    file = replace(read("vllm_detailed.json"), targets={"ttft_ms": ms, "gap_ms": ms})
    assert result(file)["cells"][0]["judged"] == 6


def test_summaries_keep_the_tools_percentiles_and_no_goodput() -> None:
    """Percentiles as stated, counts and rates as stated, and nothing that only requests could tell."""
    file = read("vllm_summary.json")
    assert file.rescoring == "none"
    scored = result(file, targets=CHAT)
    (cell,) = scored["cells"]
    assert (cell["ttft_ms"]["p50"], cell["ttft_ms"]["p99"], cell["ttft_ms"]["mean"]) == (300.0, 1456.0, 530.0)
    assert (cell["gap_ms"]["p99"], cell["output_tok_per_s"], cell["scheduled"]) == (358.0, pytest.approx(50 / 12), 6)
    assert [cell[k] for k in ("goodput_per_s", "share", "share_low", "met")] == [None] * 4
    assert (cell["flags"], cell["on_frontier"], scored["warnings"]) == ([], False, [])
    assert (scored["choice"]["setting"], scored["choice"]["target_met"]) == (None, False)
    assert "summaries only" in scored["choice"]["reason"]


def test_a_sweep_folder_is_settings_loads_and_repeats() -> None:
    """Each run once although summary.json tells it again; parameters that vary are the setting; a failed run fails."""
    file = read("vllm_sweep")
    told = [(dict(r.setting), dict(r.load), r.repeat, r.error) for r in file.runs]
    assert sorted(told, key=str) == sorted(
        [
            *(({"max-num-seqs": s}, {"max_concurrency": 8}, n, None) for s in (4, 16) for n in (0, 1)),
            ({"max-num-seqs": 64}, {"max_concurrency": 8}, 0, "RuntimeError"),
        ],
        key=str,
    )
    scored = result(file)
    assert file.kind == "vllm"
    assert scored["choice"]["raw_throughput_setting"] == {"max-num-seqs": 16}
    assert sorted(c["status"] for c in scored["cells"]) == ["failed", "ok", "ok", "ok", "ok"]
    assert {c["e2e_ms"]["p99"] for c in scored["cells"] if c["status"] == "ok"} == {1900.0}


def test_lines_of_sglang_are_runs() -> None:
    """Each line of the JSONL is a run; no rate is a closed loop."""
    file = read("sglang_summary.jsonl")
    assert [dict(r.load) for r in file.runs] == [{"request_rate": 0.5}, {"max_concurrency": 4}]
    assert [c["ttft_ms"]["p95"] for c in result(file)["cells"]] == [1280.0, 1280.0]


def test_guidellm_is_timed_from_when_a_request_was_due() -> None:
    """The third request was due 0.9 s before it was sent: 1.2 s to its first token. The fourth is slow on average."""
    file = read("guidellm.json")
    assert (file.rescoring, file.tool_version) == ("mean_only", "0.8.1")
    scored = result(file, targets=CHAT, rule="p99_gap")
    (cell,) = scored["cells"]
    assert scored["rule"] == "mean_tpot"  # all it can be judged by
    assert (cell["met"], cell["judged"], cell["load"]) == (2, 5, {"request_rate": 0.5})
    assert cell["goodput_per_s"] == pytest.approx(0.2)
    assert cell["gap_ms"]["p50"] is None
    assert cell["gap_ms"]["n"] == 0
    assert cell["classes"][CLASS]["rules"]["p99_gap"] is None
    assert cell["classes"][CLASS]["rules"]["mean_tpot"] == pytest.approx(2 / 5)
    (wide,) = result(file, targets={CLASS: Slo(ttft_ms=1250, gap_ms=250)})["cells"]
    assert wide["met"] == 4


def test_older_guidellm_tells_times_beside_the_request() -> None:
    """Version 0.2 had no due time and the four stamps in the request itself; timed from send, three are in time."""
    value = json.loads((FOLDER / "guidellm.json").read_bytes())
    for group in ("successful", "errored"):
        for request in value["benchmarks"][0]["requests"][group]:
            t = request.pop("info")["timings"]
            request |= {"start_time": t["request_start"], "end_time": t["request_end"]}
            request |= {f"{end}_token_time": t[f"{end}_token_iteration"] for end in ("first", "last")}
    (file,) = read_files([("benchmarks.json", json.dumps(value).encode())])
    assert (file.rescoring, "ttft_from_send" in file.badges) == ("mean_only", True)
    assert result(file, targets=CHAT)["cells"][0]["met"] == 3


def test_aiperf_summary_and_lines_make_one_run() -> None:
    """The warm-up line is left out; of five requests one stalls, one is late, one failed."""
    file = read("aiperf")
    assert (file.rescoring, file.model, dict(file.runs[0].load)) == ("full", "Qwen/Qwen3-0.6B", {"max_concurrency": 2})
    (cell,) = result(file, targets=CHAT)["cells"]
    assert (cell["met"], cell["judged"], cell["failed"]) == (2, 5, 1)
    assert cell["goodput_per_s"] == pytest.approx(0.2)
    assert cell["stated"]["gap_ms"]["p50"] == 60.0
    alone = read("aiperf/profile_export.jsonl")
    assert alone.rescoring == "full"
    assert result(alone, targets=CHAT)["cells"][0]["goodput_per_s"] == pytest.approx(2 / 9)  # first start to last end
    summary = read("aiperf/profile_export_aiperf.json")
    (cell,) = result(summary)["cells"]
    assert (summary.rescoring, cell["ttft_ms"]["p95"], cell["scheduled"]) == ("none", 300.0, 5)


def test_genai_bench_and_llmperf_are_judged_by_the_mean() -> None:
    """Requests with times but no gaps: met are those with an early first token and a fast mean."""
    file = read("genai_bench")
    assert (file.kind, file.tool_version) == ("vllm", "0.0.5")
    cells = result(file, targets=CHAT)["cells"]
    assert [(c["load"]["max_concurrency"], c["met"], c["judged"]) for c in cells] == [(2, 2, 5), (4, 4, 4)]
    assert cells[0]["goodput_per_s"] == pytest.approx(0.2)
    file = read("llmperf")
    (cell,) = result(file, targets=CHAT)["cells"]
    # means (0.75 - 0.3) / 9 = 50 ms and (2.1 - 0.3) / 9 = 200 ms; over 4 / 24 min = 10 s
    assert (cell["met"], cell["judged"], cell["goodput_per_s"]) == (2, 5, pytest.approx(0.2))
    assert cell["stated"]["ttft_ms"]["p90"] == 300.0


def test_without_the_length_of_the_run_there_is_a_share_and_no_rate() -> None:
    """llmperf's responses alone tell no times: which met their targets is known, how many a second is not."""
    (cell,) = result(read("llmperf/qwen_32_10_individual_responses.json"), targets=CHAT)["cells"]
    assert (cell["met"], cell["share"]) == (2, 0.4)
    assert [cell[k] for k in ("goodput_per_s", "output_tok_per_s", "request_per_s", "offered_rate")] == [None] * 4


def test_nothing_private_comes_through() -> None:
    """Addresses, keys, prompts and answers in the files are not in what is kept."""
    for name in ("sglang.jsonl", "guidellm.json", "aiperf", "genai_bench", "llmperf", "vllm_sweep"):
        file = read(name)
        kept = json.dumps([as_document(file), result(file)])
        assert [word for word in SECRETS if word in kept] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not text"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a": 1}', "not a result that is known"),
        (b"[1, 2]", "not a result that is known"),
        (b'"text"', "not a result that is known"),
        (b"null", "not a result that is known"),
        (b'{"benchmark_version": "1", "experiment_folder_name": "x"}', "holds no results"),
    ],
)
def test_files_that_are_no_results_are_refused_in_a_sentence(content: bytes, said: str) -> None:
    """Whatever is in a file, the answer is one sentence that names it."""
    with pytest.raises(ImportFailed, match=said):
        read_files([("odd\n.json", content)])


def test_hostile_values_are_numbers_or_nothing() -> None:
    """NaN, infinities, texts and huge numbers where times should be, absurd counts, names with control characters."""
    one = json.loads((FOLDER / "vllm_detailed.json").read_bytes())
    hostile = {
        **one,
        "duration": float("nan"),
        "ttfts": [float("inf"), "0.2", None, 1e300, -1, True],
        "itls": [[float("nan")], "x", None, [-5, {}], [1e99], 7],
        "start_times": ["x", None, -1e9, 0, 1, 2],
        "completed": 1e300,
        "model_id": "\x00<img src=x onerror=alert(1)>\r\n=cmd()",
        "p99_ttft_ms": float("-inf"),
        "max-num-seqs": [1, 2],
    }
    (file,) = read_files([("a.json", json.dumps(hostile).encode())])
    assert file.model == "<img src=x onerror=alert(1)>  =cmd()"
    assert file.runs[0].setting == {}
    assert result(file)["cells"][0]["completed"] == 0
    with pytest.raises(ImportFailed, match="can't be right"):
        read_files([("a.json", json.dumps({**one, "output_lens": [10**12] * 6}).encode())])


def test_more_tokens_than_fit_are_refused() -> None:
    """Even gaps of claimed tokens take memory: too many of them are refused before any is made."""
    value = json.loads((FOLDER / "llmperf" / "qwen_32_10_individual_responses.json").read_bytes())
    many = [{**value[0], "number_output_tokens": 9_000_000}] * 2
    (file,) = read_files([("a.json", json.dumps(many).encode())])
    with pytest.raises(ImportFailed, match="at most"):
        prepared_of(file, META)


def test_a_torn_last_line_is_left_out() -> None:
    """A JSONL file whose writer was killed gives what was whole."""
    whole = (FOLDER / "sglang_summary.jsonl").read_bytes()
    (file,) = read_files([("a.jsonl", whole[:-40])])
    assert len(file.runs) == 1


def test_a_damaged_stored_file_is_one_sentence() -> None:
    """What was kept and then damaged is told as such."""
    with pytest.raises(StorageError, match="damaged"):
        from_document({"runs": [{"points": [1]}]})
