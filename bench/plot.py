#!/usr/bin/env python3
"""Draws what the benchmarks measured: a roofline, and time against sequence length, ours beside Eigen's.

    python3 bench/plot.py [-o build/bench/attention.png] [--head-dim 64] [build/bench/*.json]

Reads the JSON that bench/run.sh leaves in build/bench. Needs matplotlib (https://matplotlib.org).

Left: useful GFLOP/s over arithmetic intensity, the useful flops for each byte that has to cross the memory bus at least once (q, k, v and the
output; k and v alone in decode). The roof is this core's: FMA peak and read bandwidth as measured in the same runs. Filled marks are
ours, the hollow ones the careful Eigen form of the same case.
Middle and right: milliseconds for one head of S tokens attending to themselves, without and with a causal mask; both axes logarithmic.
"""

import argparse
import glob
import statistics
import sys

sys.dont_write_bytecode = True  # leaves no __pycache__ in bench/
from table import load  # noqa: E402

try:
    import matplotlib
except ImportError:
    sys.exit("plot.py needs matplotlib:  python3 -m pip install matplotlib   (Debian and Ubuntu: apt install python3-matplotlib)")
matplotlib.use("Agg")  # writes files; no display needed
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's colours, told apart by the colour-blind too.
OURS, CAREFUL, OBVIOUS, GREY = "#0072B2", "#D55E00", "#999999", "#444444"
FAMILIES = (  # label, marker, and which cases
    ("prefill f32", "o", lambda c: c.op == "prefill" and c.dtype == "f32"),
    ("prefill bf16, f16", "s", lambda c: c.op == "prefill" and c.dtype != "f32"),
    ("decode f32", "v", lambda c: c.op == "decode" and c.dtype == "f32"),
    ("decode bf16, f16", "^", lambda c: c.op == "decode" and c.dtype != "f32"),
    ("short sequences", "D", lambda c: c.op == "small"),
    ("model shapes", "P", lambda c: c.op not in ("prefill", "decode", "small", "read", "tiles", "threads")),
)


def draw_roofline(axes, cases):
    peak = statistics.median(c.counters["peak_gflops"] for c in cases if "peak_gflops" in c.counters and c.op != "threads")
    reads = [c.counters["gbps"] for c in cases if c.op == "read"] or [c.counters["read_gbps"] for c in cases if "read_gbps" in c.counters]
    bandwidth = max(reads)
    measured = [c for c in cases if "flops" in c.counters and c.op != "threads" and c.op != "tiles"]
    intensity = {c.name: c.counters["flops"] / c.counters["bytes"] for c in measured}
    left, right = min(intensity.values()) / 1.6, max(intensity.values()) * 1.6
    ridge = peak / bandwidth
    axes.plot([left, ridge, right], [left * bandwidth, peak, peak], color=GREY, linewidth=1.5)
    axes.annotate(f"FMA peak {peak:.0f} GFLOP/s", (right, peak), xytext=(-4, 4), textcoords="offset points", ha="right", color=GREY, fontsize=8)
    slope = (left * ridge) ** 0.5
    axes.annotate(f"reads {bandwidth:.0f} GB/s", (left, 1.6 * slope * bandwidth), xytext=(6, 0), textcoords="offset points", color=GREY, fontsize=8)
    for label, marker, which in FAMILIES:
        family = [c for c in measured if which(c)]
        if not family:
            continue
        x = [intensity[c.name] for c in family]
        axes.scatter(x, [c.counters["gflops"] for c in family], s=22, marker=marker, color=OURS, linewidths=0, label=label, zorder=3, alpha=0.85)
        eigen = [c for c in family if "careful_seconds" in c.counters]
        axes.scatter([intensity[c.name] for c in eigen], [1e-9 * c.counters["flops"] / c.counters["careful_seconds"] for c in eigen],
                     s=20, marker=marker, facecolors="none", edgecolors=CAREFUL, linewidths=0.7, zorder=2, alpha=0.8)
    axes.scatter([], [], s=20, marker="o", facecolors="none", edgecolors=CAREFUL, label="Eigen, careful")
    axes.set(xscale="log", yscale="log", xlim=(left, right), xlabel="useful flops per byte that must be moved", ylabel="useful GFLOP/s", title="Roofline, one core")
    axes.legend(fontsize=7, frameon=False, loc="lower right")


def draw_times(axes, cases, rule, head_dim):
    """A length may be in both `small` and `prefill`; the later one counts."""
    series = {}
    for c in cases:
        if c.op in ("small", "prefill") and (c.dtype, c.rule, c.D, c.layout) == ("f32", rule, head_dim, "bhsd") and c.Q == c.KV and c.H == c.K:
            ours = 1e-6 * c.counters["real_time"] * {"ns": 1e-3, "us": 1, "ms": 1e3}[c.counters["time_unit"]]
            for label, seconds in (("ours", ours), ("Eigen, careful", c.counters.get("careful_seconds")), ("Eigen, obvious", c.counters.get("obvious_seconds"))):
                if seconds:
                    series.setdefault(label, {})[c.Q] = 1e3 * seconds / (c.B * c.H)
    for label, colour, marker in (("Eigen, obvious", OBVIOUS, "s"), ("Eigen, careful", CAREFUL, "^"), ("ours", OURS, "o")):
        if label in series:
            points = sorted(series[label].items())
            axes.plot(*zip(*points), color=colour, marker=marker, markersize=3.5, linewidth=1.4, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="sequence length S", ylabel="ms per head", title=f"f32, {rule}, D={head_dim}")
    axes.xaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
    if series:
        axes.legend(fontsize=8, frameon=False, loc="upper left")
    else:
        axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="JSON of the benchmarks (default: build/bench/*.json)")
    parser.add_argument("-o", "--output", default="build/bench/attention.png", help="the picture; its ending chooses the format (png, svg, pdf)")
    parser.add_argument("--head-dim", type=int, default=64, help="of the two panels of times (default: 64)")
    arguments = parser.parse_args()
    files = arguments.files or sorted(glob.glob("build/bench/*.json"))
    cases = [c for c in load(files) if c.build == "native" and not c.error]
    if not any("flops" in c.counters for c in cases):
        sys.exit("no measurements in build/bench; run bash bench/run.sh first, or name the JSON files")

    figure, (roofline, full, causal) = plt.subplots(1, 3, figsize=(15, 4.6), constrained_layout=True)
    draw_roofline(roofline, cases)
    draw_times(full, cases, "full", arguments.head_dim)
    draw_times(causal, cases, "causal", arguments.head_dim)
    for axes in (roofline, full, causal):
        axes.grid(which="major", color="#dddddd", linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(arguments.output, dpi=160)
    print(arguments.output)


if __name__ == "__main__":
    main()
