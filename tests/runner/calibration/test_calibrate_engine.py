"""A calibration end to end, of the built-in engine over real HTTP: the command, its profile, and what it says."""

import json
from pathlib import Path

import pytest

from app.cli import main
from runner.calibration.profile_file import load_calibration
from runner.simulator.cost_model import BatchShape, CostModel, iteration_ms
from runner.simulator.profile import load_profile
from tests.support.running_engine import running_engine

TRUE = CostModel(a=8.0, b=0.1, c=0.5, d=1e-3)


def test_the_command_recovers_an_engine_s_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the network, both processes and busy neighbours add is there in every iteration, a millisecond or two of
    nine; per prompt token it cancels out: 1024 tokens against 32 are 100 ms that nothing else explains. The bounds
    leave room for a machine that does much else: exact is the test in virtual time.
    """
    profile = tmp_path / "engine.toml"
    cost = ",".join(f"{k}={getattr(TRUE, k)}" for k in "abcd")
    with running_engine("--cost", cost, "--max-num-seqs", "4", "--kv-tokens", "16384") as url:
        size = ["--max-num-seqs", "4", "--kv-tokens", "16384"]
        flags = [*size, "--rounds", "2", "--held-out", "2", "--data", str(tmp_path / "data")]
        assert main(["calibrate", url, "-o", str(profile), "--json", *flags]) == 0
    told = json.loads(capsys.readouterr().out)
    fitted = CostModel(**told["cost"])
    short, long = BatchShape(32, 32**2), BatchShape(1024, 1024**2)
    assert 0.5 < (iteration_ms(fitted, long) - iteration_ms(fitted, short)) / (992 * TRUE.b) < 2
    for seqs, context in ((1, 100), (4, 400)):
        shape = BatchShape(decode_seqs=seqs, context_tokens=context)
        assert 0.4 < iteration_ms(fitted, shape) / iteration_ms(TRUE, shape) < 4
    assert told["measured_up_to"]["seqs"] == 4
    assert told["measured_up_to"]["prompt_tokens"] >= 1000
    assert [row["request_rate"] for row in told["held_out"]] == sorted(row["request_rate"] for row in told["held_out"])
    assert told["pace_after"] > 0
    assert all(row["gap_ms"]["p50"]["measured"] > 0 for row in told["held_out"])
    read = load_profile(profile)
    assert read.cost.b == pytest.approx(fitted.b, rel=1e-4)
    found = load_calibration(profile)
    assert found is not None
    assert found.sweep_id == told["sweep_id"]
    assert (tmp_path / "data" / "sweeps" / str(found.sweep_id)).is_dir()


def test_a_server_that_is_not_there_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And no profile is left behind; a file in no folder is refused before anything is measured."""
    profile = tmp_path / "x.toml"
    data = ["--data", str(tmp_path / "data")]
    assert main(["calibrate", "http://127.0.0.1:9", "-o", str(profile), *data]) == 1
    assert "did not answer" in capsys.readouterr().err
    assert not profile.exists()
    assert main(["calibrate", "http://127.0.0.1:9", "-o", str(tmp_path / "no" / "x.toml"), *data]) == 2
    assert main(["calibrate", "nonsense://", "-o", str(profile), *data]) == 2
    assert main(["calibrate", "http://127.0.0.1:9", "-o", str(profile), "--api", "grpc", *data]) == 2
    assert main(["calibrate", "http://u:SECRET@127.0.0.1:9", "-o", str(profile), *data]) == 2
    assert main(["calibrate", "http://127.0.0.1:9", "-o", str(profile), "--held-out", "0", *data]) == 2
    assert "SECRET" not in capsys.readouterr().err
