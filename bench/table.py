#!/usr/bin/env python3
"""Prints what the library must reach beside what the benchmarks measured.

    python3 bench/table.py [--strict] [build/bench/*.json]

Reads the JSON that bench/run.sh leaves in build/bench (or any Google Benchmark output of these programs). Each line takes all cases that it
speaks of and shows the worst of them. With --strict the exit status is 1 when a line is missed or has no measurement.
"""

import argparse
import glob
import json
import re
import sys
from dataclasses import dataclass, field

CASE = re.compile(
    r"(?P<op>\w+)/(?P<dtype>f32|f64|bf16|f16)/(?P<unit>\w+)/(?P<rule>\w+)"
    r"/B(?P<B>\d+)_H(?P<H>\d+)_K(?P<K>\d+)_Q(?P<Q>\d+)_KV(?P<KV>\d+)_D(?P<D>\d+)/(?P<layout>bhsd|bshd)(?:/(?P<extra>.+))?$"
)


@dataclass
class Case:
    """One benchmark: the parts of its name as attributes (op, dtype, unit, rule, B, H, K, Q, KV, D, layout, extra), and its counters."""

    name: str
    build: str
    counters: dict
    parts: dict = field(default_factory=dict)
    error: str = ""

    def __getattr__(self, key):
        if key in self.parts:
            return self.parts[key]
        raise AttributeError(key)


def load(paths):
    """All cases of these files. The build (native, avx2, avx2-clang) is what run.sh passed as --benchmark_context=build=..."""
    cases = []
    for path in paths:
        with open(path) as file:
            report = json.load(file)
        build = report["context"].get("build", "native")
        for b in report["benchmarks"]:
            if b.get("run_type", "iteration") != "iteration":
                continue
            name = re.sub(r"/iterations:\d+.*$", "", b["name"])
            match = CASE.match(name)
            parts = {k: int(v) if v is not None and v.isdigit() else v for k, v in match.groupdict().items()} if match else {"op": name.split("/")[0]}
            cases.append(Case(name, build, b, parts, b.get("error_message", "")))
    return cases


@dataclass
class Line:
    """title; which cases; which counter (a name, or a function of a case); its bound; whether it is a floor ('>=') or a ceiling ('<=')."""

    title: str
    which: object
    counter: object
    sense: str
    bound: float
    show: str = "{:.1f} %"


