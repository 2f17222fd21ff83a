"""What the engine keeps between iterations: settings, sequences, lanes, the queue. `core` has the steps on it."""

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from runner.simulator.cost_model import BatchShape

BLOCK_TOKENS = 16
Policy = Literal["fcfs", "priority"]


@dataclass(frozen=True, slots=True)
class Knobs:
    """Settings of a scheduler; each looks at its own. Tokens and sequences per iteration; thresholds 0: off."""

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    long_prefill_token_threshold: int = 0  # vllm_v1
    policy: Policy = "fcfs"  # vllm_v1
    max_model_len: int = 8192  # what static and orca reserve for a request
    batch_wait_ms: float = 50.0  # static
    stream_static: bool = False
    reservation: Literal["max", "pow2", "oracle"] = "max"  # orca
    preemption: Literal["recompute", "swap"] = "recompute"  # vllm_v0
    kv_bytes_per_token: int = 131_072  # of a swap or a move; an 8B model at FP16
    pcie_gb_per_s: float = 16.0
    prefill_instances: int = 1  # distserve
    decode_instances: int = 1
    kv_link_gbit_per_s: float = 200.0
    kv_unified: bool = False  # llama_cpp
    prefix_caching: bool = False  # vllm_v1


def blocks_for(tokens: int) -> int:
    """KV blocks that hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)


class Sequence:
    """One request inside the engine. `output_tokens` is its true length, which no scheduler may look at.

    `order`: arrival number, unique and rising. `priority`: lower first. `prefix`: names of the full blocks its prompt
    begins with, for a prefix cache. The fields from `arrived_ms` on belong to the engine.
    """

    __slots__ = (
        "_blocks", "_computed", "_generated", "arrived_ms", "cached_tokens", "held", "home", "joined", "lane", "order",
        "output_tokens", "padding", "preemptions", "prefix", "priority", "prompt_tokens", "reserved", "runs",
        "shared_blocks", "stay_steps", "ticket",
    )  # fmt: skip

    def __init__(
        self, order: int, prompt_tokens: int, output_tokens: int, priority: int = 0, prefix: tuple[int, ...] = ()
    ) -> None:
        self.order = order
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.priority = priority
        self.prefix = prefix
        self.arrived_ms = 0.0
        self.preemptions = 0
        # found in the prefix cache when it was admitted first: what it finds of its own after a preemption is no hit
        self.cached_tokens = 0
        self.runs: list[tuple[int, int, int]] = []
        self.home: Lane | None = None  # the lane that has it among its running ones
        self.lane: Lane | None = None  # the same while it decodes
        self.joined = 0  # the lane's step then
        self.ticket = -1
        self.reserved = False  # its blocks were all taken at its admission
        self.shared_blocks = 0  # blocks of the prefix cache it reads
        self.held = False  # its tokens leave together at the end of its batch
        self.stay_steps = 0  # decode steps its row stays in a padded batch
        self.padding = 0  # tokens its row was made longer by
        self._computed = 0
        self._generated = 0
        self._blocks = 0

    @property
    def generated(self) -> int:
        """Tokens made so far."""
        if self.lane is None:
            return self._generated
        return min(self._generated + self.lane.step - self.joined, self.output_tokens)

    @property
    def computed(self) -> int:
        """Tokens whose KV is in the pool."""
        return self._computed if self.lane is None else self._computed + self.lane.step - self.joined

    @property
    def uncomputed(self) -> int:
        """Known tokens (prompt and already generated) that still need KV; 1 of a sequence that decodes."""
        return 1 if self.lane is not None else self.prompt_tokens + self._generated - self._computed

    @property
    def blocks(self) -> int:
        """KV blocks of its own."""
        if self.lane is None or self.reserved:
            return self._blocks
        return self._blocks + blocks_for(self.computed) - blocks_for(self._computed)


@dataclass(slots=True, eq=False)
class Lane:
    """One instance: its pool, what runs on it, and its decoding sequences as a group."""

    index: int
    total_blocks: int
    free_blocks: int = field(init=False)
    running: dict[Sequence, None] = field(default_factory=dict)  # in the order of admission
    prefilling: dict[Sequence, None] = field(default_factory=dict)  # those of them whose prompt is not through
    queue: deque[Sequence] = field(default_factory=deque)  # distserve: prompts sent to this instance
    swapped: deque[Sequence] = field(default_factory=deque)  # vllm_v0
    hands_over: bool = False  # distserve: what has its first token leaves for a decode instance
    caches: bool = False  # keeps computed prefixes for others
    link_free_ms: float = 0.0
    step: int = 0  # decode steps made so far
    decodes: int = 0
    context_tokens: int = 0  # KV tokens of the decoding sequences
    growing: list[int] = field(default_factory=lambda: [0] * BLOCK_TOKENS)  # [r]: need a block at steps = r mod 16
    ending: list[tuple[int, int, Sequence]] = field(default_factory=list)  # heap of (last step, ticket, sequence)
    joins: int = 0
    cached: dict[int, int] = field(default_factory=dict)  # prefix cache: block name -> sequences that read it
    idle: dict[int, None] = field(default_factory=dict)  # cached blocks nobody reads, oldest first; they count as free

    def __post_init__(self) -> None:
        self.free_blocks = self.total_blocks


@dataclass(frozen=True, slots=True)
class Move:
    """KV on its way between two lanes; it holds blocks on both until `end_ms`."""

    end_ms: float
    sequence: Sequence
    source: Lane
    target: Lane


class EngineState:
    """The queue and the lanes. `waiting` is a heap by (priority or 0, arrival)."""

    __slots__ = ("lanes", "longest_tokens", "moves", "parked", "policy", "waiting")

    def __init__(self, total_blocks: int, policy: Policy = "fcfs", lanes: int = 1) -> None:
        self.policy: Policy = policy
        self.lanes = [Lane(i, total_blocks) for i in range(lanes)]
        self.waiting: list[tuple[int, int, Sequence]] = []
        self.parked: deque[Sequence] = deque()  # distserve: their prompt is through, their KV waits for a decoder
        self.moves: list[Move] = []
        self.longest_tokens = total_blocks * BLOCK_TOKENS + 1  # prompt and answer; the last token is never stored


@dataclass(slots=True)
class Iteration:
    """The work of one iteration of a lane, or of `steps` equal ones. `preempted` lost their KV while planning."""

    lane: int
    chunks: list[tuple[Sequence, int]]
    decodes: bool
    batch: BatchShape
    preempted: list[Sequence] = field(default_factory=list)
    extra_ms: float = 0.0  # swaps, beside what the batch costs
    wake_ms: float = inf
    steps: int = 1
    changed: bool = False  # somebody was admitted or swapped: the next plan may differ though nothing ends

    @property
    def empty(self) -> bool:
        return not self.chunks and not self.decodes

    @property
    def tokens(self) -> int:
        """Tokens computed in all its steps."""
        return sum(n for _, n in self.chunks) + self.steps * (self.batch.decode_seqs if self.decodes else 0)


@dataclass(slots=True)
class Done:
    """Who got a first token (or the first after a recompute) from its prompt, and who has ended."""

    started: list[Sequence]
    finished: list[Sequence]
