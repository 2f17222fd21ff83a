"""What bound a setting, in words: the verdict of runner.analysis.bound, and what stands beside it. PURE."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.views import cells as c
from app.words import ENGLISH, Words
from runner.analysis.bound import TEXTS
from runner.engines.catalogue import KINDS


def bound_name(by: str, words: Words = ENGLISH) -> str:
    """One bound as a word; one of a newer version as it is."""
    known = {
        "seats": words.text("seats"),
        "token_budget": words.text("token budget"),
        "kv": words.text("KV cache"),
        "load": words.text("the load"),
        "client": words.text("the client"),
        "unknown": words.text("not known"),
    }
    return known.get(by, by.replace("_", " "))


def bound_sentence(cell: c.Cell, words: Words = ENGLISH) -> str | None:
    """`The KV cache was the bound: limit 256, never above 37; KV full at 41; 12 preemptions; the queue was empty.`

    Null for a cell without a verdict. A part that this version does not know leaves the result's own English text.
    """
    bound = cell.get("bound") or {}
    parts = bound.get("parts") or []
    if not parts or any(p["id"] not in TEXTS for p in parts):
        return bound.get("text")
    lead, *rest = [_part_text(p, words) for p in parts]
    return f"{lead}: {'; '.join(rest)}." if rest else f"{lead}."


def _part_text(part: Mapping[str, Any], words: Words) -> str:
    text, values = TEXTS[part["id"]], dict(part.get("values") or {})
    if isinstance(text, str):
        return words.text(text, **values)
    return words.plural(text[0], text[1], int(values.pop("n")), **values)


def over_loads(result: c.Result, setting_key: str, words: Words = ENGLISH) -> str | None:
    """`Over the loads: the load at 1 req/s, seats from 2 req/s on.`; null where it is the same at every load."""
    rows = [x for x in c.by_load(c.measured(result), setting_key) if x.get("bound")]
    steps = [x for i, x in enumerate(rows) if i == 0 or x["bound"]["by"] != rows[i - 1]["bound"]["by"]]
    if len(steps) < 2:
        return None
    told = [
        words.text("{bound} from {load} on", bound=bound_name(x["bound"]["by"], words), load=c.load_name(x, words))
        for x in steps
    ]
    return words.text("Over the loads: {steps}.", steps=", ".join(told))


def seen_sentence(cell: c.Cell, words: Words = ENGLISH) -> str | None:
    """The batch that the server tells beside the one that its streams show from outside; null without the latter."""
    engine = cell.get("engine") or {}
    together, steps = engine.get("arrivals_together_mean"), engine.get("batch_seqs_mean")
    if together is None:
        return None
    values = {"together": words.significant(together), "steps": words.significant(steps)}
    if steps is None:
        return words.text("Seen from outside, tokens of {together} answers arrive together on average.", **values)
    return words.text(
        "Sequences a step: the server says {steps}, from outside tokens of {together} answers arrive together.",
        **values,
    )


def ttft_sentence(cell: c.Cell, words: Words = ENGLISH) -> str | None:
    """`First token, from send: the server says 0.41 s, the client saw 0.43 s.`; null where the server does not tell."""
    engine = cell.get("engine") or {}
    server, client = engine.get("server_ttft_mean_s"), engine.get("client_ttft_mean_s")
    if server is None or client is None:
        return None
    return words.text(
        "First token on average: the server says {server}, the client saw {client}.",
        server=words.ms(server * 1000),
        client=words.ms(client * 1000),
    )


def cell_sentences(cell: c.Cell, words: Words = ENGLISH) -> list[str]:
    """All that is known about one cell's batch, a sentence each."""
    return [s for s in (bound_sentence(cell, words), seen_sentence(cell, words), ttft_sentence(cell, words)) if s]


def blind_hint(result: c.Result, words: Words = ENGLISH) -> str | None:
    """How to let the server tell its batch, said once; null where its metrics were read in some cell, or nothing was
    measured."""
    sources = {(x.get("engine") or {}).get("source") for x in c.measured(result)} - {None}
    kind = KINDS.get(str((result.get("backend") or {}).get("kind")))
    if not sources or "metrics" in sources or kind is None:
        return None
    hint = words.text(kind.metrics_hint)
    if sources == {"none"}:
        return words.text(
            "Nothing was seen inside the server: {hint}. The batch below is what its streams show.", hint=hint
        )
    return words.text("Only a part was seen inside the server: {hint}.", hint=hint)


def observed_columns(words: Words = ENGLISH) -> list[tuple[str, str, str]]:
    """(key of the engine object or row, title, kind as in views.table) of limit against observed batch."""
    return [
        ("limit", words.text("batch limit"), "count"),
        ("running_mean", words.text("running mean"), "rate"),
        ("running_max", words.text("running max"), "count"),
        ("batch_seqs_mean", words.text("sequences a step"), "rate"),
        ("batch_tokens_mean", words.text("tokens a step"), "rate"),
        ("batch_tokens_at_most", words.text("no step above (tokens)"), "count"),
        ("batch_tokens_max", words.text("tokens a step, fullest second"), "count"),
        ("waiting_max", words.text("waiting max"), "count"),
        ("kv_cache_usage_max", words.text("KV max"), "share"),
        ("num_preemptions", words.text("preemptions"), "count"),
        ("streams_mean", words.text("streams mean (outside)"), "rate"),
        ("streams_max", words.text("streams max (outside)"), "count"),
        ("arrivals_together_mean", words.text("arrive together, mean (outside)"), "rate"),
        ("arrivals_together_max", words.text("arrive together, max (outside)"), "count"),
    ]


def told_columns(rows: Sequence[Mapping[str, Any]], words: Words = ENGLISH) -> list[tuple[str, str, str]]:
    """The observed columns that any of the rows has a value for."""
    return [column for column in observed_columns(words) if any(row.get(column[0]) is not None for row in rows)]