def copied_head_bytes(case):
    """One kv head, widened to f32, rows padded to whole vectors: what BSHD may add to the workspace. Of bf16 in pairs: the values of one."""
    if case.dtype == "bf16" and case.unit == "wide":
        return (case.KV + 3) * ((case.D + 15) // 16 * 16) * 2 * (2 if case.layout == "bshd" else 1)
    return 2 * case.KV * ((case.D + 15) // 16 * 16) * 4 if case.layout == "bshd" else 0


def workspace_kib(case):
    workers = case.counters.get("workers", 1)
    return (case.counters["extra_bytes"] / workers - copied_head_bytes(case)) / 1024


def lines():
    """The table, in its own order."""

    def prefill(dtype="f32", build="native", layout="bhsd", **want):
        def which(c):
            return c.build == build and c.op == "prefill" and c.dtype == dtype and c.layout == layout and all(
                getattr(c, k) in v if isinstance(v, (tuple, range)) else getattr(c, k) == v for k, v in want.items()
            )

        return which

    def peak(title, which, bound):
        return Line(title, which, "percent_of_peak", ">=", bound)

    long = range(1024, 1 << 40)
    for d, full, causal in ((128, 90, 87), (64, 86, 84)):
        yield peak(f"f32 BHSD S>=1024 D={d}, full", prefill(rule="full", Q=(1024, 2048, 4096), D=d), full)
        yield peak(f"f32 BHSD S>=1024 D={d}, causal", prefill(rule="causal", Q=(1024, 2048, 4096), D=d), causal)
    yield peak("f32 BHSD S=512 D=128, full", prefill(rule="full", Q=512, D=128), 88)
    yield peak("f32 BHSD S=512 D=128, causal", prefill(rule="causal", Q=512, D=128), 85)
    yield peak("f32 BSHD 32 heads S>=1024 D=128, full", prefill(layout="bshd", H=32, rule="full", Q=long, D=128), 87)
    yield peak("f32 BSHD 32 heads S>=1024 D=128, causal", prefill(layout="bshd", H=32, rule="causal", Q=long, D=128), 82)
    for d in (80, 96, 112, 192, 256):
        yield peak(f"f32 S=1024 D={d}, full", prefill(rule="full", Q=1024, D=d), 85)
    yield peak("f32 S=1024 D=32, full", prefill(rule="full", Q=1024, D=32), 80)
    for d in (37, 63):
        yield peak(f"f32 S=1024 D={d}, full", prefill(rule="full", Q=1024, D=d), 65)
    yield peak("f32 S=777 (query tails), full", prefill(rule="full", Q=777), 80)
    yield peak("f32 S=65 (query tails), full", prefill(rule="full", Q=65), 55)
    yield peak("f16 widened D=128, full", prefill(dtype="f16", rule="full", Q=long, D=128), 86)
    for d, full, causal in ((128, 88, 84), (64, 82, 80), (256, 86, None)):  # of the peak of VDPBF16PS
        yield peak(f"bf16 in pairs D={d}, full", prefill(dtype="bf16", rule="full", Q=long, D=d), full)
        if causal:
            yield peak(f"bf16 in pairs D={d}, causal", prefill(dtype="bf16", rule="causal", Q=long, D=d), causal)
    for build, name in (("avx2", "x86-64-v3"), ("avx2-clang", "x86-64-v3, clang++")):
        for d, bound in ((128, 85), (64, 82)):
            yield peak(f"{name}: f32 D={d}, full", prefill(build=build, rule="full", Q=long, D=d), bound)

    for dtype, bound in (("f32", 80), ("bf16", 70)):
        for pages, kind in ((0, "4 KB pages"), (1, "huge pages")):
            yield Line(
                f"decode {dtype} 32/8 heads D=128 kv>=128 MB, {kind}",
                lambda c, dtype=dtype, pages=pages: c.build == "native" and c.op == "decode" and c.dtype == dtype and (c.B, c.H, c.K, c.D) == (1, 32, 8, 128)
                and c.layout == "bhsd" and c.counters["bytes"] >= 128e6 and c.extra == f"huge_pages:{pages}",
                "percent_of_bandwidth", ">=", bound,
            )

    ratio = "{:.3f}"

    def op(name, extra=".*", dtype=None, **want):
        return lambda c: c.build == "native" and c.op == name and re.fullmatch(extra, c.parts.get("extra") or "") and dtype in (None, c.dtype) and all(
            getattr(c, k) == v for k, v in want.items()
        )

    yield peak("cascade: 32 sequences on a prefix of 8k, 32/8 heads", op("cascade", K=8), 75)
    yield Line("the same, 32/32 heads, speed over unshared", op("cascade", K=32), "speed_over_unshared", ">=", 5, ratio)
    for size, bound in ((16, 0.92), (1, 0.6)):
        yield Line(f"decode from pages of {size}, speed over dense", op("kv", f"pages{size}/.*"), "speed_over_dense", ">=", bound, ratio)
    yield Line("decode of 32/8 heads, time over 8/8", op("kv", "group/.*"), "time_over_ungrouped", "<=", 1.15, ratio)
    yield Line("a step over 128 tokens: checks' share of the time", op("kv", "step/.*"), "checks_share", "<=", 0.05, ratio)
    for encodings, bound in ((("int8",), 1.4), (("q8_0",), 1.2), (("f8_e4m3/bf16_queries", "f8_e5m2/bf16_queries"), 1.1), (("q4_0",), 1.3)):
        for name in encodings:
            yield Line(f"{name} 32/8 decode, speed over bf16", lambda c, name=name: c.name.startswith(f"encodings/{name}/narrow/causal/B1_H32_K8_"),
                       "speed_over_bf16", ">=", bound, ratio)
    yield Line("encoded kv in prefill, S=2048 causal, speed over bf16", lambda c: re.match(r"encodings/\w+(/bf16_queries)?/wide/causal/", c.name), "speed_over_bf16", ">=", 0.8, ratio)
    yield Line("mixed batch, 2 threads over 1, of the peak's own", lambda c: c.name.startswith("kv_threads/f32/mixed_batch"), "speedup_over_peak_speedup", ">=", 0.93, ratio)
    yield Line("one sequence of 128k, all threads, share of their read", lambda c: c.name.startswith("kv_threads/bf16/long_sequence"), "share_of_read", ">=", 0.75, ratio)

    def rule(name):
        return lambda c: c.build == "native" and c.op == "rules" and c.rule == name

    yield Line("causal as a mask_fn, keep only, time over causal", rule("mask_fn_keep"), "time_over_other", "<=", 2.2, ratio)
    yield Line("the same with classify", rule("mask_fn_classify"), "time_over_other", "<=", 1.05, ratio)
    yield Line("window 511 over causal, S=8192, of the pairs' ratio", rule("window_511"), "time_over_other", "<=", 1.15, ratio)
    yield Line("16 packed documents of 512 over 16 calls", rule("documents_16_of_512"), "time_over_other", "<=", 1.05, ratio)
    for name, bound in (("softcap", 70), ("alibi", 80), ("t5_bias", 75), ("dense_bf16_bias", 70), ("bool_mask", 80)):
        yield peak(f"{name}, S=2048 D=128 full", rule(name), bound)
    yield Line("block-sparse 10 % over dense, S=8192", rule("block_sparse_10_percent"), "time_over_other", "<=", 0.13, ratio)
    yield Line("Swin with bias, time over careful Eigen", rule("swin_bias"), "time_over_other", "<=", 0.667, ratio)
    yield Line("tree of 64 drafts over 64 plain queries, 8k prefix", rule("tree_64"), "time_over_other", "<=", 1.2, ratio)
    for s, bound in ((16, 0.9), (32, 0.75), (64, 0.75), (128, 0.75)):
        yield Line(f"S={s} D=64 8 heads, time over careful Eigen", lambda c, s=s: c.build == "native" and c.op == "small" and (c.Q, c.H, c.D, c.rule) == (s, 8, 64, "full"),
                   "time_over_careful", "<=", bound, ratio)
    for rule, bound in (("full", 0.65), ("causal", 0.35)):
        yield Line(f"f32 D=128 S=2048, 4096 {rule}, time over careful Eigen", prefill(rule=rule, Q=(2048, 4096), D=128), "time_over_careful", "<=", bound, ratio)

    yield Line("extra memory a thread, D<=256, less a BSHD copy", lambda c: c.build == "native" and "D" in c.parts and c.D <= 256 and "extra_bytes" in c.counters,
               workspace_kib, "<=", 512, "{:.0f} KiB")
    yield Line("2 threads over 1, S=2048 causal, of the peak's own", lambda c: c.op == "threads" and (c.rule, c.Q, c.H) == ("causal", 2048, 8) and c.extra == "threads:2",
               "speedup_over_peak_speedup", ">=", 0.95, ratio)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="JSON of the benchmarks (default: build/bench/*.json)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a line is missed or unmeasured")
    arguments = parser.parse_args()
    files = arguments.files or sorted(glob.glob("build/bench/*.json"))
    if not files:
        sys.exit("no JSON in build/bench; run bash bench/run.sh first, or name the files")
    cases = load(files)

    failed = [c for c in cases if c.error]
    for c in failed:
        print(f"FAILED  {c.name}: {c.error}")
    good = [c for c in cases if not c.error]

    missed = len(failed)
    print(f"{'what':<56} {'target':>9} {'worst':>10}       of")
    for line in lines():
        value_of = line.counter if callable(line.counter) else (lambda c, key=line.counter: c.counters[key])
        measured = sorted(((value_of(c), c) for c in good if line.which(c)), key=lambda m: m[0], reverse=line.sense == "<=")
        target = f"{line.sense} {line.bound:g}"
        if not measured:
            print(f"{line.title:<56} {target:>9} {'-':>10}  none  0")
            missed += 1
            continue
        value, worst = measured[0]
        passed = value >= line.bound if line.sense == ">=" else value <= line.bound
        missed += not passed
        print(f"{line.title:<56} {target:>9} {line.show.format(value):>10}  {'pass' if passed else 'MISS'}  {len(measured)}: {worst.name}")
    print(f"{missed} missed or not measured" if missed else "all reached")
    if arguments.strict and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
