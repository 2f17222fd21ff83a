"""Cost models of common machines and models, worked out from public llama-bench tables. Data and arithmetic only.

Rows are Llama-2-7B Q4_0 (3.56 GiB) with pp512 and tg128 in tokens/s, unless a device says otherwise. From a row:
  a = 1000/tg scaled by active weight bytes       b = 1000/pp scaled by active parameters
  d = kv_bytes/(BW*eta), where BW*eta = weight bytes * tg of the row
  e = 2*L*d_model/F = L*d_model*b/N_active        c = b/2: published fits have c/b = 0.38 (OPT-13B/A100) and 0.55
  pool = (memory*usable - weights - activations)/kv_bytes
  experts: the part of the active weights that is experts' grows with the distinct ones a batch reads
Everything but a and b of a measured row is an estimate; so is the whole of a row that was scaled.
"""

from dataclasses import dataclass
from difflib import get_close_matches

from runner.errors import ConfigError
from runner.simulator.cost_model import CostModel
from runner.simulator.state import BLOCK_TOKENS

GIB = 2**30
ACTIVATION_BYTES = GIB
LEAST_KV_TOKENS = 1024  # a model that leaves less is taken as not fitting


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """A cost model with its KV pool (tokens) and where both come from. `estimate`: no measured row behind it."""

    cost: CostModel
    kv_tokens: int
    estimate: bool
    source: str
    kv_bytes_per_token: int = 131_072  # an 8B model's at FP16


@dataclass(frozen=True, slots=True)
class Device:
    """tokens/s of the row (prompt, generation), memory in GiB and the share of it a server may use."""

    label: str
    pp: float
    tg: float
    memory_gib: float
    usable_share: float = 0.9
    measured_on: str = "llama-2-7b/q4_0"
    proxy: bool = False  # the row itself was not measured on this device


@dataclass(frozen=True, slots=True)
class Model:
    """Parameters (total, active per token), layers, width, and KV KiB per token at FP16.

    Mixture of experts: `experts` in each layer, a token uses `experts_active` of them; `expert_parameters` in all.
    """

    parameters: float
    layers: int
    width: int
    kv_kib: int
    active: float | None = None
    experts: int = 0
    experts_active: int = 0
    expert_parameters: float = 0.0

    @property
    def active_parameters(self) -> float:
        return self.active or self.parameters


UNIFIED = 0.75  # a Mac lets the GPU have about three quarters of its memory
SHARED = 0.6  # CPU inference beside an operating system
EIGHT_B = "llama-3.1-8b/q4_k_m"

DEVICES: dict[str, Device] = {
    "rtx3060": Device("RTX 3060 12GB", 2137, 75.6, 12),
    "rtx3090": Device("RTX 3090", 6567, 171, 24),
    "rtx4060ti": Device("RTX 4060 Ti 16GB", 3395, 63.9, 16),
    "rtx4090": Device("RTX 4090", 10294, 189, 24),
    "rtx5090": Device("RTX 5090", 14073, 290, 32),
    "p40": Device("Tesla P40", 1007, 54.7, 24),
    "rx7900xtx": Device("RX 7900 XTX", 3552, 167, 24),
    "arc-a770": Device("Arc A770", 1074, 52.6, 16),
    "strix-halo": Device("Strix Halo 395, 128GB", 1338, 55.7, 128, UNIFIED),
    "m2": Device("Apple M2 16GB", 180, 21.9, 16, UNIFIED),
    "m2-pro": Device("Apple M2 Pro 32GB", 341, 38.9, 32, UNIFIED),
    "m2-max": Device("Apple M2 Max 64GB", 671, 66, 64, UNIFIED),
    "m4": Device("Apple M4 24GB", 221, 24, 24, UNIFIED),
    "m4-pro": Device("Apple M4 Pro 48GB", 440, 51, 48, UNIFIED),
    "m4-max": Device("Apple M4 Max 64GB", 886, 83, 64, UNIFIED),
    "n100": Device("Intel N100 16GB", 6.5, 3.0, 16, SHARED, EIGHT_B),
    "i5-1135g7": Device("i5-1135G7 16GB", 25.5, 6.9, 16, SHARED, EIGHT_B, proxy=True),
    # no row: the RTX 3060's scaled by memory bandwidth, 68/360
    "jetson-orin-nano": Device("Jetson Orin Nano 8GB", 404, 14.3, 8, UNIFIED, proxy=True),
}

