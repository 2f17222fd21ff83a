"""The answer in words: sentence, line to paste, warnings, Markdown for a forum. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.views import cells as c
from app.views.batch import batch_rows
from app.views.choice_notes import no_choice_reason
from app.views.percentiles import targets_of
from app.views.rules import rule_titles
from app.words import ENGLISH, Words
from runner.engines.start_line import suggested_line


@dataclass(frozen=True)
class Verdict:
    """`headline` first, `detail` second; `paste` is the start line or the settings; a missed target is said aloud."""

    headline: str
    detail: str
    paste: str | None
    target_met: bool
    against_raw: str | None


def origin_note(result: c.Result, words: Words = ENGLISH) -> str | None:
    """Says of a result that no real server stands behind it; null for a measured server."""
    if result.get("simulated"):
        return words.text("Simulated: nothing was measured, a model of the hardware was calculated in virtual time.")
    if (result.get("backend") or {}).get("kind") == "simulated":
        return words.text("Built-in engine: the hardware is modelled, only the traffic is real.")
    return None


def verdict(result: c.Result, words: Words = ENGLISH) -> Verdict:
    """What to set and what it gives; with nothing measured, that."""
    cell, choice = c.chosen_cell(result), result.get("choice") or {}
    if cell is None:
        return Verdict(words.text("No setting could be chosen."), no_choice_reason(choice, words), None, False, None)
    met = bool(choice.get("target_met"))
    name = c.setting_name(cell.get("setting") or {}, c.varying_keys(c.settings_of(result).values()), words)
    goodput = words.per_s(cell.get("goodput_per_s"), "req")
    wanted = float(result.get("share_target") or 1.0)
    unsure = (choice.get("share") or 0.0) >= wanted
    if met and not cell.get("setting"):
        headline = _capacity(cell, words)
    elif met:
        headline = words.text("{setting} keeps its promises at {goodput}.", setting=name, goodput=goodput)
    elif _doubtful(cell):
        headline = words.text(
            "Not to be relied on, measure again: {setting}, {goodput}.", setting=name, goodput=goodput
        )
    elif any(_doubtful(x) and (x.get("share_low") or 0.0) >= wanted for x in c.measured(result)):
        headline = words.text(
            "Measure again: what met the targets has a doubt, see the warnings. Without a doubt: {setting}, {goodput}.",
            setting=name,
            goodput=goodput,
        )
    elif unsure:
        headline = words.text("Not proven yet, measure longer: {setting}, {goodput}.", setting=name, goodput=goodput)
    else:
        headline = words.text(
            "Target missed everywhere. The least bad: {setting}, {goodput}.", setting=name, goodput=goodput
        )
    against = " ".join(filter(None, [_against_raw(result, cell, words), _against_goodput(result, cell, words)]))
    return Verdict(headline, _detail(cell, words), _paste(result, cell), met, against or None)


def _doubtful(cell: c.Cell) -> bool:
    """True for a point that was not measured cleanly, though not overloaded: it may be better than the pick."""
    return "overload" not in (cell.get("flags") or []) and c.why_invalid(cell) is not None


def _capacity(cell: c.Cell, words: Words) -> str:
    """The headline where only the load was varied: how many the server can take as it is."""
    axis, load = c.load_of(cell)
    if axis == "max_concurrency" and load:
        first = words.plural("{n} person can chat at once:", "{n} people can chat at once:", int(load))
        rate = cell.get("output_tok_per_s")
        return f"{first} " + words.text(
            "first words in {ttft}, {rate} each.",
            ttft=words.ms(c.percentile(c.promised(cell), "ttft_ms", "p50")),
            rate=words.per_s(None if rate is None else rate / load, "tok"),
        )
    goodput = words.per_s(cell.get("goodput_per_s"), "req")
    return words.text("The server as it is keeps its promises at {goodput}.", goodput=goodput)


def _detail(cell: c.Cell, words: Words) -> str:
    return words.text(
        "At {load}, {share} of requests stay inside the targets (95 % interval {low} to {high}, n = {n}).",
        load=c.load_name(cell, words),
        share=words.share(cell.get("share")),
        low=words.share(cell.get("share_low")),
        high=words.share(cell.get("share_high")),
        n=words.count(cell.get("judged") or cell.get("scheduled")),
    )


def _paste(result: c.Result, cell: c.Cell) -> str | None:
    """The start command when we know it or its kind, else the settings as `key = value` lines."""
    setting = cell.get("setting") or {}
    line = (result.get("choice") or {}).get("start_line") or cell.get("start_line")
    line = line or suggested_line(result.get("backend") or {}, setting)
    return str(line) if line else "\n".join(f"{k} = {v}" for k, v in setting.items()) or None


def _against_raw(result: c.Result, cell: c.Cell, words: Words) -> str | None:
    """Why the throughput winner is not the pick."""
    raw = c.raw_winner(result)
    if raw is None or raw["cell"] == cell["cell"]:
        return None
    name = c.setting_name(raw.get("setting") or {}, c.varying_keys(c.settings_of(result).values()), words)
    values = {
        "setting": name,
        "load": c.load_name(raw, words),
        "raw": words.per_s(raw.get("output_tok_per_s"), "tok"),
        "share": words.share(raw.get("share")),
        "goodput": words.per_s(raw.get("goodput_per_s"), "req"),
    }
    first = words.text("The most raw tokens come from {setting} at {load}: {raw}.", **values)
    if (raw.get("share") or 0.0) < (cell.get("share") or 0.0):
        return f"{first} " + words.text("But only {share} of requests stay inside the targets: {goodput}.", **values)
    return f"{first} " + words.text("Inside the targets: {share} of requests, {goodput}.", **values)


def _against_goodput(result: c.Result, cell: c.Cell, words: Words) -> str | None:
    """Why a point above the pick is not the pick: more good requests, but too many bad ones among them."""
    wanted, own = float(result.get("share_target") or 1.0), cell.get("goodput_per_s") or 0.0
    above = [x for x in c.measured(result) if c.why_invalid(x) is None and x is not c.raw_winner(result)]
    best = max(above, key=lambda x: float(x["goodput_per_s"]), default=None)
    if best is None or best["goodput_per_s"] <= own or (best.get("share") or 0.0) >= wanted:
        return None
    return words.text(
        "{setting} at {load} has more good requests, {goodput}, but only {share} stay inside; {wanted} are wanted.",
        setting=c.setting_name(best.get("setting") or {}, c.varying_keys(c.settings_of(result).values()), words),
        load=c.load_name(best, words),
        goodput=words.per_s(best["goodput_per_s"], "req"),
        share=words.share(best.get("share")),
        wanted=words.share(wanted),
    )


def target_sentences(result: c.Result, words: Words = ENGLISH) -> list[str]:
    """One sentence a class: what it was promised."""
    rules = {
        "p99_gap": words.text("99 % of its own gaps"),
        "mean_tpot": words.text("its mean time per token"),
        "every_gap": words.text("every gap"),
        "deadline": words.text("every token's deadline, one step of"),
        "fluidity": words.text("its token deadlines, one step of"),
    }
    return [
        words.text(
            "{name}: first token within {ttft}, {rule} within {gap}",
            name=name,
            ttft=words.ms(t.get("ttft_ms")),
            gap=words.ms(t.get("gap_ms")),
            rule=rules.get(str(t.get("rule") or result.get("rule") or "p99_gap"), str(t.get("rule"))),
        )
        for name, t in targets_of(result).items()
    ]


def warning_rows(result: c.Result, words: Words = ENGLISH) -> list[dict[str, str]]:
    """Warnings of the sweep and its cells: title, remedy, where (cells, from 1). One row a type and text."""
    found: dict[tuple[str, str], list[str]] = {}
    for w in result.get("warnings") or []:
        where = [str(c.shown_number(w["cell"]))] if isinstance(w, Mapping) and w.get("cell") is not None else []
        found.setdefault(warning_text(w, words), []).extend(where)
    for cell in c.cells_of(result):
        for w in cell.get("warnings") or []:
            found.setdefault(warning_text(w, words), []).append(str(c.shown_number(cell["cell"])))
    return [
        {"title": title, "remedy": remedy, "where": ", ".join(dict.fromkeys(where))}
        for (title, remedy), where in found.items()
    ]


def warning_text(warning: object, words: Words) -> tuple[str, str]:
    """(what is wrong, remedy) of one warning object; its templates are translated and filled in."""
    if not isinstance(warning, Mapping):
        return c.flag_text(str(warning), words), ""
    if warning.get("template"):
        values = dict(warning.get("values") or {})
        if warning.get("type") == "rule_sensitive":
            titles = rule_titles(words)
            ids = str(values.get("rules") or "").split(", ")
            values["rules"] = ", ".join(words.text("“{rule}”", rule=titles.get(i, i)) for i in ids)
        if values.get("changes"):
            values["changes"] = ", ".join(words.said(one) for one in str(values["changes"]).split(", "))
        if values.get("kinds"):
            counts = (one.partition(" ") for one in str(values["kinds"]).split(", "))
            values["kinds"] = ", ".join(f"{n} {c.error_text(kind, words)}" for n, _, kind in counts)
        return words.text(warning["template"], **values), words.text(warning.get("remedy_template") or "", **values)
    told = warning.get("text") or c.flag_text(str(warning.get("type")), words)
    return words.said(told), words.said(warning.get("remedy") or "")


def markdown(result: c.Result, words: Words = ENGLISH) -> str:
    """The sweep as a forum post: verdict, targets, the frontier's table, what it ran on."""
    v = verdict(result, words)
    lines = [f"### {_md(str(result.get('name') or ''))}", "", f"**{_md(v.headline)}** {_md(v.detail)}", ""]
    lines += [_md(v.against_raw), ""] if v.against_raw else []
    if v.paste:
        lines += ["```", v.paste.replace("```", "'''"), "```", ""]
    lines += [f"- {_md(s)}" for s in target_sentences(result, words)] + [""]
    lines += _md_table(result, words)
    lines += [f"- {_md(r['name'])}: {_md(r['sentence'])}" for r in batch_rows(result, words)]
    environment = [f"{k} {v}" for k, v in flat_facts(result)]
    lines += ["", _md(" · ".join(environment))] if environment else []
    return "\n".join(lines).rstrip() + "\n"


