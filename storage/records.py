"""The nouns as frozen dataclasses: one per table, field name = column name.

Raw facts only. Every derived number (TTFT, gaps, TPOT, goodput ...) is computed from these rows by
`runner.analysis`. All `_ns` fields are nanoseconds of the monotonic clock since the *cell's* origin
(`CellRecord.started_unix_ns` is the wall-clock time of that origin), so one cell is on one clock.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One streamed request: what was asked, when it happened, what came back. Nothing derived."""

    cell: int
    request: int  # index in the cell's trace; the same index has the same lengths in every setting
    class_name: str
    priority: int
    prompt_tokens_asked: int
    output_tokens_asked: int
    scheduled_ns: int  # intended arrival (open loop) or the moment the worker became free (closed loop)
    sent_ns: int | None = None  # right before the first byte of the request was written to the socket
    connect_ns: int | None = None  # duration of TCP (+ name look-up); null on a reused connection
    tls_ns: int | None = None  # duration of the TLS handshake; null on plain TCP
    first_byte_ns: int | None = None  # first byte of the response
    first_chunk_ns: int | None = None  # y_1: first chunk that carries generated text of any channel
    first_answer_ns: int | None = None  # first chunk with non-empty *answer* text (not reasoning)
    end_ns: int | None = None  # end of the stream, or of the attempt
    chunk_deltas_us: tuple[
        int, ...
    ] = ()  # y_{i+1} - y_i in microseconds; length = token_events - 1 (rounded cumulatively)
    token_events: int = 0  # chunks that carried generated text
    shared_stamps: int = 0  # of those, how many came in the same read as the chunk before (gap 0 by construction)
    user_stamps: int = 0  # of those, how many reads had no kernel stamp
    output_tokens: int | None = None
    output_tokens_source: str | None = None  # usage | timings | tokenize | estimated
    reasoning_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    load_ms: float | None = None  # cold model load told by the server
    retry_after_s: float | None = None
    malformed_events: int = 0
    saw_terminator: bool = False  # [DONE], done:true, or the dialect's own end mark
    outcome: str = "ok"  # ok | error | cancelled
    error_kind: str | None = None
    error_detail: str | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    reused_connection: bool = False
    resends: int = 0  # times it was sent again because an idle connection was already dead
    clock: str = "user"  # kernel | user


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One scrape of the server. Counters are as the server shows them (lifetime totals); null = not told."""

    cell: int
    at_ns: int
    source: str  # metrics | slots | status | none
    scrape_ms: float
    running: float | None = None  # sequences in the batch now
    waiting: float | None = None
    kv_cache_usage: float | None = None  # 0..1
    num_preemptions_total: float | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    iterations_total: float | None = None  # engine steps so far
    iteration_tokens_total: float | None = None  # sum over steps of the tokens in each step
    iteration_seqs_total: float | None = None  # sum over steps of the sequences in each step
    rejected_total: float | None = None
    queue_time_s_total: float | None = None  # histogram sum
    queue_time_count: float | None = None  # histogram count
    prefix_cache_queries_total: float | None = None
    prefix_cache_hits_total: float | None = None
    kv_cache_usage_max: float | None = None  # 0..1, of the fullest engine; kv_cache_usage is the mean over engines
    engines: float | None = None  # engines behind the address whose numbers were put together
    seats: float | None = None  # sequences the server says it would run at once
    swapped: float | None = None  # sequences thrown out of the batch that wait to come back
    ttft_s_total: float | None = None  # the server's own time to first token: histogram sum
    ttft_count: float | None = None
    itl_s_total: float | None = None  # the server's own time between tokens: histogram sum
    itl_count: float | None = None
    iteration_tokens_buckets: str | None = None  # JSON object: at most so many tokens -> steps (cumulative, lifetime)
    server_start_s: float | None = None  # when the server says its process began; another value is another process


@dataclass(frozen=True, slots=True)
class ClientSample:
    """One look at our own load generator (1/s): is it the bottleneck?"""

    cell: int
    at_ns: int
    loop_lag_ms: float  # worst lateness of the event loop's timer in the interval
    cpu_share: float  # CPU of this process / one core, 0..n
    open_streams: int
    others_share: float | None = None  # 0..1 of all processors that neither we nor the server's processes kept busy


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One setting at one load level, one repeat."""

    cell: int
    setting: str  # JSON object, keys as in [grid]
    load: str  # JSON object: {"request_rate": 2.0} and/or {"max_concurrency": 4}, {"chat_max_in_flight": 2}
    repeat: int
    status: str  # running | ok | failed | skipped
    error_kind: str | None = None
    error_detail: str | None = None
    exit_code: int | None = None
    log_tail: str | None = None
    start_line: str | None = None  # the command of this setting, ready to paste; keys left out
    server: str | None = None  # JSON object: what was found out about the server (dialect, model, fields, notes)
    started_unix_ns: int | None = None  # wall clock at the cell's origin
    window_start_ns: int | None = None  # warm-up ends, measured window begins
    window_end_ns: int | None = None
    end_ns: int | None = None  # drain is over
    clock_steps: int = 0  # steps of the wall clock seen while measuring


@dataclass(frozen=True, slots=True)
class SweepMeta:
    """What a sweep is; stored once, as JSON texts."""

    sweep_id: str
    name: str
    schema_version: int
    tool_version: str
    created_unix_ns: int
    simulated: bool
    config: str  # the validated sweep config as JSON
    backend: str  # redacted backend as JSON: no key, no user info
    environment: str  # hardware and versions as JSON
