"""What a machine could answer, by its cost model: where rates worth trying are. PURE."""

import math
from collections.abc import Sequence

from runner.config import RequestClass
from runner.load.event_rate import mean_tokens
from runner.simulator.cost_model import BatchShape, iteration_ms
from runner.simulator.presets import EngineProfile


def capacity_per_s(profile: EngineProfile, classes: Sequence[RequestClass], max_num_seqs: int) -> float:
    """Requests/s that full batches could answer: the prompt's iteration, and a share of an iteration a token.

    Of the classes with a weight, mixed by it; else of all alike.
    """
    mix = [c for c in classes if c.weight] or list(classes)
    weights = [c.weight or 1.0 for c in mix]
    prompt = sum(w * mean_tokens(c.prompt_tokens) for w, c in zip(weights, mix, strict=True)) / math.fsum(weights)
    output = sum(w * mean_tokens(c.output_tokens) for w, c in zip(weights, mix, strict=True)) / math.fsum(weights)
    seqs = max(1, min(max_num_seqs, int(profile.kv_tokens / (prompt + output))))
    context = prompt + output / 2
    prefill_ms = iteration_ms(profile.cost, BatchShape(round(prompt), round(prompt**2)))
    decode_ms = iteration_ms(profile.cost, BatchShape(0, 0, seqs, round(seqs * context))) / seqs
    return 1000 / max(prefill_ms + output * decode_ms, 1e-3)
