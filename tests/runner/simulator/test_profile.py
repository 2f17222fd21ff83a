"""Profile files and the --cost flag."""

from pathlib import Path

import pytest

from runner.errors import ConfigError
from runner.simulator.cost_model import BatchShape, CostModel, iteration_ms
from runner.simulator.profile import load_profile, parse_cost


def test_profile_file_is_read(tmp_path: Path):
    """kv_tokens and [cost] become the profile; what else a calibration wrote is left alone."""
    file = tmp_path / "mine.toml"
    file.write_text('kv_tokens = 4096\n[cost]\na = 8\nb = 0.2\nd = 1e-4\n[errors]\nheld_out = "3 %"\n')
    profile = load_profile(file)
    assert profile.cost == CostModel(a=8, b=0.2, d=1e-4)
    assert profile.kv_tokens == 4096
    assert "mine.toml" in profile.source


def test_knots_experts_and_kv_bytes_are_read(tmp_path: Path):
    """The optional parts: points of f, a mixture of experts, what a token's KV weighs, and whether it was guessed."""
    file = tmp_path / "moe.toml"
    file.write_text(
        "kv_tokens = 4096\nkv_bytes_per_token = 98304\nestimate = true\n[cost]\na = 8\nb = 0\n"
        "knots = [[1, 8.0], [16, 12]]\nexperts = 128\nexperts_active = 8\nexpert_share = 0.5\n"
    )
    profile = load_profile(file)
    assert profile.cost == CostModel(
        a=8, b=0, knots=((1, 8.0), (16, 12.0)), experts=128, experts_active=8, expert_share=0.5
    )
    assert profile.kv_bytes_per_token == 98304
    assert profile.estimate
    assert profile.source.startswith("estimate")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kv_tokens = 64\nkv_bytes_per_token = 0\n[cost]\na = 1\nb = 1", "kv_bytes_per_token must be a whole number"),
        ("kv_tokens = 64\n[cost]\na = 1\nb = 1\nknots = [[4, 9], [2, 10]]", "cost.knots must be pairs"),
        ("kv_tokens = 64\n[cost]\na = 1\nb = 1\nknots = [[2, 9], [4, 8]]", "cost.knots must be pairs"),
        ("kv_tokens = 64\n[cost]\na = 1\nb = 1\nknots = 3", "cost.knots must be pairs"),
        ("kv_tokens = 64\n[cost]\na = 1\nb = 1\nexperts = 4", "cost needs experts and experts_active"),
        ("kv_tokens = 4096", "table \\[cost\\] is missing"),
        ("[cost]\na = 1\nb = 1", "kv_tokens must be a whole number"),
        ("kv_tokens = 4096\n[cost]\na = 1", "cost.b is missing"),
        ("kv_tokens = 4096\n[cost]\na = 1\nb = 1\nz = 1", "cost.z is not a coefficient"),
        ("kv_tokens = 4096\n[cost]\na = -1\nb = 1", "cost.a must be a number"),
        (f"kv_tokens = 4096\n[cost]\na = 1{'0' * 400}\nb = 1", "cost.a must be a number of milliseconds from 0 to"),
        ("kv_tokens = 4096\n[cost]\na = 1\nb = 1\ne = 2", "cost.e must be a number of milliseconds from 0 to 1,"),
        ("kv_tokens = ", "cannot be read as TOML"),
    ],
)
def test_mistakes_name_file_and_key(tmp_path: Path, text: str, says: str):
    """Each mistake is one sentence with the file and the key."""
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"mine.toml.*{says}"):
        load_profile(file)


def test_the_largest_costs_keep_every_time_within_64_bits():
    """A whole context of 128k at the highest prices takes less than 2**63 ns; beyond, a time would turn negative."""
    cost = parse_cost("a=1e6,b=1e6,c=1e6,d=1e6,e=1,host=1e6")
    context = 131_072
    assert iteration_ms(cost, BatchShape(context, context**2, 1, context)) * 1e6 < 2**63


def test_a_profile_may_have_a_byte_order_mark_and_windows_line_ends(tmp_path: Path):
    """As editors on Windows write it."""
    file = tmp_path / "mine.toml"
    file.write_bytes(b"\xef\xbb\xbfkv_tokens = 4096\r\n[cost]\r\na = 8\r\nb = 0.2\r\n")
    assert load_profile(file).cost == CostModel(a=8, b=0.2)


def test_what_is_no_profile_is_a_config_error(tmp_path: Path):
    """A folder, bytes of another encoding, brackets without end."""
    for name, content in (("latin.toml", b"# \xe6"), ("deep.toml", b"x = " + b"[" * 50_000)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match="cannot be read"):
            load_profile(tmp_path / name)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_profile(tmp_path)


def test_missing_file_is_a_config_error(tmp_path: Path):
    """A path that is not there is told, without a traceback."""
    with pytest.raises(ConfigError, match="no such file"):
        load_profile(tmp_path / "nothing.toml")


def test_cost_flag():
    """a=…,b=… with spaces is read; a word or an infinity is refused."""
    assert parse_cost("a=8.3, b=0.235,e=1e-6") == CostModel(a=8.3, b=0.235, e=1e-6)
    for wrong in ("a=8.3,b", "a=x,b=1", "a=1", "a=inf,b=1", "a=nan,b=1"):
        with pytest.raises(ConfigError, match="--cost"):
            parse_cost(wrong)
