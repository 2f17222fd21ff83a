"""Settings that a server ignores, refuses or takes for something else, by kind, version and values. PURE."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from runner.config import Length, Scalar, SweepConfig
from runner.engines.catalogue import KINDS, EngineKind
from runner.engines.oddity import Oddity
from runner.engines.start_line import PLACEHOLDER

MOST_SETTINGS = 1000  # of a grid are looked at
KOBOLD_BATCHES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class _Case:
    """One setting of a sweep, with all that is known of how the server runs."""

    engine: EngineKind
    version: tuple[int, ...] | None
    shown_version: str
    config: SweepConfig
    known: Mapping[str, Scalar]  # the setting, and what the start command or its environment say

    def number(self, key: str) -> int | None:
        value = self.known.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def before(self, *version: int) -> bool | None:
        """Null while the version is not known."""
        return None if self.version is None else self.version < version


Values = dict[str, str | int]
Rule = Callable[[_Case], Iterator[Oddity]]


def engine_oddities(kind: str, version: str | None, config: SweepConfig) -> list[Oddity]:
    """What a server of this kind makes of the sweep's settings and classes, the worst first.

    `version`: as the server says it, such as 0.32.0; null when it is not known.
    """
    found: dict[tuple[str, str], Oddity] = {}
    keys, lists = list(config.server_grid), config.server_grid.values()
    for chosen in itertools.islice(itertools.product(*lists), MOST_SETTINGS):
        for oddity in setting_oddities(kind, version, config, dict(zip(keys, chosen, strict=True))):
            place = oddity.code, str(oddity.values.get("key") or oddity.values.get("name") or "")
            if place not in found or oddity.weight > found[place].weight:
                found[place] = oddity
    order = ("refused", "ignored", "note")
    return sorted(found.values(), key=lambda o: order.index(o.severity))


def setting_oddities(
    kind: str, version: str | None, config: SweepConfig, setting: Mapping[str, Scalar]
) -> list[Oddity]:
    """The same for one setting."""
    known = {**told_by_command(kind, config, setting), **setting}
    case = _Case(KINDS[kind], _parts(version), version or "", config, known)
    return [oddity for rule in (*EVERY_KIND, *RULES.get(kind, ())) for oddity in rule(case)]


def told_by_command(kind: str, config: SweepConfig, setting: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Settings that control.command and control.env fix, by their grid keys; placeholders filled from the setting."""
    engine, other = KINDS[kind], OTHER_NAMES.get(kind, {})
    names = {flag.split()[-1]: key for key, flag in engine.flags.items()} | dict(other)
    switches = {f: (k, on) for k, pair in engine.switches.items() for f, on in zip(pair, (True, False), strict=True)}
    variables = {name: key for key, name in engine.variables.items()} | dict(other)
    command = [
        PLACEHOLDER.sub(lambda m: str(setting.get(m.group(1), m.group())), p) for p in config.control.command or ()
    ]
    found: dict[str, Scalar] = {}
    for part, following in zip(command, (*command[1:], ""), strict=False):
        flag, equals, value = part.partition("=")
        if flag in switches:
            key, on = switches[flag]
            found[key] = on
        elif flag in names:
            found[names[flag]] = _scalar(value if equals else following)
    for name, value in config.control.env.items():
        if name in variables:
            found[variables[name]] = _scalar(PLACEHOLDER.sub(lambda m: str(setting.get(m.group(1), "")), value))
    return found


def longest_tokens(length: Length) -> int:
    """The longest that a class asks for; of a lognormal length without a cut, its p90."""
    return int(length.fixed or (length.uniform or (0, 0))[1] or length.max or length.p90 or 0)


