"""Arms of an isolation experiment of which nothing is known, and why."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from runner.analysis.choice import WHY
from runner.analysis.isolation_texts import WHY_NOT
from runner.analysis.prepare import CellFacts

Way = tuple[str | None, str, int | None]  # kind (None: of no interest), name, cap


@dataclass(frozen=True)
class Missing:
    """One arm. `status`: failed, skipped, pending, or empty (measured, but nobody who waits sent anything)."""

    kind: str
    name: str
    cap: int | None
    status: str
    error_kind: str | None
    error_detail: str | None

    @property
    def why(self) -> str:
        """As a clause after "because"."""
        return WHY.get(self.error_kind or "") or WHY_NOT[self.status]

    def row(self) -> dict[str, Any]:
        """As the result object tells it."""
        return {
            "arm": self.name,
            "kind": self.kind,
            "cap": self.cap,
            "status": self.status,
            "error_kind": self.error_kind,
            "error_detail": self.error_detail,
            "why": self.why,
        }


def missing_arms(
    cells: Sequence[CellFacts], way_of: Callable[[CellFacts], Way], known: Collection[str]
) -> list[Missing]:
    """Of the cells those whose arm is not among the names `known`; one entry an arm, its first cell's fate."""
    out: dict[str, Missing] = {}
    for facts in cells:
        kind, name, cap = way_of(facts)
        if kind is None or name in known or name in out:
            continue
        status = facts.status if facts.status in WHY_NOT else "empty"
        failed = status == "failed"
        out[name] = Missing(
            kind,
            name,
            cap,
            status,
            facts.base["error_kind"] if failed else None,
            facts.base["error_detail"] if failed else None,
        )
    return list(out.values())