def _md(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join("\\" + ch if ch in "\\`*_[]<>|#" else " " if ch in "\r\n" else ch for ch in text)


def _md_table(result: c.Result, words: Words) -> list[str]:
    names = c.setting_names(result, words)
    head = [words.text("setting"), words.text("load"), words.text("goodput req/s"), words.text("inside targets"),
            "tok/s", "TTFT p95", words.text("gap p95")]  # fmt: skip
    rows = [
        [
            names[c.key_of(x.get("setting") or {})] + (" ✔" if x is c.chosen_cell(result) else ""),
            c.load_name(x, words),
            words.significant(x.get("goodput_per_s")),
            words.share(x.get("share")),
            words.significant(x.get("output_tok_per_s")),
            words.ms(c.percentile(c.promised(x), "ttft_ms", "p95")),
            words.ms(c.percentile(c.promised(x), "gap_ms", "p95")),
        ]
        for x in c.measured(result)
        if x.get("on_frontier") or x is c.chosen_cell(result) or x is c.raw_winner(result)
    ]
    return (
        ["| " + " | ".join(_md(v) for v in row) + " |" for row in [head]]
        + ["|" + " --- |" * len(head)]
        + ["| " + " | ".join(_md(v) for v in row) + " |" for row in rows]
        + [""]
    )


def flat_facts(result: c.Result) -> list[tuple[str, str]]:
    """Environment and backend as (name, value) pairs, nested names joined by a dot; nulls left out."""
    pairs: list[tuple[str, str]] = []

    def walk(prefix: str, value: object) -> None:
        if isinstance(value, Mapping):
            for k, v in value.items():
                walk(f"{prefix}.{k}" if prefix else str(k), v)
        elif isinstance(value, list | tuple):
            if value:
                pairs.append((prefix, ", ".join(str(v) for v in value)))
        elif value is not None:
            pairs.append((prefix, str(value)))

    walk("", dict(result.get("backend") or {}))
    walk("", dict(result.get("environment") or {}))
    return pairs
