#!/usr/bin/env python3
"""Races the library against PyTorch's scaled_dot_product_attention on this machine's CPU, in alternation, in one process.

    python3 bench/torch_peer.py [--filter REGEX] [--threads 1,16] [--json FILE]

Needs PyTorch, g++ (or $CXX) and what the library needs. Builds bench/torch_calls.cpp for this machine first. Each case takes turns,
ours and theirs, for at least 9 rounds; a slice of either is at least 10 ms. Shown are the medians, and the median of the rounds'
ratios; the two results are compared before.
"""

import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed; pip install torch")

ROOT = Path(__file__).resolve().parent.parent
DTYPES = {"f32": (0, torch.float32, 2e-5), "bf16": (1, torch.bfloat16, 2e-2), "f16": (2, torch.float16, 3e-3)}


class Shape(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("batch", "q_heads", "kv_heads", "q_tokens", "kv_tokens", "head_dim", "causal", "threads")]


def build():
    out = ROOT / "build" / "bench" / "libimbrex_torch_calls.so"
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", f"-I{ROOT}/include",
               *os.environ.get("CXXFLAGS", "").split(), str(ROOT / "bench" / "torch_calls.cpp"), "-o", str(out)]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(out))
    library.imbrex_make.restype = ctypes.c_void_p
    library.imbrex_make.argtypes = [ctypes.c_int, ctypes.POINTER(Shape)] + [ctypes.c_void_p] * 4
    library.imbrex_run.argtypes = library.imbrex_free.argtypes = [ctypes.c_void_p]
    library.imbrex_path.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    return library


def cases(threads):
    """name, dtype, shape (batch, query heads, kv heads, query tokens, kv tokens, head_dim), causal, threads, ours over theirs to reach"""
    most = threads[-1]
    for s, bound in ((1024, 1.8), (2048, 1.8), (4096, 1.6)):
        yield "prefill full", "bf16", (1, 8, 8, s, s, 128), False, 1, bound
        if most > 1:
            yield "prefill full", "bf16", (1, 8, 8, s, s, 128), False, most, 2
    if most > 1:
        for s in (1024, 2048):
            yield "prefill full", "bf16", (4, 32, 32, s, s, 128), False, most, 2
    yield "prefill causal", "bf16", (1, 8, 8, 4096, 4096, 128), True, most, 3
    for t in threads:
        yield "prefill full", "bf16", (1, 8, 8, 1024, 1024, 64), False, t, 2
    for s in (1024, 2048):
        yield "prefill full", "f16", (1, 8, 8, s, s, 128), False, 1, 1.3
    for s in (1024, 4096):
        yield "prefill full", "f32", (1, 8, 8, s, s, 128), False, most, 1.1
        yield "prefill causal", "f32", (1, 8, 8, s, s, 128), True, most, 1.5
    for b in (1, 8):
        yield "decode", "bf16", (b, 32, 8, 1, 8192, 128), False, most, 3
    for dtype in ("bf16", "f32"):
        yield "encoder", dtype, (8, 12, 12, 128, 128, 64), False, most, 1.5


def race(library, name, dtype, shape, causal, threads):
    code, torch_type, tolerance = DTYPES[dtype]
    b, h, g, sq, sk, d = shape
    torch.manual_seed(1)
    q, k, v = (torch.randn(s, dtype=torch.float32).to(torch_type) for s in ((b, h, sq, d), (b, g, sk, d), (b, g, sk, d)))
    out = torch.empty_like(q)
    call = library.imbrex_make(code, Shape(b, h, g, sq, sk, d, causal, threads), q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr())
    if not call:
        sys.exit(f"{name}: no plan")
    torch.set_num_threads(threads)

    def ours():
        if library.imbrex_run(call) != 0:
            sys.exit(f"{name}: the call failed")

    def theirs():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=h != g)

    with torch.inference_mode():
        ours()
        off = (out.float() - theirs().float()).abs().max().item()
        if not off <= tolerance:
            sys.exit(f"{name} {dtype} {shape}: the two differ by {off}, {tolerance} is allowed")

        def turn(f, n):
            time.sleep(0.06)  # the other's threads stop spinning: libgomp's do 300 000 pauses, of 50 ns
            f()
            begin = time.perf_counter()
            for _ in range(n):
                f()
            return (time.perf_counter() - begin) / n

        counts = [max(1, int(0.01 / max(1e-6, turn(f, 1)))) for f in (ours, theirs)]
        times = [[], []]
        begin = time.perf_counter()
        while len(times[0]) < 9 or (time.perf_counter() - begin < 1.0 and len(times[0]) < 41):
            for i, f in enumerate((ours, theirs)):
                times[i].append(turn(f, counts[i]))
    path = ctypes.create_string_buffer(400)
    library.imbrex_path(call, path, 400)
    library.imbrex_free(call)
    return [statistics.median(t) for t in times], statistics.median(t / o for o, t in zip(*times)), path.value.decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="regular expression on the cases' names")
    parser.add_argument("--threads", default=None, help="numbers of threads (default: 1 and all cores)")
    parser.add_argument("--json", help="also write the figures here")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    threads = [int(t) for t in arguments.threads.split(",")] if arguments.threads else sorted({1, cores})
    library = build()
    print(f"PyTorch {torch.__version__}, {cores} cores")
    print(f"{'case':<58} {'ours ms':>9} {'theirs':>9} {'GFLOP/s':>8} {'times':>6}  goal")
    rows = []
    for name, dtype, shape, causal, t, goal in cases(threads):
        b, h, g, sq, sk, d = shape
        title = f"{name} {dtype} B{b} H{h} K{g} Q{sq} KV{sk} D{d} threads {t}"
        if not re.search(arguments.filter, title):
            continue
        (ours, theirs), ratio, path = race(library, name, dtype, shape, causal, t)
        pairs = sum(min(sk, sk - sq + i + 1) for i in range(sq)) if causal else sq * sk
        gflops = 4e-9 * b * h * pairs * d / ours
        rows.append({"case": title, "ours": ours, "theirs": theirs, "gflops": gflops, "ratio": ratio, "goal": goal, "path": path})
        print(f"{title:<58} {1e3 * ours:9.3f} {1e3 * theirs:9.3f} {gflops:8.0f} {ratio:6.2f}  {goal:g} {'reached' if ratio >= goal else 'MISSED'}", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
