"""What is asked of the measured clients: so many streams at a time, or so many requests a second."""

import re
from dataclasses import dataclass

from runner.errors import ConfigError

RAMP_S = 2.0
SETTLE_S = 0.5
SHORT_TOKENS = 32  # two spoken sentences; answers of a few tokens would measure HTTP requests, not streams
SHORT_RATE = 50.0
EXAMPLES = "256x50 (streams x tokens per second of each) or 500/s (requests per second, short answers)"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Closed loop: `streams` workers, one answer after the other. Open loop: `requests_per_s`, come what may."""

    name: str
    streams: int  # 0: open loop
    requests_per_s: float  # 0: closed loop
    rate: float  # tokens/s of each stream
    tokens: int  # of each answer

    @property
    def events_per_s(self) -> float:
        return self.streams * self.rate or self.requests_per_s * self.tokens


def parse_scenario(text: str, tokens: int) -> Scenario:
    """ "256x50" -> 256 streams of 50 tokens/s each, answers of `tokens`; "500/s" -> 500 requests a second with
    answers of 32 tokens."""
    if (match := re.fullmatch(r"(\d+)x(\d+(?:\.\d+)?)", text)) and int(match[1]) >= 1 and float(match[2]) > 0:
        return Scenario(text, int(match[1]), 0.0, float(match[2]), tokens)
    if (match := re.fullmatch(r"(\d+(?:\.\d+)?)/s", text)) and float(match[1]) > 0:
        return Scenario(text, 0, float(match[1]), SHORT_RATE, SHORT_TOKENS)
    raise ConfigError(f"bench-client: --scenario {text} is not a scenario; write for example {EXAMPLES}")


def ramp_s(seconds: float) -> float:
    """Workers begin evenly over this time. Begun at one moment, all their tokens would come at one moment as well, but
    more or less so depending on how fast the client begins: then no two clients would have the same work."""
    return min(RAMP_S, seconds / 4)
