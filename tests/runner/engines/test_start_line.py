"""Templates are filled argument by argument, and what is shown carries no secret."""

import pytest

from runner.config import Backend, Scalar
from runner.engines.catalogue import KINDS
from runner.engines.start_line import (
    fill_command,
    placeholders,
    secrets_of,
    setting_line,
    shown_line,
    simulator_args,
    suggested_line,
    with_variables,
)
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


def test_keys_of_single_schedulers_become_flags_of_the_engine() -> None:
    """What [backend] fixes is a flag too, and the grid's value wins; a switch is told as true or false."""
    backend = Backend(kind="simulated", scheduler="distserve", prefill_instances=2, kv_link_gbit_per_s=1)
    args = simulator_args(backend, {"kv_link_gbit_per_s": 10, "enable_prefix_caching": False})
    assert args[args.index("--prefill-instances") + 1] == "2"
    assert args[args.index("--kv-link-gbit-per-s") + 1] == "10"
    assert args[args.index("--enable-prefix-caching") + 1] == "False"
    assert "--batch-wait-ms" not in args


@pytest.mark.parametrize(
    ("kind", "setting", "line"),
    [
        ("ollama", {"max_num_seqs": 4}, "OLLAMA_NUM_PARALLEL=4 ollama serve"),
        (
            "ollama",
            {"max_num_seqs": 4, "context_tokens": 8192},
            "OLLAMA_NUM_PARALLEL=4 OLLAMA_CONTEXT_LENGTH=8192 ollama serve",
        ),
        (
            "llama_cpp",
            {"max_num_seqs": 4, "max_num_batched_tokens": 64, "kv_unified": True},
            "llama-server -m MODEL --metrics --port 8080 -np 4 -b 64 --kv-unified",
        ),
        (
            "vllm",
            {"max_num_seqs": 8, "policy": "priority", "enable_chunked_prefill": False},
            "vllm serve MODEL --port 8000 --max-num-seqs 8 --scheduling-policy priority --no-enable-chunked-prefill",
        ),
        (
            "sglang",
            {"max_num_seqs": 8},
            "python -m sglang.launch_server --model-path MODEL --enable-metrics --port 30000 --max-running-requests 8",
        ),
        (
            "tgi",
            {"max_num_batched_tokens": 4096},
            "text-generation-launcher --model-id MODEL --port 3000 --max-batch-prefill-tokens 4096",
        ),
        ("lmstudio", {"max_num_seqs": 4}, "lms load MODEL --parallel 4"),
        (
            "koboldcpp",
            {"max_num_seqs": 4},
            "koboldcpp --model MODEL --port 5001 --noshift --parallelrequests 4",
        ),
        ("localai", {"max_num_seqs": 4}, "LLAMACPP_PARALLEL=4 local-ai run"),
        ("mlx_lm", {"max_num_seqs": 4}, "mlx_lm.server --model MODEL --port 8080 --decode-concurrency 4"),
        (
            "tabbyapi",
            {"max_num_seqs": 4, "max_num_batched_tokens": 512},
            "# config.yml\nmodel:\n  max_batch_size: 4\n  chunk_size: 512",
        ),
        ("tabbyapi", {"model": "a"}, "# config.yml\nmodel:\n  model_name: a"),
        ("ollama", {"model": "a"}, None),
        ("openai", {"max_num_seqs": 4}, None),
        ("litellm", {"max_num_seqs": 4}, None),
        ("vllm", {}, None),
    ],
)
def test_each_kind_is_given_a_setting_in_its_own_way(kind: str, setting: dict[str, Scalar], line: str | None) -> None:
    """Flags, environment variables or a settings file, as each server's documentation has it."""
    assert setting_line(kind, setting) == line


def test_what_has_no_known_name_is_not_dropped() -> None:
    """It stands as a comment, which a shell and YAML pass over."""
    line = setting_line("vllm", {"max_num_seqs": 8, "odd": True})
    assert line == "vllm serve MODEL --port 8000 --max-num-seqs 8\n# no known name for: odd = true"


def test_model_and_port_are_filled_in_and_quoted() -> None:
    """The setting's model goes before the backend's; blanks are quoted for the shell."""
    assert setting_line("vllm", {"model": "my model"}, model="other", port=1) == "vllm serve 'my model' --port 1"
    backend = {"kind": "vllm", "model": "m", "url": "http://box:8001/v1"}
    assert suggested_line(backend, {"max_num_seqs": 2}) == "vllm serve m --port 8001 --max-num-seqs 2"
    assert suggested_line({"kind": "simulated"}, {"max_num_seqs": 2}) is None
    assert suggested_line({}, {"max_num_seqs": 2}) is None
    odd = {"kind": "vllm", "url": "http://box:x"}
    assert suggested_line(odd, {"max_num_seqs": 2}) == "vllm serve MODEL --port 8000 --max-num-seqs 2"


def test_every_kind_that_can_be_set_has_a_line() -> None:
    """A flag or a variable needs a start line to stand in; a file key needs its file."""
    for kind in KINDS.values():
        assert bool(kind.start) or not (kind.flags or kind.variables or kind.switches)
        assert bool(kind.settings_file) == bool(kind.file_keys)
