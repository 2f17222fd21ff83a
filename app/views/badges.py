"""How an imported result's definitions differ from ours, in words. PURE."""

from dataclasses import dataclass

from app.views import cells as c
from app.words import ENGLISH, Words

TOOLS = {
    "goodput": "Goodput Lab", "vllm": "vLLM", "sglang": "SGLang", "guidellm": "guidellm", "aiperf": "aiperf",
    "genai_bench": "genai-bench", "llmperf": "llmperf",
}  # fmt: skip


@dataclass(frozen=True)
class Badge:
    """`title` is short; `help` is one sentence. Both are text, never HTML."""

    id: str
    title: str
    help: str


def badges(result: c.Result, words: Words = ENGLISH) -> list[Badge]:
    """What to know of an import before it is compared; empty for sweeps of our own."""
    told = result.get("imported") or {}
    known = _texts(words)
    ids = [str(i) for i in told.get("badges") or []]
    if told.get("rescoring") == "none" and told.get("tool") != "goodput":
        ids.append("stated")
    if told.get("rescoring") == "mean_only":
        ids.append("mean_only")
    return [Badge(i, *known[i]) for i in ids if i in known]


def badge_line(result: c.Result, words: Words = ENGLISH) -> str:
    """`vLLM · TTFT from send · whole run`: plain text."""
    told = result.get("imported") or {}
    tool = str(told.get("tool") or "")
    version = str(told.get("tool_version") or "")
    names = [f"{TOOLS.get(tool, tool)} {version}".strip(), *(b.title for b in badges(result, words))]
    return " · ".join(name for name in names if name)


def rescoring_note(result: c.Result, words: Words = ENGLISH) -> str | None:
    """How far other targets are followed, as a sentence; null where they are wholly, or nothing was imported."""
    notes = {
        "none": words.text("Summaries only: its goodput can't be worked out again."),
        "mean_only": words.text("It keeps no single gaps: its goodput is judged by the mean time per token."),
        "steps": words.text("A shared page: other targets are followed in the steps of its sliders."),
    }
    return notes.get(str((result.get("imported") or {}).get("rescoring")))


def _texts(words: Words) -> dict[str, tuple[str, str]]:
    return {
        "ttft_from_send": (
            words.text("TTFT from send"),
            words.text("The first token is timed from when the request was sent: waiting before that is not seen."),
        ),
        "ttft_from_due": (
            words.text("TTFT from due time"),
            words.text("Worked out again from when each request was due, so it is longer than the tool itself says."),
        ),
        "client_queue": (
            words.text("waits in the client counted"),
            words.text("The tool held requests back; here that wait counts as time to the first token."),
        ),
        "tpot_mean_of_request": (
            words.text("its TPOT is a mean"),
            words.text("Its own goodput judges (E2E − TTFT) / (n − 1), which hides stalls; here gaps are judged."),
        ),
        "role_chunk": (
            words.text("role chunk counted"),
            words.text("A first chunk without text counts as the first token, so TTFT may be too short."),
        ),
        "itl_is_tpot": (
            words.text("its ITL is TPOT"),
            words.text("What it calls inter-token latency is a mean a request; its inter-chunk latency is our gap."),
        ),
        "itl_with_first": (
            words.text("its ITL includes TTFT"),
            words.text("Its inter-token latency includes the wait for the first token and is left out here."),
        ),
        "tpot_with_first": (
            words.text("its TPOT includes TTFT"),
            words.text("Its time per output token includes the wait for the first token and is left out here."),
        ),
        "no_gaps": (
            words.text("no single gaps"),
            words.text("It keeps only the mean time per token of a request: stalls can't be seen."),
        ),
        "mean_only": (
            words.text("judged by the mean"),
            words.text("Goodput by the rule of the mean, because single gaps are not known."),
        ),
        "whole_run": (
            words.text("whole run"),
            words.text("Rates are over the whole run, its start and end included; nothing was dropped as warm-up."),
        ),
        "their_clock": (
            words.text("times of its event loop"),
            words.text("Times are as its own program saw them, not as the kernel received them."),
        ),
        "stated": (
            words.text("as stated"),
            words.text("Percentiles are the tool's own, interpolated and without a least number of requests."),
        ),
    }
