"""When requests are sent: (process, rate, seed) -> offsets. PURE.

Gaps are drawn at unit rate (mean 1) and divided by the rate afterwards. One seed therefore gives one relative
trace: every rate sends the same pattern, only faster or slower, so that settings and rates can be compared in
pairs; and a longer run only appends to a shorter one.
"""

import hashlib
from typing import Literal

import numpy as np
import numpy.typing as npt

Process = Literal["constant", "poisson", "gamma"]
Purpose = Literal["arrivals", "prompt_tokens", "output_tokens", "mix"]

_PURPOSES: tuple[Purpose, ...] = ("arrivals", "prompt_tokens", "output_tokens", "mix")
RAREST = 1e-12  # requests/s: a smaller share of a small rate is as good as none
_BLOCK = 1024  # draws at a time; always whole blocks, so that a longer trace repeats the shorter one exactly


def random_stream(seed: int, name: str, purpose: Purpose) -> np.random.Generator:
    """The generator of one class for one purpose; it depends on nothing else, so a new class changes no other's."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    key = (int.from_bytes(digest[:4]), int.from_bytes(digest[4:]), _PURPOSES.index(purpose))
    entropy = (abs(seed), int(seed < 0))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=key)))


def arrival_offsets_ns(
    process: Process, rate: float, total_s: float, rng: np.random.Generator, cv: float = 1.0
) -> npt.NDArray[np.int64]:
    """Offsets from the origin in ns, ascending, all below `total_s`.

    `rate` is in requests per second; `cv` is the coefficient of variation of `gamma` gaps (1 = Poisson, above 1 =
    bursts). A constant process sends in the middle of each interval, (k + 1/2)/rate: exactly rate * total_s
    requests when that is whole, and none at the very start, where everything else starts too.
    """
    total_ns = round(total_s * 1e9)
    if process == "constant":
        units = np.arange(int(rate * total_s) + 1, dtype=np.float64) + 0.5
    else:
        units = _unit_arrivals(rate * total_s, rng, 1.0 if process == "poisson" else cv)
    offsets = np.rint(units * (1e9 / max(rate, RAREST)))
    return offsets[offsets < total_ns].astype(np.int64)  # in this order: at tiny rates an offset fits no int64


def _unit_arrivals(until: float, rng: np.random.Generator, cv: float) -> npt.NDArray[np.float64]:
    """Arrival times of a renewal process with gamma gaps of mean 1 (shape 1/cv^2), from 0 to just past `until`."""
    shape = 1.0 / cv**2
    blocks: list[npt.NDArray[np.float64]] = []
    reached = 0.0
    while reached <= until:
        gaps = rng.standard_gamma(shape, _BLOCK) / shape if cv != 1.0 else rng.standard_exponential(_BLOCK)
        blocks.append(gaps)
        reached += float(gaps.sum())
    return np.cumsum(np.concatenate(blocks)) if blocks else np.empty(0)
