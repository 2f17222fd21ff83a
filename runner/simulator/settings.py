"""What a built-in engine is served with, and how long its requests may be. PURE."""

from dataclasses import dataclass, field

from runner.errors import ConfigError
from runner.simulator.cost_model import largest_safe_token_budget
from runner.simulator.presets import EngineProfile
from runner.simulator.schedulers.by_name import RESERVING, longest_request, scheduler_named
from runner.simulator.state import BLOCK_TOKENS, Knobs

LEAST_CONTEXT_TOKENS = 16
MOST_INSTANCES = 1024  # more than any rack has: a slip of the hand must not fill the memory
# a target and a batch as the new-sweep form has them
USUAL_GAP_MS, USUAL_ANSWERS, USUAL_CONTEXT_TOKENS = 150, 16, 1000


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How to serve. `max_model_len` None: as much as the scheduler can take; `max_queue` None: no limit; port 0: free.

    `knobs.max_model_len` is what static and orca reserve for a request.
    """

    profile: EngineProfile
    knobs: Knobs = field(default_factory=Knobs)
    scheduler: str = "vllm_v1"
    model: str = "goodput-engine"
    host: str = "127.0.0.1"
    port: int = 8000
    max_model_len: int | None = None
    max_queue: int | None = None

    @property
    def total_blocks(self) -> int:
        """KV blocks of each instance."""
        return self.profile.kv_tokens // BLOCK_TOKENS


def context_tokens(settings: ServerSettings) -> int:
    """Longest prompt plus answer the server takes.

    Raises ConfigError for a scheduler that is not there, a setting it has no use for, or a context it cannot hold.
    """
    scheduler_named(settings.scheduler)
    if settings.knobs.policy == "priority" and settings.scheduler != "vllm_v1":
        raise ConfigError(f"policy priority belongs to vllm_v1; {settings.scheduler} serves by arrival: leave it out")
    if max(settings.knobs.prefill_instances, settings.knobs.decode_instances) > MOST_INSTANCES:
        raise ConfigError(f"prefill_instances and decode_instances go up to {MOST_INSTANCES:,}: give fewer")
    pool = settings.total_blocks * BLOCK_TOKENS
    most = min(pool, longest_request(settings.scheduler, settings.knobs, settings.total_blocks))
    wanted = settings.max_model_len
    if wanted is not None and wanted > pool:
        raise ConfigError(
            f"--max-model-len {wanted} is more than the KV pool's {pool} tokens; lower it or raise --kv-tokens"
        )
    if settings.scheduler == "llama_cpp" and (wanted or LEAST_CONTEXT_TOKENS) > most:
        raise ConfigError(
            f"--max-num-seqs {settings.knobs.max_num_seqs} leaves each slot {most} of the KV pool's {pool} tokens; "
            "lower it, raise --kv-tokens or give --kv-unified"
        )
    return most if wanted is None or settings.scheduler in RESERVING else wanted


def budget_note(settings: ServerSettings) -> str:
    """What an iteration may take beside decodes, by the cost model; empty when prefill tokens cost nothing."""
    seats = min(settings.knobs.max_num_seqs, USUAL_ANSWERS)
    kv_tokens = min(seats * USUAL_CONTEXT_TOKENS, settings.profile.kv_tokens)
    cost = settings.profile.cost
    try:
        alone = largest_safe_token_budget(cost, USUAL_GAP_MS, 0, 0)
        beside = largest_safe_token_budget(cost, USUAL_GAP_MS, seats, kv_tokens)
    except ValueError:
        return ""
    return (
        f"largest safe token budget for gaps of {USUAL_GAP_MS} ms: {alone}, "
        f"and {beside} beside {seats} answers of {USUAL_CONTEXT_TOKENS} tokens"
    )
