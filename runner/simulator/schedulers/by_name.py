"""Which schedulers the built-in engine has, and the state each begins with."""

from runner.errors import ConfigError
from runner.simulator.core import Plan
from runner.simulator.schedulers import distserve, llama_cpp, orca, sarathi, static, vllm_v0, vllm_v1
from runner.simulator.state import BLOCK_TOKENS, EngineState, Knobs

SCHEDULERS: dict[str, Plan] = {
    "static": static.plan,
    "orca": orca.plan,
    "vllm_v0": vllm_v0.plan,
    "vllm_v1": vllm_v1.plan,
    "sarathi": sarathi.plan,
    "distserve": distserve.plan,
    "llama_cpp": llama_cpp.plan,
}
RESERVING = ("static", "orca")  # a request takes max_model_len tokens of the pool, used or not


def scheduler_named(name: str) -> Plan:
    """The plan step of a scheduler. Raises ConfigError naming those there are."""
    if name not in SCHEDULERS:
        raise ConfigError(f"scheduler {name!r} is not known; choose one of {', '.join(SCHEDULERS)}")
    return SCHEDULERS[name]


def new_state(scheduler: str, knobs: Knobs, total_blocks: int) -> EngineState:
    """An empty engine; each instance has `total_blocks` of KV. Only vllm_v1 knows priorities and a prefix cache."""
    disaggregated = scheduler == "distserve"
    lanes = knobs.prefill_instances + knobs.decode_instances if disaggregated else 1
    state = EngineState(total_blocks, knobs.policy if scheduler == "vllm_v1" else "fcfs", lanes)
    for lane in state.lanes:
        lane.hands_over = disaggregated and lane.index < knobs.prefill_instances
        lane.caches = scheduler == "vllm_v1" and knobs.prefix_caching
    state.longest_tokens = longest_request(scheduler, knobs, total_blocks)
    return state


def longest_request(scheduler: str, knobs: Knobs, total_blocks: int) -> int:
    """Most tokens, prompt and answer, of a request the engine can take. A last token is emitted, never stored."""
    pool = total_blocks * BLOCK_TOKENS + 1
    if scheduler in RESERVING:
        return min(knobs.max_model_len, pool)
    if scheduler == "llama_cpp" and not knobs.kv_unified:
        return total_blocks // knobs.max_num_seqs * BLOCK_TOKENS
    return pool
