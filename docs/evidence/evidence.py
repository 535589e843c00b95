"""Runs the simulations behind docs/evidence.md and writes their figures into that page.

    python docs/evidence/evidence.py run month-256-saturated --out DIR     one experiment (or several, or all)
    python docs/evidence/evidence.py tables --out DIR                      their figures into figures.json and the page

Runs need hours on a small machine; what was done is kept, so it can be broken off and started again. The traces are
looked for in the folder that TENURE_TRACES names.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "evidence.md"
FIGURES = HERE / "figures.json"
SEEDS = 5

PLAIN = ("--set", "headroom_percent=0", "--set", "reserved_percent=0", "--set", "packing=off")
"""What this page is about: docs/experiments.md has what is added by these."""

Row = dict[str, Any]


def months() -> dict[str, list[str]]:
    """Name -> arguments of ``tenure simulate``."""
    return {
        f"month-{gpus}-{mix}": [
            *("month", "--gpus", str(gpus), "--mix", mix, "--days", "30", "--warmup", "3d"),
            *("--policy", "budgets,priority"),
        ]
        for mix in ("published", "saturated")
        for gpus in (88, 256, 1024)
    }


def traces() -> dict[str, list[str]]:
    """The same for the traces, where they are."""
    folder = os.environ.get("TENURE_TRACES")
    if not folder:
        return {}
    policies = ["--policy", "budgets,priority,fifo,backfill", "--warmup", "3d"]
    itp = ["trace", f"{folder}/itp-2021/raw-traces.tar.gz", "--gpus", "384", "--cut", "0d..30d", "--days", "30"]
    philly = ["trace", f"{folder}/philly-2017/philly.csv.xz", "--gpus", "176", "--cut", "2017-10-03..2017-11-01"]
    extra = ["--unallocated", "0.15"]
    return {
        "trace-itp-384": [*itp, "--add-debug", "0.5", *extra, *policies],
        "trace-philly-176": [*philly, "--days", "30", *extra, *policies],
    }


def run(names: Sequence[str], out: Path, processes: int, seeds: int) -> None:
    """Seed by seed, so that what is there when it is broken off has all policies of some seeds."""
    known = {**months(), **traces()}
    for name in names or list(known):
        if name not in known:
            sys.exit(f"no experiment {name}; there are: {', '.join(known)}")
        for seed in range(seeds if name in months() else 1):
            folder = out / name / f"seed{seed}"
            if (folder / "summary.json").is_file():
                continue
            words = [*known[name], *PLAIN, "--first-seed", str(seed), "--no-report", "-j", str(processes)]
            words += ["--out", str(folder)]
            print("tenure simulate", *words, flush=True)
            subprocess.run([sys.executable, "-m", "tenure", "simulate", *words], check=True)


# ---- tables


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def wait(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def plain(value: float) -> str:
    return f"{value:.2f}"


def whole(value: float) -> str:
    return f"{value:,.0f}"


LINES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("M1 delivered", "m1_delivered", percent),
    ("net of lost work", "m1_net", percent),
    ("strict, hour by hour", "m1_strict", percent),
    ("worst budget", "m1_worst", percent),
    ("worst budget-week", "m1_worst_week", percent),
    ("budgets of 15 at 95 %", "budgets_at_95", whole),
    ("M3 delivered", "m3_delivered", percent),
    ("impact", "impact", percent),
    ("occupancy", "occupancy", percent),
    ("unallocated part", "unallocated_share", percent),
    ("demand over supply", "demand_over_supply", plain),
    ("debug p50", "debug_wait_p50_s", wait),
    ("debug p90", "debug_wait_p90_s", wait),
    ("mid-size p50", "mid_wait_p50_s", wait),
    ("mid-size p90", "mid_wait_p90_s", wait),
    ("mid-size p99", "mid_wait_p99_s", wait),
    ("all charged p50", "wait_p50_s", wait),
    ("all charged p90", "wait_p90_s", wait),
    ("all charged p99", "wait_p99_s", wait),
    ("all jobs p50, unallocated ones too", "every_wait_p50_s", wait),
    ("all jobs p90", "every_wait_p90_s", wait),
    ("all jobs p99", "every_wait_p99_s", wait),
    ("gangs >= 128 GPUs p90", "large_wait_p90_s", wait),
    ("charged jobs that never started", "funded_never_started", whole),
    ("evictions per charged job", "evictions_per_charged_job", plain),
    ("evictions per mid-size job", "evictions_per_mid_job", plain),
    ("evictions per large job", "evictions_per_large_job", plain),
    ("evictions of unallocated", "unfunded_evictions", whole),
    ("time lost, all", "lost_share", percent),
    ("time lost, charged", "funded_lost_share", percent),
    ("idle by fragmentation", "fragmentation_share", percent),
    ("idle by caps", "withheld_share", percent),
    ("GPU-h withheld by caps", "withheld_gpu_hours", whole),
    ("GPU-h above the allocation", "surplus_gpu_hours", whole),
    ("jobs", "jobs", whole),
    ("seconds to simulate", "wall_s", whole),
)


PUBLISHED = (
    ("GPU time delivered of what was owed", "m1_delivered", percent, "-", "98 %"),
    ("worst of 15 budgets", "m1_worst", percent, "-", "90 %"),
    ("budgets at 95 % or more", "budgets_at_95", whole, "-", "13 of 15"),
    ("occupancy", "occupancy", percent, "-", "98 %"),
    ("unallocated part", "unallocated_share", percent, "-", "18 %"),
    ("debug jobs wait, p90", "debug_wait_p90_s", wait, "2 h (simulated: 6 h)", "30 s (simulated: 5 min)"),
    ("all jobs wait, p90", "every_wait_p90_s", wait, "2.8 h", "1.8 h"),
)
"""A figure, what was published of the month before and after, and ours on the published mix and the largest cluster."""


def flat(row: Row) -> Row:
    """The figures of the lines above, of one run."""
    found = {**row, **{f"{name}_gpu_hours": value for name, value in row["gpu_hours"].items()}}
    evictions, starts = row["evictions_by_class"], row["jobs_started_by_class"]
    found["unfunded_evictions"] = evictions["unfunded"]
    if starts["large"]:
        found["evictions_per_large_job"] = evictions["large"] / starts["large"]
    wanted = [key for _, key, _ in LINES] + [key for _, key, *_ in PUBLISHED]
    kept = {key: found[key] for key in wanted if key in found}
    return {"policy": row["policy"], "seed": row["seed"], "gpus": row["gpus"], "days": row["days"], **kept}


def cell(rows: Sequence[Row], key: str, how: Callable[[float], str]) -> str:
    values = [row[key] for row in rows if row.get(key) is not None]
    if not values:
        return "-"
    middle, low, high = how(statistics.median(values)), how(min(values)), how(max(values))
    return middle if low == high else f"{middle} ({low} to {high})"


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line for each figure, a column for each policy; the median of the seeds and their range."""
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    lines = [f"| | {' | '.join(policies)} |", "|---" * (len(policies) + 1) + "|"]
    for title, key, how in LINES:
        cells = [cell([row for row in rows if row["policy"] == policy], key, how) for policy in policies]
        if any(text != "-" for text in cells):
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def beside_published(rows: Sequence[Row]) -> str:
    """Markdown: the published table with two columns of ours."""
    lines = ["| | published, before | published, after | here: priority | here: budgets |", "|---" * 5 + "|"]
    for title, key, how, before, after in PUBLISHED:
        ours = [cell([row for row in rows if row["policy"] == policy], key, how) for policy in ("priority", "budgets")]
        lines.append(f"| {title} | {before} | {after} | {' | '.join(ours)} |")
    return "\n".join(lines)


