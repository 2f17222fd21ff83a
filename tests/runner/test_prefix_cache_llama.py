"""A real llama.cpp server with its prefix cache on: shared prompts are served from it as meant, unique ones are not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.analysis.result import build_result
from runner.config import parse_sweep
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.engines_support.llama import llama_installed, running_llama

pytestmark = [pytest.mark.llama, pytest.mark.skipif(not llama_installed(), reason="xllamacpp is not installed")]


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    with running_llama("-np", "2", "-c", "4096", "--metrics") as url:
        yield url


def measured(url: str, folder: Path, shared_prefix_tokens: int, **backend: str) -> dict[str, Any]:
    """A cell with eight answers or more, however long a busy machine takes for them."""
    for duration_s in (1.5, 6.0, 20.0):
        cell = one_cell(url, folder / str(duration_s), duration_s, shared_prefix_tokens, backend)
        if cell["completed"] >= 8:
            return cell
    raise AssertionError("the server is too slow")


def one_cell(
    url: str, folder: Path, duration_s: float, shared_prefix_tokens: int, backend: dict[str, str]
) -> dict[str, Any]:
    """The one cell of a sweep of prompts of about 300 tokens on a server that we did not start."""
    folder.mkdir()
    config = parse_sweep(
        {
            "name": "prefix",
            "backend": {"kind": "llama_cpp", "url": url, **backend},
            "grid": {"max_concurrency": [2]},
            "run": {"duration_s": duration_s, "warmup_s": 0.5, "drain_s": 5},
            "classes": [
                {
                    "name": "chat", "weight": 1, "prompt_tokens": 300, "output_tokens": 4,
                    "shared_prefix_tokens": shared_prefix_tokens, "slo": {"ttft_ms": 5000, "gap_ms": 1000},
                }
            ],
        },
        "test",
    )  # fmt: skip
    data = open_data_folder(folder / "data")
    sweep_id = enqueue(data, config, "test")
    run_one(data, sweep_id, lambda _: None)
    cell: dict[str, Any] = build_result(read_sweep(sweep_folder(data, sweep_id)))["cells"][0]
    assert (cell["status"], cell["failed"]) == ("ok", 0), cell["error_detail"]
    return cell


@pytest.mark.parametrize("api", ["openai_chat", "llamacpp_completion"])
def test_a_shared_prefix_is_served_from_the_cache_as_meant(llama: str, tmp_path: Path, api: str) -> None:
    """200 of 300 tokens are shared: the observed hit share is the intended one, and no doubt is raised."""
    cell = measured(llama, tmp_path, 200, api=api)
    # of 300 tokens 200 are shared; the server counts some more or fewer, since words differ in tokens
    assert cell["prefix_cache_hit_share_intended"] == pytest.approx(200 / 300, abs=0.07)
    assert cell["prefix_cache_hit_share"] == pytest.approx(cell["prefix_cache_hit_share_intended"], abs=0.08)
    assert not {"prefix_cached", "prefix_share_not_held"} & set(cell["flags"])


@pytest.mark.parametrize(("kind", "at_most"), [("llama_cpp", 0.0), ("openai", 0.1)])
def test_unique_prompts_are_computed_anew(llama: str, tmp_path: Path, kind: str, at_most: float) -> None:
    """By default nothing comes from the cache, not even the chat template's own tokens; where the server is taken for
    any OpenAI-like one, which can't be told to leave its cache alone, the template is all that does."""
    cell = measured(llama, tmp_path, 0, kind=kind)
    assert cell["prefix_cache_hit_share_intended"] == 0.0
    assert 0.0 <= cell["prefix_cache_hit_share"] <= at_most
    assert "prefix_cached" not in cell["flags"]
