"""Workloads and targets to begin from, with where their numbers come from. PURE.

Lengths are tokens, times ms. "Assumed" says that nobody published it: it is ours to be corrected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.words import Words

Row = Mapping[str, Any]
CLASS_COLUMNS = (
    "name", "ttft_ms", "gap_ms", "weight", "closed", "think_s", "rate", "dump", "dump_at_s", "trace", "prompt_p50",
    "prompt_p90", "prompt_max", "output_p50", "output_p90", "output_max", "priority",
)  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """Classes as rows of the form's table. `source`: of lengths and targets, in English; a page translates it.

    `load`: what a sweep of it varies at first, on a server and on the built-in engine.
    """

    rows: tuple[Row, ...]
    source: str
    load: tuple[str, str] = ("request_rate", "0.5, 1, 2")


def _lengths(prompt: tuple[int, int, int], output: tuple[int, int, int]) -> dict[str, int]:
    """p50, p90 and the longest of prompt and answer."""
    places = ("p50", "p90", "max")
    return {f"{part}_{p}": v for part, values in (("prompt", prompt), ("output", output))
            for p, v in zip(places, values, strict=True)}  # fmt: skip


AZURE = "AzureLLMInferenceTrace (CC BY 4.0; Patel et al., Splitwise, ISCA 2024)"
CHAT = {"name": "chat", "ttft_ms": 1000, "gap_ms": 150, "weight": 1.0, "priority": 0,
        **_lengths((300, 1200, 4000), (160, 400, 1000))}  # fmt: skip
RAG = {"name": "rag", "ttft_ms": 3000, "gap_ms": 150, "weight": 1.0, "priority": 0,
       **_lengths((3000, 6000, 8000), (200, 400, 800))}  # fmt: skip
BACKGROUND = {"name": "background", "closed": 2, "priority": 1, **_lengths((1200, 3000, 6000), (300, 600, 1000))}
PERSON = {"name": "family", "ttft_ms": 1000, "gap_ms": 150, "closed": 4, "think_s": 10, "priority": 0,
          **_lengths((1020, 2735, 8000), (129, 424, 1000))}  # fmt: skip
COMPLETION = {"name": "completion", "ttft_ms": 500, "gap_ms": 200, "weight": 4.0, "priority": 0,
              **_lengths((1469, 5188, 7500), (13, 55, 840))}  # fmt: skip
ASK_CODE = {"name": "ask_code", "ttft_ms": 3000, "gap_ms": 150, "weight": 1.0, "priority": 0,
            **_lengths((3000, 8000, 16000), (400, 900, 2000))}  # fmt: skip
NIGHT = {"name": "documents", "closed": 8, "priority": 0, **_lengths((1200, 3000, 6000), (300, 600, 1000))}
VOICE = {"name": "voice", "ttft_ms": 500, "gap_ms": 200, "weight": 1.0, "priority": 0,
         **_lengths((800, 2000, 4000), (30, 60, 120))}  # fmt: skip

WORKLOADS: dict[str, Workload] = {
    "chat": Workload(
        (CHAT,), f"Lengths: assumed, shorter than the chats of {AZURE}: p50 1020 / p90 2735 in, 129 / 424 out."
    ),
    "family": Workload((PERSON,), f"Lengths: chats of {AZURE}. 10 s to read and type: assumed.",
                       ("max_concurrency", "1, 2, 4, 8")),
    "rag": Workload((RAG,), "Lengths: assumed, 3 to 6 passages of about 1,000 tokens with the question."),
    "coding": Workload(
        (COMPLETION, ASK_CODE),
        f"Completion: code of {AZURE}; 0.5 s as MLPerf interactive (Llama-3.1-8B), 200 ms as DistServe (OSDI 2024) for "
        "code. Questions: assumed.",
    ),
    "night": Workload((NIGHT,), "Lengths: assumed, documents of 2 to 8 pages to summarize.",
                      ("max_concurrency", "2, 4, 8, 16")),
    "voice": Workload(
        (VOICE,),
        "Lengths: assumed, a list of devices and one command. 0.5 s: MLPerf interactive; people answer each other "
        "after about 0.2 s (Levinson and Torreira, Frontiers in Psychology 2015). A voice at 150 words a minute needs "
        "a token every 300 ms.",
    ),
    "mixed": Workload((CHAT, RAG, BACKGROUND), "Lengths: assumed, as for chat and documents."),
}  # fmt: skip

# (title, first token ms, gap ms); published as TTFT and TPOT; of Sarathi (OSDI 2024) the gap alone is
TARGETS: dict[str, tuple[str, float | None, float]] = {
    "mlperf_8b": ("MLPerf Llama-3.1-8B", 2000, 100),
    "mlperf_8b_interactive": ("MLPerf Llama-3.1-8B interactive", 500, 30),
    "mlperf_70b": ("MLPerf Llama-2-70B", 2000, 200),
    "mlperf_70b_interactive": ("MLPerf Llama-2-70B interactive", 450, 40),
    "distserve_chat_13b": ("DistServe chat, 13B", 250, 100),
    "distserve_chat_66b": ("DistServe chat, 66B", 2500, 150),
    "distserve_code": ("DistServe code", 125, 200),
    "distserve_summary": ("DistServe summarization", 15000, 150),
    "sarathi_7b_strict": ("Sarathi 7B strict", None, 100),
    "sarathi_7b_relaxed": ("Sarathi 7B relaxed", None, 500),
}


def workload_words(w: Words) -> dict[str, tuple[str, str]]:
    """Title and who that is, by workload."""
    return {
        "chat": (w.text("Home chat"), w.text("Short questions that come when they come.")),
        "family": (
            w.text("Family of four"),
            w.text("Four people chat at the same time; each reads for 10 s before writing again."),
        ),
        "rag": (w.text("Questions to documents"), w.text("Long prompts with passages of documents, short answers.")),
        "coding": (w.text("Coding"), w.text("Completions while typing, and now and then a question about much code.")),
        "night": (w.text("Night batch"), w.text("Documents are worked through; nobody waits, the most work counts.")),
        "voice": (w.text("Voice assistant"), w.text("A command with a list of devices, a short spoken answer.")),
        "mixed": (w.text("Both, with background work"), w.text("Chats and documents by day, indexing beside them.")),
    }


def with_targets(rows: tuple[Row, ...] | list[Row], target: str | None) -> list[dict[str, Any]]:
    """Rows whose interactive classes have the targets of that name; unchanged for None."""
    if target is None:
        return [dict(row) for row in rows]
    _, ttft_ms, gap_ms = TARGETS[target]
    return [
        {**row, "ttft_ms": ttft_ms or row["ttft_ms"], "gap_ms": gap_ms} if row.get("ttft_ms") else dict(row)
        for row in rows
    ]


def recorded(trace: str, prompt_tokens: int, output_tokens: int) -> Workload:
    """The workload that replays a kept trace, with the targets of a chat. The lengths stand where the table needs some:
    the trace brings its own."""
    row = {"name": "recorded", "ttft_ms": 1000, "gap_ms": 150, "trace": trace, "priority": 0,
           "prompt_p50": prompt_tokens, "output_p50": output_tokens}  # fmt: skip
    return Workload((row,), "", ("load_scale", "0.5, 1, 2"))
