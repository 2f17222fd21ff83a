#!/usr/bin/env python3
"""Writes a small random Llama-architecture GGUF for llama.cpp, with the standard library alone.

    make_gguf.py OUT.gguf [--hidden 128 --layers 4 --ffn 384 --ctx 4096 --seed 0 --eos]

Byte-level BPE vocabulary: 4 specials, 256 bytes, and a word list with its prefixes as merges. Tokens that are not
whole printable ASCII text (and EOS, unless asked for) get a logit far below the rest, so each sampled token decodes
to text at once (one token, one streamed chunk) and the output length is max_tokens exactly.
"""

import argparse
import array
import random
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

WORDS = """
the server sends a token to client and scheduler puts next request in batch queue prefill decode latency
throughput memory cache block page model prompt stream load test metric percentile run result time first hello world
"""
SPECIALS = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
HEAD_DIM = 32
STRING, ARRAY, UINT32, FLOAT32, INT32, BOOL = 8, 9, 4, 6, 5, 7  # type numbers of the GGUF format
FORMATS = {UINT32: "<I", FLOAT32: "<f", INT32: "<i", BOOL: "<?"}

Tensor = tuple[str, tuple[int, ...], "array.array[float]"]


@dataclass(frozen=True)
class Size:
    hidden: int = 128
    layers: int = 4
    ffn: int = 384
    ctx: int = 4096
    seed: int = 0
    eos: bool = False  # may end-of-sequence be sampled?

    @property
    def kv_width(self) -> int:
        return max(1, self.hidden // (2 * HEAD_DIM)) * HEAD_DIM


def byte_alphabet() -> dict[int, str]:
    """GPT-2's printable stand-in for each of the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {b: chr(b) for b in printable}
    others = (b for b in range(256) if b not in alphabet)
    return alphabet | {b: chr(256 + n) for n, b in enumerate(others)}


def vocabulary() -> tuple[list[str], list[str]]:
    """Tokens and BPE merges: every word, with and without a space before it, grows byte by byte."""
    alphabet = byte_alphabet()
    tokens = SPECIALS + [alphabet[b] for b in range(256)]
    known, merges = set(tokens), []
    for word in WORDS.split():
        for text in (word, " " + word):
            grown = ""
            for char in (alphabet[b] for b in text.encode()):
                if grown and grown + char not in known:
                    tokens.append(grown + char)
                    known.add(grown + char)
                    merges.append(f"{grown} {char}")
                grown += char
    return tokens, merges


def may_be_sampled(index: int, token: str, eos: bool) -> bool:
    """True for whole printable ASCII text (and end-of-sequence when asked for)."""
    if index < len(SPECIALS):
        return eos and index == 1
    byte_of = {char: b for b, char in byte_alphabet().items()}
    return all(32 <= byte_of[char] < 127 for char in token)


def metadata(size: Size, tokens: list[str], merges: list[str]) -> list[bytes]:
    fields: list[tuple[str, int, str | int | float | bool]] = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, f"random-llama-{size.hidden}x{size.layers}"),
        ("general.file_type", UINT32, 0),
        ("llama.context_length", UINT32, size.ctx),
        ("llama.embedding_length", UINT32, size.hidden),
        ("llama.block_count", UINT32, size.layers),
        ("llama.feed_forward_length", UINT32, size.ffn),
        ("llama.attention.head_count", UINT32, size.hidden // HEAD_DIM),
        ("llama.attention.head_count_kv", UINT32, size.kv_width // HEAD_DIM),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        ("llama.rope.freq_base", FLOAT32, 10000.0),
        ("llama.rope.dimension_count", UINT32, HEAD_DIM),
        ("llama.vocab_size", UINT32, len(tokens)),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.bos_token_id", UINT32, 0),
        ("tokenizer.ggml.eos_token_id", UINT32, 1),
        ("tokenizer.ggml.add_bos_token", BOOL, True),
        ("tokenizer.chat_template", STRING, CHAT_TEMPLATE),
    ]
    kinds = [3] * len(SPECIALS) + [1] * (len(tokens) - len(SPECIALS))  # control, normal
    return [_text(key) + struct.pack("<I", kind) + _value(kind, value) for key, kind, value in fields] + [
        _array("tokenizer.ggml.tokens", STRING, tokens),
        _array("tokenizer.ggml.token_type", INT32, kinds),
        _array("tokenizer.ggml.merges", STRING, merges),
    ]


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(kind: int, value: str | int | float | bool) -> bytes:
    return _text(value) if isinstance(value, str) else struct.pack(FORMATS[kind], value)


def _array(key: str, kind: int, values: list[str] | list[int]) -> bytes:
    return _text(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + b"".join(_value(kind, v) for v in values)


def tensors(size: Size, tokens: list[str]) -> list[Tensor]:
    """Random weights. Channel 0 of the residual stream stays constant, so the output head can ban tokens by it."""
    draw = random.Random(size.seed).random
    hidden, ffn, kv = size.hidden, size.ffn, size.kv_width

    def ones(name: str) -> Tensor:
        return name, (hidden,), array.array("f", [1.0] * hidden)

    def noise(name: str, rows: int, cols: int, *, spare_channel_0: bool = False) -> Tensor:
        width = 0.08 * 12**0.5  # a uniform draw of this width has standard deviation 0.08
        data = array.array("f", [(draw() - 0.5) * width for _ in range(rows * cols)])
        if spare_channel_0:
            data[:cols] = array.array("f", [0.0] * cols)
        return name, (cols, rows), data

    embedding, head = noise("token_embd.weight", len(tokens), hidden), noise("output.weight", len(tokens), hidden)
    for i, token in enumerate(tokens):
        embedding[2][i * hidden] = 3.0
        head[2][i * hidden] = 0.0 if may_be_sampled(i, token, size.eos) else -1000.0
    found = [embedding, head, ones("output_norm.weight")]
    for layer in range(size.layers):
        block = f"blk.{layer}."
        found += [
            ones(block + "attn_norm.weight"),
            ones(block + "ffn_norm.weight"),
            noise(block + "attn_q.weight", hidden, hidden),
            noise(block + "attn_k.weight", kv, hidden),
            noise(block + "attn_v.weight", kv, hidden),
            noise(block + "attn_output.weight", hidden, hidden, spare_channel_0=True),
            noise(block + "ffn_gate.weight", ffn, hidden),
            noise(block + "ffn_up.weight", ffn, hidden),
            noise(block + "ffn_down.weight", hidden, ffn, spare_channel_0=True),
        ]
    return found


def write_gguf(path: Path, size: Size = Size()) -> None:
    """Writes the file; 1 M parameters (the default size) take about 0.2 s."""
    if sys.byteorder != "little":
        raise SystemExit("GGUF is little-endian; this machine is not")
    tokens, merges = vocabulary()
    fields, weights = metadata(size, tokens, merges), tensors(size, tokens)
    with path.open("wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(fields)) + b"".join(fields))
        offset = 0
        for name, dims, data in weights:
            out.write(_text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, offset))
            offset += (len(data) * 4 + 31) // 32 * 32
        _align(out)
        for _, _, data in weights:
            data.tofile(out)
            _align(out)


def _align(out: BinaryIO) -> None:
    out.write(b"\0" * (-out.tell() % 32))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a random Llama GGUF.")
    parser.add_argument("out", type=Path)
    for name in ("hidden", "layers", "ffn", "ctx", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Size, name))
    parser.add_argument("--eos", action="store_true")
    options = vars(parser.parse_args())
    write_gguf(options.pop("out"), Size(**options))


if __name__ == "__main__":
    main()
