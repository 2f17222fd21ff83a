"""Templates are filled argument by argument, and what is shown carries no secret."""

import pytest

from runner.config import Backend, Scalar
from runner.engines.start_line import fill_command, placeholders, secrets_of, shown_line, simulator_args, with_variables
from runner.errors import ConfigError


def test_values_are_put_into_their_own_argument() -> None:
    """A value with blanks stays one argument; booleans are lower case; several braces in one argument work."""
    command = [
        "serve",
        "{model}",
        "--limits={max_num_seqs}/{max_num_batched_tokens}",
        "--flag={on}",
        "--port",
        "{port}",
    ]
    setting: dict[str, Scalar] = {
        "model": "my model.gguf",
        "max_num_seqs": 4,
        "max_num_batched_tokens": 256,
        "on": True,
    }
    filled = fill_command(command, setting, {"port": 8080})
    assert filled == ["serve", "my model.gguf", "--limits=4/256", "--flag=true", "--port", "8080"]


def test_variables_are_filled_at_the_start_and_not_in_what_is_shown() -> None:
    """`${NAME}` becomes the variable's value in the server's environment; one that is not set stays."""
    env = {"LLAMA_API_KEY": "${LLM_KEY}", "HOME": "${NOT_SET}/x"}
    assert with_variables(env, {"LLM_KEY": "abc"}) == {"LLAMA_API_KEY": "abc", "HOME": "${NOT_SET}/x"}
    assert "abc" not in shown_line(["serve"], env, [])


def test_json_in_an_argument_is_left_alone() -> None:
    """Braces that are no placeholder name belong to the command."""
    command = ["vllm", "--speculative-config", '{"method": "ngram"}', "{}"]
    assert fill_command(command, {}) == command
    assert placeholders(command) == set()


def test_an_unknown_placeholder_is_refused_with_the_known_ones() -> None:
    """The sentence names the placeholder and what could stand there."""
    with pytest.raises(ConfigError, match=r"\{max_seqs\} has no value \(known: \{port\}, \{max_num_seqs\}\)"):
        fill_command(["x", "{max_seqs}"], {"max_num_seqs": 4}, {"port": 1})


def test_shown_line_hides_keys_and_quotes_for_the_shell() -> None:
    """The key from the environment, --api-key's value and HF_TOKEN's are hidden; the rest can be pasted."""
    command = ["vllm", "serve", "my model", "--api-key", "swordfish", "--hf-token=tokenvalue", "--max-num-seqs", "4"]
    env = {"HF_TOKEN": "hub-secret", "OMP_NUM_THREADS": "1"}
    secrets = secrets_of(command, env, key="swordfish")
    line = shown_line(command, env, secrets)
    assert line == (
        "HF_TOKEN=*** OMP_NUM_THREADS=1 vllm serve 'my model' --api-key *** --hf-token=*** --max-num-seqs 4"
    )


def test_token_counts_are_no_secrets() -> None:
    """--max-num-batched-tokens 256 is a setting: the 256 must stay readable everywhere."""
    assert secrets_of(["x", "--max-num-batched-tokens", "256", "--kv-tokens=9000"], {}, None) == []


def test_a_setting_overrules_the_backend_of_the_built_in_engine() -> None:
    """Flags come from [backend], then from the setting; another cost source replaces the backend's."""
    backend = Backend(kind="simulated", cost={"a": 8.3, "b": 0.235}, kv_tokens=9000)
    assert simulator_args(backend, {"max_num_seqs": 4, "kv_tokens": 512}) == [
        "--scheduler", "vllm_v1", "--kv-tokens", "512", "--policy", "fcfs",
        "--cost", "a=8.3,b=0.235,c=0.0,d=0.0,e=0.0", "--max-num-seqs", "4",
    ]  # fmt: skip
    args = simulator_args(backend, {"preset": "rtx3090/llama-3.1-8b/q4_k_m"})
    assert "--cost" not in args
    assert args[args.index("--preset") + 1] == "rtx3090/llama-3.1-8b/q4_k_m"
