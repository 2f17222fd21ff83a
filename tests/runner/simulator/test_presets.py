"""Presets against the scaling rules, worked out by hand."""

import pytest

from runner.errors import ConfigError
from runner.simulator.presets import DEFAULT_PRESET, DEVICES, MODELS, list_presets, resolve_preset


def test_measured_row_is_taken_as_it_is():
    """On the row's own model a = 1000/tg and b = 1000/pp, and nothing is called an estimate."""
    profile = resolve_preset("rtx3090/llama-2-7b/q4_0")
    assert profile.cost.a == pytest.approx(1000 / 171)
    assert profile.cost.b == pytest.approx(1000 / 6567)
    assert not profile.estimate


def test_scaling_to_another_model():
    """8.03e9 parameters at 0.61 bytes against 3.56 GiB scale a; 8.03/6.74 scales b; the result is an estimate."""
    profile = resolve_preset("rtx3090/llama-3.1-8b/q4_k_m")
    assert profile.cost.a == pytest.approx(1000 / 171 * 8.03e9 * 0.61 / (3.56 * 2**30))
    assert profile.cost.b == pytest.approx(1000 / 6567 * 8.03 / 6.74)
    assert profile.estimate
    assert profile.source.startswith("estimate")


def test_context_cost_is_kv_bytes_over_effective_bandwidth():
    """128 KiB per token at 3.56 GiB * 171/s of effective bandwidth."""
    d = resolve_preset("rtx3090/llama-3.1-8b/q4_k_m").cost.d
    assert d == pytest.approx(128 * 1024 / (3.56 * 2**30 * 171) * 1000)


def test_pool_is_what_weights_and_activations_leave():
    """24 GiB * 0.9 - 1 GiB - 8.03e9 * 0.61 bytes, at 128 KiB per token, in whole blocks."""
    left = 24 * 2**30 * 0.9 - 2**30 - 8.03e9 * 0.61
    assert resolve_preset("rtx3090/llama-3.1-8b/q4_k_m").kv_tokens == left // (128 * 1024) // 16 * 16


def test_mixture_of_experts_pays_for_active_weights_only():
    """30.5B parameters with 3.3B active: a and b scale with 3.3B, the memory with 30.5B."""
    profile = resolve_preset("rtx3090/qwen3-30b-a3b/q4_k_m")
    assert profile.cost.b == pytest.approx(1000 / 6567 * 3.3 / 6.74)
    assert profile.kv_tokens < resolve_preset("rtx3090/llama-3.2-3b/q4_k_m").kv_tokens


def test_the_part_of_experts_grows_with_the_batch():
    """48*128*3*2048*768 = 28.99e9 parameters are experts', 1.81e9 of the 3.3e9 that a token reads."""
    cost = resolve_preset("rtx3090/qwen3-30b-a3b/q4_k_m").cost
    assert (cost.experts, cost.experts_active) == (128, 8)
    assert cost.expert_share == pytest.approx(1.812 / 3.3, abs=1e-3)


def test_a_profile_knows_the_bytes_of_its_kv():
    """What a swap or a move carries: 128 KiB a token for the 8B, 96 for the mixture of experts."""
    assert resolve_preset("rtx3090/llama-3.1-8b/q4_k_m").kv_bytes_per_token == 128 * 1024
    assert resolve_preset("rtx3090/qwen3-30b-a3b/q4_k_m").kv_bytes_per_token == 96 * 1024


def test_every_published_row_is_there():
    """The devices and model sizes of the design's table."""
    rows = (
        "rtx3060 rtx3090 rtx4060ti rtx4090 rtx5090 p40 rx7900xtx arc-a770 strix-halo m2 m2-pro m2-max m4 m4-pro m4-max"
    )
    assert {*rows.split(), "n100", "i5-1135g7", "jetson-orin-nano"} <= set(DEVICES)
    assert {"llama-3.2-1b", "llama-3.1-70b", "qwen2.5-7b", "qwen3-14b", "qwen3-32b", "qwen3-30b-a3b"} <= set(MODELS)


def test_a_row_measured_on_another_model_scales_from_that():
    """The N100's row is an 8B at Q4_K_M: there it is exact."""
    profile = resolve_preset("n100/llama-3.1-8b/q4_k_m")
    assert profile.cost.a == pytest.approx(1000 / 3.0)
    assert not profile.estimate


@pytest.mark.parametrize("device", ["i5-1135g7", "jetson-orin-nano"])
def test_a_stand_in_row_is_always_an_estimate(device: str):
    """A device without its own row never claims to be measured."""
    mine = [name for name in list_presets() if name.startswith(f"{device}/")]
    assert mine
    assert all(resolve_preset(name).estimate for name in mine)


def test_every_listed_preset_resolves():
    """The list holds no name that fails, every device, and the default."""
    names = list_presets()
    assert all(resolve_preset(name).kv_tokens >= 1024 for name in names)
    assert {name.split("/")[0] for name in names} == set(DEVICES)
    assert DEFAULT_PRESET in names


def test_unknown_name_tells_near_ones():
    """A typo is answered with the preset that was meant."""
    with pytest.raises(ConfigError, match=r"rtx3090/llama-3\.1-8b/q4_k_m"):
        resolve_preset("rtx3090/llama-3.1-8b/q4km")


def test_model_too_large_says_so():
    """A 70B at F16 on 12 GB is refused in one sentence."""
    with pytest.raises(ConfigError, match="does not fit"):
        resolve_preset("rtx3060/llama-3.1-70b/f16")
