"""KoboldCpp's /api/extra/perf (JSON) -> sequences running and waiting. PURE."""

import json


def parse_status(text: str) -> dict[str, float] | None:
    """Null when the text is no such page. It serves one request at a time: `idle` is 0 while it does, `queue` wait."""
    try:
        status = json.loads(text)
        return {"running": 0.0 if int(status["idle"]) else 1.0, "waiting": float(max(0, int(status["queue"])))}
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