def _scalar(text: str) -> Scalar:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _parts(version: str | None) -> tuple[int, ...] | None:
    """`0.32.0`, `v0.32.1rc2` -> (0, 32, 0), (0, 32, 1); null for anything else."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version or "")
    return tuple(int(p) for p in found.group(1).split(".")) if found else None


def _requests(case: _Case) -> Iterator[tuple[str, int]]:
    """(class, tokens of its longest request)."""
    for c in case.config.classes:
        yield c.name, longest_tokens(c.prompt_tokens) + longest_tokens(c.output_tokens)


def _longest(case: _Case) -> int:
    return max(tokens for _, tokens in _requests(case))


# --- every kind


def _unknown_settings(case: _Case) -> Iterator[Oddity]:
    if case.config.control.mode in ("none", "manual"):
        for key in case.config.server_grid:
            if key != "model" and not case.engine.knows(key):
                yield Oddity("unknown_setting", "note", {"title": case.engine.title, "key": key})


def _priorities(case: _Case) -> Iterator[Oddity]:
    if len({c.priority for c in case.config.classes}) < 2:
        return
    if case.config.backend.kind not in POLICY_HOW:
        yield Oddity("priority_not_sent", "ignored", {"title": case.engine.title})
        return
    own = case.config.backend.policy if case.config.backend.kind == "simulated" else None
    policies = set(map(str, case.config.grid.get("policy", ()))) | {str(case.known.get("policy", own))}
    if "priority" not in policies:  # a grid with both compares them, and means to
        how = POLICY_HOW[case.config.backend.kind]
        yield Oddity("priority_needs_policy", "ignored", {"title": case.engine.title, "how": how})


EVERY_KIND: tuple[Rule, ...] = (_unknown_settings, _priorities)
POLICY_HOW = {"vllm": "--scheduling-policy priority", "simulated": 'policy = "priority"'}  # who is sent priorities


def _refuses_long(case: _Case) -> Iterator[Oddity]:
    yield from _over_context(case, "request_refused")


def _cuts_long(case: _Case) -> Iterator[Oddity]:
    # https://github.com/ollama/ollama/issues/17889: 200 with a cut prompt, or 400
    yield from _over_context(case, "request_cut")


def _over_context(case: _Case, code: str) -> Iterator[Oddity]:
    context = case.number("context_tokens")
    for name, longest in _requests(case):
        if context and longest > context:
            values: Values = {"title": case.engine.title, "name": name, "longest": longest, "context": context}
            yield Oddity(code, "note", values, weight=longest / context)


# --- vLLM


def _vllm_removed(case: _Case) -> Iterator[Oddity]:
    """https://github.com/vllm-project/vllm/pull/49244 and /issues/39737."""
    for key in ("max_num_partial_prefills", "max_long_partial_prefills"):
        if key in case.known and not case.before(0, 11):  # V0, which enforced them, went with 0.11
            values: Values = {"key": key, "flag": case.engine.flags[key], "version": case.shown_version}
            if case.before(0, 27) is False:
                yield Oddity("partial_prefills_gone", "refused", values)
            else:
                yield Oddity("partial_prefills_unenforced", "ignored", values)


def _vllm_new(case: _Case) -> Iterator[Oddity]:
    """https://github.com/vllm-project/vllm/pull/49445."""
    for key in ("max_num_queued_reqs", "max_num_queued_tokens"):
        if key in case.known and case.before(0, 29):
            values: Values = {"key": key, "flag": case.engine.flags[key], "version": case.shown_version}
            yield Oddity("queue_limit_too_new", "refused", values)


def _vllm_budget(case: _Case) -> Iterator[Oddity]:
    """verify_max_model_len in vllm/config/scheduler.py."""
    budget, seqs, context = (case.number(k) for k in ("max_num_batched_tokens", "max_num_seqs", "context_tokens"))
    if budget and seqs and budget < seqs:
        yield Oddity("budget_below_seqs", "refused", {"budget": budget, "seqs": seqs}, weight=seqs / budget)
    if budget and case.known.get("enable_chunked_prefill") is False:
        if context is None:
            yield Oddity("budget_needs_context", "note")
        elif budget < context:
            values: Values = {"budget": budget, "context": context}
            yield Oddity("budget_below_context", "refused", values, weight=context / budget)


def _vllm_seqs(case: _Case) -> Iterator[Oddity]:
    """The help of `vllm serve` 0.32 for --max-num-active-seqs and --max-num-queued-reqs."""
    seqs, active, queued = (case.number(k) for k in ("max_num_seqs", "max_num_active_seqs", "max_num_queued_reqs"))
    if seqs and active and active > seqs:
        yield Oddity("active_above_seqs", "refused", {"active": active, "seqs": seqs}, weight=active / seqs)
    if seqs and queued and queued < seqs:
        yield Oddity("queue_counts_running", "note", {"queued": queued, "seqs": seqs}, weight=seqs / queued)


# --- llama.cpp: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md


def _llama_slots(case: _Case) -> Iterator[Oddity]:
    """The cache is shared by itself only while the number of slots is left to the server."""
    seqs, context = case.number("max_num_seqs"), case.number("context_tokens")
    if not seqs or seqs < 2:
        if context:
            yield from _refuses_long(case)
    elif case.known.get("kv_unified") is True:
        longest = _longest(case)
        if context and seqs * longest > context:
            values: Values = {"seqs": seqs, "longest": longest, "context": context}
            yield Oddity("kv_can_run_out", "note", values, weight=seqs * longest / context)
    elif not context:  # 0: the model's own context, which we do not know
        yield Oddity("slots_divide", "note", {"seqs": seqs}, weight=seqs)
    else:
        yield from _small_slots(case, seqs, context)


def _small_slots(case: _Case, seqs: int, context: int) -> Iterator[Oddity]:
    slot = context // seqs
    for name, longest in _requests(case):
        if longest > slot:
            values: Values = {"seqs": seqs, "context": context, "slot": slot, "name": name, "longest": longest}
            yield Oddity("slot_too_small", "note", {**values, "needed": longest * seqs}, weight=longest / slot)


