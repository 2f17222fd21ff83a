"""Sections that not every sweep has: searched loads, background work kept apart, requests that froze. PURE."""

from collections.abc import Mapping, Sequence

import pandas as pd

from app.export.sections import esc, figure_slot, scrolled, section
from app.views import cells as c
from app.views.badges import badge_line, badges, rescoring_note
from app.views.isolation import gap_sentences, has_isolation, isolation_rows, verdict_sentence
from app.views.rates import rate_rows
from app.views.stalls import stall_rows, stall_sentence
from app.words import Words

MOST_STALLS = 20


def origin(result: c.Result, words: Words) -> str:
    """Of an import: which tool measured it, and how its definitions differ from ours."""
    tool = badge_line(result, words).partition(" · ")[0]
    if not tool:
        return ""
    rows = "".join(f"<dt>{esc(b.title)}</dt><dd>{esc(b.help)}</dd>" for b in badges(result, words))
    note = rescoring_note(result, words)
    body = f'<dl class="method">{rows}</dl>' if rows else ""
    return section("origin", words.text("Measured by {tool}", tool=tool), body, intro=esc(note) if note else "")


def distributions(slots: Mapping[str, str], words: Words) -> str:
    """First-token times and gaps of the pick, whole; `slots`: figure name -> what a screen reader says."""
    body = "".join(figure_slot(name, alt) for name, alt in slots.items())
    intro = esc(
        words.text("Of the sweep's own pick, against its own targets: what share of the times was within which value.")
    )
    title = words.text("How the pick's times spread")
    return section("spread", title, body, intro=intro, scripted=True) if body else ""


def time(alt: str, words: Words) -> str:
    """Where the time of a request goes, cell by cell."""
    return section("time", words.text("Where the time goes"), figure_slot("time", alt), scripted=True)


def rates(result: c.Result, words: Words) -> str:
    """The largest load at which each setting keeps its promises, where it was searched for."""
    rows = rate_rows(result, words)
    if not rows:
        return ""
    lines = "".join(
        f"<li><b>{esc(r['name'])}</b>: {esc(r['reason'] or words.significant(r['rate']))}</li>" for r in rows
    )
    slot = figure_slot("rates", words.text("largest load of each setting"))
    body = f'<div class="scripted">{slot}</div><ul class="facts">{lines}</ul>'
    return section("rates", words.text("Largest load"), body)


def isolation(result: c.Result, words: Words) -> str:
    """What keeping background work apart gives the chats and costs the work, where that was asked."""
    if not has_isolation(result):
        return ""
    told = result["isolation"]
    slot = figure_slot("isolation", words.text("what each way gives the chats and costs the background work"))
    table = _table(isolation_rows(told, words), words.text("Every way with its numbers."))
    notes = "".join(f'<p class="note">{esc(s)}</p>' for s in gap_sentences(told, words))
    body = f'<div class="scripted">{slot}</div>{notes}{table}'
    return section("isolation", words.text("Background work"), body, intro=esc(verdict_sentence(told, words)))


def stalls(stalled: pd.DataFrame | None, result: c.Result, words: Words) -> str:
    """Requests that pass by their mean and froze all the same, the longest first."""
    sentence = None if stalled is None else stall_sentence(stalled, words)
    if stalled is None or sentence is None:
        return ""
    titles = {
        "cell": words.text("cell"),
        "class_name": words.text("class"),
        "at": words.text("froze at"),
        "longest_gap": words.text("longest gap"),
        "tpot": "TPOT",
        "long_gaps": words.text("gaps over target"),
        "stalled": words.text("frozen in all"),
    }
    rows = [
        {title: str(c.shown_number(r[key]) if key == "cell" else r[key]) for key, title in titles.items()}
        for r in stall_rows(stalled, words, MOST_STALLS)
    ]
    caption = words.text("The longest freezes, at the sweep's own targets.")
    title = words.text("Passes on the mean, stalls in practice")
    return section("stalls", title, _table(rows, caption), intro=esc(sentence))


def _table(rows: Sequence[Mapping[str, str]], caption: str) -> str:
    names = list(rows[0]) if rows else []
    head = "".join(f'<th scope="col">{esc(n)}</th>' for n in names)
    body = "".join(
        "<tr>"
        + f'<th scope="row">{esc(row[names[0]])}</th>'
        + "".join(f"<td>{esc(row[n])}</td>" for n in names[1:])
        + "</tr>"
        for row in rows
    )
    return scrolled("rules", esc(caption), f"<tr>{head}</tr>", body)
