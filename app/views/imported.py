"""What of the results page an import's data do not allow, and why. PURE."""

from collections.abc import Mapping

from app.views import cells as c
from app.views.rules import rule_rows
from app.words import ENGLISH, Words

OF_REQUESTS = ("spread", "time", "stalls", "cell")
OF_GAPS = ("spread", "stalls", "cell")
OF_MOMENTS = ("stalls", "cell")
OF_GOODPUT = ("latency", "grid", "share", "rules")


def left_out(result: c.Result, words: Words = ENGLISH, *, requests: bool) -> dict[str, str]:
    """Section of the results page -> why this import has none; empty for a sweep of our own. What lacks most comes
    first: a section has one reason. `requests`: whether single requests are known."""
    told = result.get("imported")
    if not told:
        return {}
    found: dict[str, str] = {}
    kept = str(told.get("rescoring"))
    if not c.measured(result):
        summaries = words.text("the file holds summaries, of which no goodput can be worked out")
        found |= dict.fromkeys(OF_GOODPUT, summaries)
    if kept == "steps":
        found |= dict.fromkeys(OF_REQUESTS, words.text("a shared page holds counts of requests, not the requests"))
    elif not requests:
        found |= dict.fromkeys(OF_REQUESTS, words.text("the file tells nothing of single requests"))
    elif kept == "mean_only":
        found |= dict.fromkeys(OF_GAPS, words.text("the tool keeps no single gaps"))
    elif told.get("timed") is False:
        found |= dict.fromkeys(OF_MOMENTS, words.text("the tool does not tell when each request was sent"))
    if told.get("tool") != "goodput":
        found["batch"] = words.text("the file tells nothing of the server's batch")
    if "rules" not in found and not rule_rows(result):
        found["rules"] = words.text("other rules need the gaps of single requests")
    return found


def left_out_sentences(sections: Mapping[str, str], reasons: Mapping[str, str], words: Words = ENGLISH) -> list[str]:
    """One a reason. `sections`: section -> its title."""
    by_reason: dict[str, list[str]] = {}
    for name, title in sections.items():
        if name in reasons:
            by_reason.setdefault(reasons[name], []).append(title)
    return [
        words.text("Not shown: {parts}; {why}.", parts=", ".join(titles), why=why) for why, titles in by_reason.items()
    ]