def tables(out: Path) -> None:
    """Collect what is in ``out`` into figures.json, and put every table into the page, between its two marks."""
    figures: dict[str, list[Row]] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.is_file() else {}
    for folder in sorted(out.iterdir()):
        runs = [
            row for found in sorted(folder.glob("seed*/summary.json")) for row in json.loads(found.read_text("utf-8"))
        ]
        # Seeds that were run elsewhere before stay.
        known = {(row["policy"], row["seed"]): row for row in figures.get(folder.name, [])}
        known.update({(row["policy"], row["seed"]): flat(row) for row in runs if row["complete"]})
        if known:
            figures[folder.name] = list(known.values())
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", "utf-8")
    parts = {name: table(rows) for name, rows in figures.items()}
    parts["published"] = beside_published(figures.get("month-1024-published", []))
    into_page(PAGE, parts)


def into_page(path: Path, parts: dict[str, str]) -> None:
    """Put each part that a page has a place for between its two marks."""
    page = path.read_text("utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if begin in page and end in page:
            head, rest = page.split(begin, 1)
            page = f"{head}{begin}\n{part}\n{end}{rest.split(end, 1)[1]}"
    path.write_text(page, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "tables"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_intermixed_args()
    if options.what == "run":
        run(options.names, options.out, options.processes, options.seeds)
    else:
        tables(options.out)


if __name__ == "__main__":
    main()