MODELS: dict[str, Model] = {
    "llama-2-7b": Model(6.74e9, 32, 4096, 512),
    "llama-3.2-1b": Model(1.24e9, 16, 2048, 32),
    "llama-3.2-3b": Model(3.21e9, 28, 3072, 112),
    "llama-3.1-8b": Model(8.03e9, 32, 4096, 128),
    "llama-3.1-70b": Model(70.6e9, 80, 8192, 320),
    "qwen2.5-7b": Model(7.62e9, 28, 3584, 56),
    "qwen2.5-14b": Model(14.8e9, 48, 5120, 192),
    "qwen2.5-32b": Model(32.8e9, 64, 5120, 256),
    "qwen3-8b": Model(8.19e9, 36, 4096, 144),
    "qwen3-14b": Model(14.8e9, 40, 5120, 160),
    "qwen3-32b": Model(32.8e9, 64, 5120, 256),
    # 48 layers of 128 experts, each three matrices of 2048 x 768
    "qwen3-30b-a3b": Model(30.5e9, 48, 2048, 96, 3.3e9, 128, 8, 48 * 128 * 3 * 2048 * 768),
}

BYTES_PER_PARAMETER: dict[str, float] = {"q4_0": 3.56 * GIB / 6.74e9, "q4_k_m": 0.61, "q8_0": 1.06, "f16": 2.0}

DEFAULT_PRESET = f"rtx3090/{EIGHT_B}"


def list_presets() -> list[str]:
    """Names "device/model/quant" of every combination whose weights leave room for a KV pool."""
    return [
        f"{device}/{model}/{quant}"
        for device in DEVICES
        for model in MODELS
        for quant in BYTES_PER_PARAMETER
        if _pool_tokens(DEVICES[device], MODELS[model], quant) >= LEAST_KV_TOKENS
    ]


def resolve_preset(name: str) -> EngineProfile:
    """The profile of "device/model/quant". Raises ConfigError naming near presets, or why it does not fit."""
    device_name, _, rest = name.partition("/")
    model_name, _, quant = rest.partition("/")
    device, model = DEVICES.get(device_name), MODELS.get(model_name)
    if device is None or model is None or quant not in BYTES_PER_PARAMETER:
        near = get_close_matches(name, list_presets(), n=3, cutoff=0.0)
        raise ConfigError(f"preset {name!r} is not known; near ones are {', '.join(near)}")
    kv_tokens = _pool_tokens(device, model, quant)
    if kv_tokens < LEAST_KV_TOKENS:
        raise ConfigError(
            f"preset {name!r} does not fit: {device.label} ({device.memory_gib:g} GiB) has no room for its KV cache; "
            "choose a smaller model or quantization"
        )
    measured = rest == device.measured_on and not device.proxy
    source = f"llama-bench pp512/tg128 of {device.measured_on} on {device.label}"
    if not measured:
        source = f"estimate, scaled from {'a stand-in for ' if device.proxy else ''}{source}"
    return EngineProfile(_cost(device, model, quant), kv_tokens, not measured, source, model.kv_kib * 1024)


def _cost(device: Device, model: Model, quant: str) -> CostModel:
    row_model, _, row_quant = device.measured_on.partition("/")
    row = MODELS[row_model]
    row_bytes = row.active_parameters * BYTES_PER_PARAMETER[row_quant]
    a = 1000 / device.tg * (model.active_parameters * BYTES_PER_PARAMETER[quant] / row_bytes)
    b = 1000 / device.pp * (model.active_parameters / row.active_parameters)
    d = 1000 * model.kv_kib * 1024 / (row_bytes * device.tg)
    e = model.layers * model.width * b / model.active_parameters
    if not model.experts:
        return CostModel(a=a, b=b, c=b / 2, d=d, e=e)
    read = model.expert_parameters * model.experts_active / model.experts / model.active_parameters
    return CostModel(
        a=a, b=b, c=b / 2, d=d, e=e, experts=model.experts, experts_active=model.experts_active, expert_share=read
    )


def _pool_tokens(device: Device, model: Model, quant: str) -> int:
    weights = model.parameters * BYTES_PER_PARAMETER[quant]
    left = device.memory_gib * GIB * device.usable_share - weights - ACTIVATION_BYTES
    return max(0, int(left // (model.kv_kib * 1024)) // BLOCK_TOKENS * BLOCK_TOKENS)