def _llama_ubatch(case: _Case) -> Iterator[Oddity]:
    """llama_context takes the smaller of the two."""
    batch, ubatch = case.number("max_num_batched_tokens"), case.number("max_num_ubatch_tokens")
    if batch and ubatch and ubatch > batch:
        yield Oddity("ubatch_cut", "ignored", {"batch": batch, "ubatch": ubatch}, weight=ubatch / batch)


# --- the others


def _ollama(case: _Case) -> Iterator[Oddity]:
    """https://docs.ollama.com/faq; the queue: https://github.com/ollama/ollama/issues/7758."""
    seqs, context = case.number("max_num_seqs"), case.number("context_tokens")
    if case.config.control.mode == "manual" and any(k in case.engine.variables for k in case.known):
        yield Oddity("ollama_restart", "note")
    if seqs and seqs > 1 and context:
        values: Values = {"seqs": seqs, "context": context, "tokens": seqs * context}
        yield Oddity("ollama_memory", "note", values, weight=seqs * context)
    elif seqs and seqs > 1:
        yield Oddity("ollama_memory_unknown", "note", {"seqs": seqs}, weight=seqs)
    if "max_num_queued_reqs" in case.known:
        yield Oddity("ollama_queue", "ignored")


def _sglang(case: _Case) -> Iterator[Oddity]:
    """https://github.com/sgl-project/sglang/pull/27399."""
    if "max_num_seqs" in case.known:
        yield Oddity("sglang_memory", "note")


def _tgi(case: _Case) -> Iterator[Oddity]:
    """https://huggingface.co/docs/text-generation-inference/reference/launcher; the launcher wants
    max_batch_prefill_tokens >= max_input_tokens."""
    budget = case.number("max_num_batched_tokens")
    for c in case.config.classes:
        longest = longest_tokens(c.prompt_tokens)
        if budget and longest > budget:
            values: Values = {"budget": budget, "name": c.name, "longest": longest}
            yield Oddity("tgi_prompt_over_budget", "note", values, weight=longest / budget)
    if "max_concurrent_requests" in case.known:
        yield Oddity("tgi_concurrent", "note")
    if "max_num_seqs" in case.known:
        yield Oddity("tgi_batch_size", "note")


def _lmstudio(case: _Case) -> Iterator[Oddity]:
    """https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1714 and 2061."""
    if "max_num_seqs" in case.known:
        yield Oddity("lmstudio_reload", "note")


def _koboldcpp(case: _Case) -> Iterator[Oddity]:
    """https://github.com/LostRuins/koboldcpp/pull/2167 and the choices of --batchsize in koboldcpp.py."""
    budget = case.number("max_num_batched_tokens")
    if "max_num_seqs" in case.known:
        yield Oddity("kobold_parallel", "note")
    if budget and budget not in KOBOLD_BATCHES:
        yield Oddity("kobold_batch", "refused", {"budget": budget})


def _tabbyapi(case: _Case) -> Iterator[Oddity]:
    """https://github.com/theroyallab/tabbyAPI/blob/main/config_sample.yml."""
    kv = case.number("kv_tokens")
    if kv and kv % 256:
        yield Oddity("tabby_cache", "note", {"kv": kv})


def _localai(case: _Case) -> Iterator[Oddity]:
    """https://localai.io/features/text-generation/."""
    if "max_num_seqs" in case.known or "context_tokens" in case.known:
        yield Oddity("localai_yaml", "note")


def _mlx_lm(case: _Case) -> Iterator[Oddity]:
    """ResponseGenerator._is_batchable in mlx_lm/server.py."""
    if "max_num_seqs" in case.known:
        yield Oddity("mlx_batchable", "note")


RULES: dict[str, tuple[Rule, ...]] = {
    "vllm": (_vllm_removed, _vllm_new, _vllm_budget, _vllm_seqs, _refuses_long),
    "llama_cpp": (_llama_slots, _llama_ubatch),
    "ollama": (_ollama, _cuts_long),
    "sglang": (_sglang, _refuses_long),
    "tgi": (_tgi, _refuses_long),
    "lmstudio": (_lmstudio,),
    "koboldcpp": (_koboldcpp,),
    "tabbyapi": (_tabbyapi,),
    "localai": (_localai,),
    "mlx_lm": (_mlx_lm,),
}

# other spellings of what the catalogue names, for reading start commands and their environment
OTHER_NAMES: dict[str, dict[str, str]] = {
    "llama_cpp": {
        "--parallel": "max_num_seqs",
        "--batch-size": "max_num_batched_tokens",
        "--ubatch-size": "max_num_ubatch_tokens",
        "--ctx-size": "context_tokens",
        "LLAMA_ARG_N_PARALLEL": "max_num_seqs",
        "LLAMA_ARG_BATCH": "max_num_batched_tokens",
        "LLAMA_ARG_UBATCH": "max_num_ubatch_tokens",
        "LLAMA_ARG_CTX_SIZE": "context_tokens",
    },
    "koboldcpp": {
        "--blasbatchsize": "max_num_batched_tokens",
        "--ctx-size": "context_tokens",
        "-c": "context_tokens",
    },
}
