"""Runs every policy on the workloads of docs/comparison.md and writes their figures and the picture into that page.

    python docs/evidence/comparison.py list                                  workloads, policies and what is set
    python docs/evidence/comparison.py run saturated --policy drf --out DIR  any row again; without names everything
    python docs/evidence/comparison.py tables --out DIR                      comparison.json, page and picture

What was done in ``DIR`` is kept, so it can be broken off and started again. The traces are looked for in the folder
that TENURE_TRACES names.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import altair as alt
import evidence  # beside this script: the same figures and cells
import vl_convert

from tenure.policies import NAMES

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "comparison.md"
FIGURES = HERE / "comparison.json"
PICTURE = HERE / "comparison.png"
GPUS, SEEDS = 128, 3

SETTINGS: dict[str, tuple[str, ...]] = {
    "slurm": ("weight_qos=20000",),
    "slurm-preempt": ("weight_qos=20000",),
}
"""What a site that runs this policy would set; the rest are its defaults."""

Figures = dict[str, dict[str, list[evidence.Row]]]
"""Workload -> policy -> a row for each seed."""


def workloads() -> dict[str, list[str]]:
    """Name -> arguments of ``tenure simulate``."""
    size = ("--gpus", str(GPUS), "--warmup", "3d")
    found = {mix: ["month", "--mix", mix, "--days", "30", *size] for mix in ("saturated", "published")}
    folder = os.environ.get("TENURE_TRACES")
    if folder:
        # Each seed draws the part of the jobs that brings the demand to 2.5 times of so many GPUs.
        itp, philly = f"{folder}/itp-2021/raw-traces.tar.gz", f"{folder}/philly-2017/philly.csv.xz"
        rest = ("--unallocated", "0.15", "--days", "10", *size)  # queues without end make longer ones very slow
        found["itp"] = ["trace", itp, "--cut", "0d..10d", "--thin", "0.333", "--add-debug", "0.5", *rest]
        found["philly"] = ["trace", philly, "--cut", "2017-10-03..2017-10-12", "--thin", "0.727", *rest]
    return found


def run(names: Sequence[str], policies: Sequence[str], out: Path, processes: int) -> None:
    known = workloads()
    for name in names or list(known):
        if name not in known:
            sys.exit(f"no workload {name}; there are: {', '.join(known)}")
        for policy in policies or NAMES:
            folder = out / name / policy
            if (folder / "summary.json").is_file():
                continue
            given = [word for setting in SETTINGS.get(policy, ()) for word in ("--set", setting)]
            words = [*known[name], "--policy", policy, *given, "--seeds", str(SEEDS), "--no-report"]
            words += ["-j", str(processes), "--force", "--out", str(folder)]
            print("tenure simulate", *words, flush=True)
            subprocess.run([sys.executable, "-m", "tenure", "simulate", *words], check=True)


# ---- tables

SHOWN = (
    *("m1_delivered", "m1_net", "m1_strict", "m1_worst", "m1_worst_week", "budgets_at_95", "occupancy"),
    *("unallocated_share", "debug_wait_p90_s", "mid_wait_p50_s", "mid_wait_p90_s", "large_wait_p90_s"),
    *("funded_never_started", "evictions_per_charged_job", "lost_share", "withheld_share"),
)


def collect(out: Path) -> Figures:
    """What is there, with what an earlier call has found."""
    figures: Figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.is_file() else {}
    for name in workloads():
        for policy in NAMES:
            path = out / name / policy / "summary.json"
            rows = [row for row in json.loads(path.read_text("utf-8")) if row["complete"]] if path.is_file() else []
            if rows:
                figures.setdefault(name, {})[policy] = [evidence.flat(row) for row in rows]
    return figures


def table(policies: Mapping[str, Sequence[evidence.Row]]) -> str:
    """Markdown: a line for each policy, a column for each figure; the median of the seeds and their range."""
    shown = {key: (title, how) for title, key, how in evidence.LINES}
    keys = [key for key in SHOWN if any(row.get(key) is not None for rows in policies.values() for row in rows)]
    lines = [f"| policy | {' | '.join(shown[key][0] for key in keys)} |", "|---" * (len(keys) + 1) + "|"]
    for policy in sorted(policies, key=NAMES.index):
        cells = [evidence.cell(policies[policy], key, shown[key][1]) for key in keys]
        lines.append(f"| `{policy}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def settings() -> str:
    """Markdown: what was set for each policy."""
    lines = ["| policy | set |", "|---|---|"]
    lines += [
        f"| `{name}` | {', '.join(f'`{one}`' for one in SETTINGS.get(name, ())) or 'defaults'} |" for name in NAMES
    ]
    return "\n".join(lines)


# ---- the picture

LOG = " (log)"
"""Ends the titles of panels with such a scale."""
PANELS = (
    ("delivered of what was owed, %", "m1_delivered", 0.01),
    ("worst budget, %", "m1_worst", 0.01),
    (f"debug jobs wait, p90, h{LOG}", "debug_wait_p90_s", 3600),
    (f"mid-size jobs wait, p90, h{LOG}", "mid_wait_p90_s", 3600),
    ("time lost, %", "lost_share", 0.01),
)


def points(figures: Figures, key: str, unit: float) -> Iterator[evidence.Row]:
    for name, policies in figures.items():
        for policy, rows in policies.items():
            least = 1 / unit if unit == 3600 else 0  # a second: a logarithm has no 0
            values = [max(least, row[key] / unit) for row in rows if row.get(key) is not None]
            if values:
                middle, low, high = statistics.median(values), min(values), max(values)
                yield {"workload": name, "policy": policy, "value": middle, "low": low, "high": high}


def draw(figures: Figures, to: Path) -> None:
    """A PNG: a panel for each figure, a line for each policy, the workloads in colours; bars are the range of seeds."""
    there = [name for name in NAMES if any(name in policies for policies in figures.values())]
    charts = []
    for number, (title, key, unit) in enumerate(PANELS):
        axis = alt.Axis(title=None) if number == 0 else None
        base = alt.Chart(alt.InlineData(values=list(points(figures, key, unit)))).encode(
            y=alt.Y("policy:N", sort=there, axis=axis),
            yOffset=alt.YOffset("workload:N", sort=list(figures)),
            color=alt.Color("workload:N", sort=list(figures), title="workload"),
        )
        scale = alt.Scale(type="log") if title.endswith(LOG) else alt.Scale(zero=True)
        middle = base.mark_point(filled=True, size=40, opacity=1).encode(x=alt.X("value:Q", title=title, scale=scale))
        bars = base.mark_rule(opacity=0.6).encode(x=alt.X("low:Q"), x2="high:Q")
        charts.append(alt.layer(bars, middle).properties(width=170, height=alt.Step(9)))
    picture = alt.hconcat(*charts).resolve_scale(color="shared").configure(background="white")
    to.write_bytes(vl_convert.vegalite_to_png(picture.to_json(), scale=2))


def tables(out: Path) -> None:
    """comparison.json, every table of the page between its two marks, and the picture."""
    figures = collect(out)
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", "utf-8")
    evidence.into_page(PAGE, {"settings": settings(), **{name: table(rows) for name, rows in figures.items()}})
    draw({name: figures[name] for name in workloads() if name in figures}, PICTURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "run", "tables"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--policy", action="append", default=[], choices=NAMES, help="several times for several")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_intermixed_args()
    if options.what == "list":
        for name, words in workloads().items():
            print(f"{name}: tenure simulate {' '.join(words)}")
        print(settings())
    elif options.out is None:
        parser.error("--out: name the folder of the runs")
    elif options.what == "run":
        run(options.names, options.policy, options.out, options.processes)
    else:
        tables(options.out)


if __name__ == "__main__":
    main()
