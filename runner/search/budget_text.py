"""The time a sweep may take, as people write it: 20m, 90m, 8h, 1h30m, 45s."""

import re

_PARTS = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
MOST_S = 30 * 86_400.0


def budget_seconds(text: str) -> float:
    """Raises ValueError for what is no span of time, or one of nothing or of more than 30 days."""
    found = _PARTS.fullmatch(text.replace(" ", ""))
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0, 0.0, 0.0)
    total = 3600 * hours + 60 * minutes + seconds
    if not 0 < total <= MOST_S:
        raise ValueError(f'budget is "{text}"; write the time the sweep may take, such as "20m", "90m" or "8h"')
    return total
