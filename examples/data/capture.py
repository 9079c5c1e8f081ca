#!/usr/bin/env python3
"""Captures one layer's queries, keys and values of a Llama-architecture model on text.txt, for demo.cpp.

    pip install gguf numpy
    python capture.py SmolLM2-135M-Instruct.Q4_1.gguf smollm2_layer12.bin

The forward pass is written out in numpy, in f32, on the dequantised weights, so that nothing but the GGUF file is
needed. All layers run, and the perplexity of the text is printed as a check: 22 here, but about 190 with the rotary
pairs chosen wrongly or the embedding left out. README.md describes the output file.
"""

import argparse
import pathlib
import re
import struct

import numpy as np
from gguf import GGUFReader, dequantize

MAGIC = b"IMBREXQKV1"
HEADER_BYTES = 64

# The pre-tokenizer of GPT-2, digits split one by one. ASCII classes suffice: the text is ASCII, which main checks.
WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


class Model:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.tensors = {t.name: t for t in reader.tensors}
        self.field = lambda name: reader.fields[name].contents()

    def weight(self, name):
        tensor = self.tensors[name + ".weight"]
        return dequantize(tensor.data, tensor.tensor_type).astype(np.float32)


def tokenize(model, text):
    """Byte-level BPE: in each word, the adjacent pair of lowest rank is merged until no pair has a rank."""
    ids = {token: i for i, token in enumerate(model.field("tokenizer.ggml.tokens"))}
    rank = {tuple(pair.split(" ")): i for i, pair in enumerate(model.field("tokenizer.ggml.merges"))}
    tokens = []
    for word in WORDS.findall(text):
        parts = ["\u0120" if c == " " else "\u010a" if c == "\n" else c for c in word]  # GPT-2's printable bytes
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda pair: rank.get(pair, len(rank)))
            if best not in rank:
                break
            i = list(zip(parts, parts[1:])).index(best)
            parts[i : i + 2] = ["".join(best)]
        tokens += [ids[part] for part in parts]
    return tokens


def rms_norm(x, weight, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight


def rotate(x, base):
    """Rotary embedding of x[tokens][heads][head_dim]; GGUF stores Llama weights so that the pairs are adjacent."""
    tokens, _, dim = x.shape
    angle = np.arange(tokens)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    cos, sin = (f(angle).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


def causal_attention(q, k, v):
    """q[tokens][q_heads][head_dim] on k, v[tokens][kv_heads][head_dim]; query head h reads kv head h / group."""
    tokens, q_heads, dim = q.shape
    group = q_heads // k.shape[1]
    hidden = np.triu(np.ones((tokens, tokens), bool), 1)
    out = np.empty_like(q)
    for h in range(q_heads):
        score = q[:, h] @ k[:, h // group].T / np.sqrt(np.float32(dim))
        score[hidden] = -np.inf
        weight = np.exp(score - score.max(axis=-1, keepdims=True))
        out[:, h] = weight @ v[:, h // group] / weight.sum(axis=-1, keepdims=True)
    return out


def forward(model, tokens, capture_layer):
    """Returns the logits, and (q, k, v) of capture_layer after the rotary embedding."""
    q_heads, kv_heads = model.field("llama.attention.head_count"), model.field("llama.attention.head_count_kv")
    epsilon = model.field("llama.attention.layer_norm_rms_epsilon")
    base = model.field("llama.rope.freq_base")
    embedding = model.weight("token_embd")
    x, captured = embedding[tokens], None
    for layer in range(model.field("llama.block_count")):
        weight = lambda name: model.weight(f"blk.{layer}.{name}")
        heads = lambda y, n: y.reshape(len(tokens), n, -1)
        y = rms_norm(x, weight("attn_norm"), epsilon)
        q = rotate(heads(y @ weight("attn_q").T, q_heads), base)
        k = rotate(heads(y @ weight("attn_k").T, kv_heads), base)
        v = heads(y @ weight("attn_v").T, kv_heads)
        if layer == capture_layer:
            captured = q, k, v
        x = x + causal_attention(q, k, v).reshape(x.shape) @ weight("attn_output").T
        y = rms_norm(x, weight("ffn_norm"), epsilon)
        gate = y @ weight("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ weight("ffn_up").T)) @ weight("ffn_down").T
    return rms_norm(x, model.weight("output_norm"), epsilon) @ embedding.T, captured


def perplexity(logits, tokens):
    logits, target = logits[:-1].astype(np.float64), np.asarray(tokens[1:])
    top = logits.max(axis=-1)
    log_sum = top + np.log(np.exp(logits - top[:, None]).sum(axis=-1))
    return np.exp(np.mean(log_sum - logits[np.arange(len(target)), target]))


def to_bf16(x):
    """The upper 16 bits of each f32, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf")
    parser.add_argument("output")
    parser.add_argument("--layer", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--text", default=pathlib.Path(__file__).with_name("text.txt"))
    options = parser.parse_args()

    model = Model(options.gguf)
    if not 0 <= options.layer < model.field("llama.block_count"):
        parser.error(f"--layer must be from 0 to {model.field('llama.block_count') - 1}")
    text = pathlib.Path(options.text).read_text(encoding="ascii")
    tokens = tokenize(model, text)[: options.tokens]
    logits, (q, k, v) = forward(model, tokens, options.layer)
    print(f"{len(tokens)} tokens, perplexity {perplexity(logits, tokens):.2f}")

    header = struct.pack("<10s2x5i", MAGIC, len(tokens), q.shape[1], k.shape[1], q.shape[2], options.layer)
    data = header.ljust(HEADER_BYTES, b"\0") + b"".join(to_bf16(x).tobytes() for x in (q, k, v))
    pathlib.Path(options.output).write_bytes(data)
    print(f"{options.output}: {len(data)} bytes; largest |q| {abs(q).max():.2f}, |k| {abs(k).max():.2f}, "
          f"|v| {abs(v).max():.2f}")


if __name__ == "__main__":
    main()
