"""What stands beside the choice, in the reader's language. PURE."""

from collections.abc import Mapping
from typing import Any

from app.views import cells as c
from app.views.rules import rule_titles
from app.words import ENGLISH, Words
from runner.analysis.choice import WHY


def choice_notes(result: c.Result, words: Words = ENGLISH) -> list[str]:
    """One sentence each: who came next within noise, who wins by another rule, what is left to background work."""
    keys = c.varying_keys(c.settings_of(result).values())
    return [
        words.text(note["template"], **_values(note["values"], keys, words))
        for note in (result.get("choice") or {}).get("notes") or []
    ]


def _values(values: Mapping[str, Any], keys: list[str], words: Words) -> dict[str, Any]:
    out = dict(values)
    if "other_setting" in values:
        out["other"] = c.setting_name(values["other_setting"], keys, words)
        out["other_load"] = c.load_name({"load": values["other_level"]}, words)
    if "rules" in values:
        titles = rule_titles(words)
        out["rules"] = ", ".join(words.text("“{rule}”", rule=titles.get(r, r)) for r in values["rules"].split(", "))
    for key in ("other_goodput", "work", "other_work"):
        if key in values:
            out[key] = words.significant(values[key])
    return out


def budget_reason(result: c.Result, words: Words = ENGLISH) -> str | None:
    """What a search within a time used it for, how sure its winner is, and what more would buy; null for others."""
    budget = result.get("budget") or {}
    if not budget.get("reason"):
        return None
    values = dict(budget.get("reason_values") or {})
    told, keys = budget.get("verification") or {}, c.varying_keys(c.settings_of(result).values())
    for name, setting in (("setting", told.get("setting")), ("rival", told.get("against"))):
        if setting is not None:
            values[name] = c.setting_name(setting, keys, words)
    if told.get("load"):
        values["load"] = c.load_name({"load": told["load"]}, words)
    texts = [words.text(t, **values) for t in budget.get("reason_templates") or []]
    return " ".join(texts) or words.said(budget["reason"])


def no_choice_reason(choice: Mapping[str, Any], words: Words = ENGLISH) -> str:
    """Why nothing could be chosen; empty without a reason."""
    templates, values = choice.get("reason_templates") or [], dict(choice.get("reason_values") or {})
    if len(templates) != 1:
        return words.said(choice.get("reason") or "")
    if values.get("why") in WHY.values():
        values["why"] = words.text(values["why"])
    return words.text(templates[0], **values) if values else words.text(templates[0])
