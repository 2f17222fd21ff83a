"""The same requests judged by five gap rules: what passes on the mean may stall in practice. PURE."""

from typing import Any

from app.views import cells as c
from app.words import ENGLISH, Words

RULES = ("p99_gap", "mean_tpot", "every_gap", "deadline", "fluidity")
BLIND_BY = 0.05  # a mean that is kinder than the requests' own gaps by this share deserves a sentence


def rule_titles(words: Words = ENGLISH) -> dict[str, str]:
    """Rule -> what it asks of a request, in a few words."""
    return {
        "p99_gap": words.text("99 % of its own gaps in time"),
        "mean_tpot": words.text("mean time per token in time"),
        "every_gap": words.text("every gap in time"),
        "deadline": words.text("every token by its deadline"),
        "fluidity": words.text("enough token deadlines met"),
    }


def rule_rows(result: c.Result, cell: c.Cell | None = None) -> list[dict[str, Any]]:
    """One row a class with targets: {"class", "rules": {rule: share 0–1 or None}}; of the pick unless told."""
    shown = cell or c.chosen_cell(result)
    rows = []
    for name in c.interactive_classes(result) if shown else ():
        shares = ((shown or {}).get("classes") or {}).get(name, {}).get("rules") or {}
        if any(v is not None for v in shares.values()):
            rows.append({"class": name, "rules": {r: shares.get(r) for r in RULES}})
    return rows


def blind_mean(result: c.Result, words: Words = ENGLISH) -> str | None:
    """The cell and class where the mean hides most, as a sentence; None where it hides next to nothing."""
    worst: tuple[float, c.Cell, str] | None = None
    for cell in c.measured(result):
        for row in rule_rows(result, cell):
            mean, own = row["rules"]["mean_tpot"], row["rules"]["p99_gap"]
            hidden = mean - own if mean is not None and own is not None else 0.0
            if hidden > (worst[0] if worst else BLIND_BY):
                worst = (hidden, cell, row["class"])
    if worst is None:
        return None
    _, cell, name = worst
    shares = cell["classes"][name]["rules"]
    return words.text(
        "Passes on the mean, stalls in practice: with {setting} at {load}, {mean} of {name} requests pass by their "
        "mean time per token, and {own} by their own gaps.",
        setting=c.setting_names(result, words)[c.key_of(cell.get("setting") or {})],
        load=c.load_name(cell, words),
        mean=words.share(shares["mean_tpot"]),
        name=name,
        own=words.share(shares["p99_gap"]),
    )
