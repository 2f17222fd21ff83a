"""Which requests tell what an iteration costs: alone at several prompt lengths, and several at once. PURE."""

from collections.abc import Sequence
from dataclasses import dataclass

from runner.load.workload import RequestSpec

PROMPTS = (32, 128, 512, 1024)  # tokens
SEQS = (1, 2, 4, 8, 16)
ALONE_ANSWER, TOGETHER_ANSWER = 16, 40
SHORT_PROMPT = 32
TIMES = 3  # each step, apart in time: a hiccup of the machine shall not hit all of one kind
LONG_TOGETHER = 4  # sequences with long prompts beside each other: what reading much context costs
USUAL_CONTEXT = 2048
TEMPLATE_TOKENS = 64  # of a chat template, at most


@dataclass(frozen=True, slots=True)
class Step:
    """`seqs` requests sent at the same moment, and waited for."""

    seqs: int
    prompt_tokens: int
    output_tokens: int


def steps_for(seats: int | None, context_tokens: int | None, kv_tokens: int | None, rounds: int = TIMES) -> list[Step]:
    """The whole plan, in rounds. Null: the server did not say; then up to 16 at once and 2048 tokens of context."""
    context = context_tokens or USUAL_CONTEXT
    longest = max(1, context - ALONE_ANSWER - TEMPLATE_TOKENS)
    prompts = sorted({min(p, longest) for p in PROMPTS})
    most = min(max(SEQS), seats or max(SEQS))
    alone = [Step(1, p, ALONE_ANSWER) for p in prompts]
    answer = max(2, min(TOGETHER_ANSWER, context - SHORT_PROMPT - TEMPLATE_TOKENS))
    together = [Step(n, min(SHORT_PROMPT, longest), answer) for n in sorted({min(n, most) for n in SEQS})]
    beside = min(LONG_TOGETHER, most)
    long = [Step(beside, max(1, longest - answer), answer)] if beside > 1 else []
    long = [Step(s.seqs, min(s.prompt_tokens, prompts[-1]), s.output_tokens) for s in long]
    fits = [s for s in (*alone, *together, *long) if s.seqs * (s.prompt_tokens + s.output_tokens) <= (kv_tokens or 1e9)]
    return fits * rounds


def specs_of(step: Step, number: int, key: int) -> Sequence[RequestSpec]:
    """The requests of the step, all at its beginning. `key` differs between calibrations, so no prompt is known."""
    return [
        RequestSpec(i, "calibration", 0, 0, step.prompt_tokens, step.output_tokens, key + 1000 * number + i, i)
        for i in range(step.seqs)
    ]
