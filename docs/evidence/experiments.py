"""Runs the variants behind docs/experiments.md and writes their figures into that page.

    python docs/evidence/experiments.py list                                       the variants, and their settings
    python docs/evidence/experiments.py run month-1024-saturated --variant headroom --out DIR      any row again
    python docs/evidence/experiments.py tables --out DIR         experiments.json, the page and frontier.png

Without ``--variant`` all of them; what was done in ``DIR`` is kept, so it can be broken off and started again. The
traces are looked for in the folder that TENURE_TRACES names.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import evidence  # beside this script: the same experiments, figures and cells
import frontier

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "experiments.md"
FIGURES = HERE / "experiments.json"

OFF = ("reserved_percent=0", "headroom_percent=0", "packing=off")
VARIANTS: dict[str, tuple[str, ...]] = {
    "off": OFF,
    "margin 15m": (*OFF, "preemption_margin=15m"),
    "packing": ("reserved_percent=0", "headroom_percent=0", "packing=on"),
    "headroom 1%": ("reserved_percent=0", "headroom_percent=1", "packing=off"),
    "headroom 3%": ("reserved_percent=0", "headroom_percent=3", "packing=off"),
    "reserve from 8": ("reserved_percent=50", "reserve_from=8", "headroom_percent=0", "packing=off"),
    "reserve large": ("reserved_percent=50", "headroom_percent=0", "packing=off"),
    "reserve large, no margin": (
        *("reserved_percent=50", "reserve_margin_percent=0", "headroom_percent=0", "packing=off"),
    ),
    "reserve and headroom": ("reserved_percent=50", "headroom_percent=3", "packing=off"),
    "all": ("reserved_percent=50", "headroom_percent=3", "packing=on"),
    "default": (),
    "moves": ("moves_per_hour=60",),
    "contracts to 4 h": ("max_min_runtime=4h",),
    "contracts to 2 h": ("max_min_runtime=2h",),
    "contracts to 2 h, all": ("max_min_runtime=2h", "reserved_percent=50", "packing=on"),
    "one host": (),
    "one host, contracts to 15 min": ("max_min_runtime=15m",),
}
"""Name -> what is set; everything else is the default."""
ONE_HOST = frozenset({"one host", "one host, contracts to 15 min"})
"""On a cluster that is one host which never breaks: no whole hosts to wait for."""


def experiments() -> dict[str, list[str]]:
    """Name -> arguments of ``tenure simulate``, under budgets alone."""
    known = {**evidence.months(), **evidence.traces()}
    return {
        name: [*words[: words.index("--policy")], "--policy", "budgets", *_after(words)]
        for name, words in known.items()
    }


def _after(words: list[str]) -> list[str]:
    return words[words.index("--policy") + 2 :]


def folder_of(out: Path, name: str, variant: str) -> Path:
    return out / name / "-".join(variant.replace("%", "").replace(",", "").split())


def run(names: Sequence[str], variants: Sequence[str], out: Path, processes: int, seeds: int) -> None:
    known = experiments()
    for name in names:
        if name not in known:
            sys.exit(f"no experiment {name}; there are: {', '.join(known)}")
        for variant in variants or list(VARIANTS):
            if variant not in VARIANTS:
                sys.exit(f"no variant {variant}; there are: {', '.join(VARIANTS)}")
            words = known[name]
            if variant in ONE_HOST:
                words = [*words, "--per-host", words[words.index("--gpus") + 1], "--host-faults", "0"]
            _run_one(words, VARIANTS[variant], folder_of(out, name, variant), processes, seeds)


def _run_one(words: Sequence[str], settings: Sequence[str], folder: Path, processes: int, seeds: int) -> None:
    """The seeds that are missing, together."""
    synthetic = words[0] == "month"
    for first in range(0, seeds if synthetic else 1, processes):
        part = folder / f"seeds-{first}"
        if (part / "summary.json").is_file():
            continue
        count = min(processes, seeds - first) if synthetic else 1
        given = [word for setting in settings for word in ("--set", setting)]
        seeded = ["--seeds", str(count)] if synthetic else []
        command = [*words, *given, "--first-seed", str(first), *seeded, "--no-report", "-j", str(processes)]
        print("tenure simulate", *command, "--out", part, flush=True)
        subprocess.run(
            [sys.executable, "-m", "tenure", "simulate", *command, "--force", "--out", str(part)], check=True
        )


def tables(out: Path) -> None:
    """Collect what is in ``out`` into experiments.json, and put every table into the page, between its two marks."""
    figures: dict[str, dict[str, list[evidence.Row]]] = (
        json.loads(FIGURES.read_text("utf-8")) if FIGURES.is_file() else {}
    )
    for name in experiments():
        for variant in VARIANTS:
            parts = sorted(folder_of(out, name, variant).glob("seeds-*/summary.json"))
            rows = [row for part in parts for row in json.loads(part.read_text("utf-8")) if row["complete"]]
            if rows:
                known = {row["seed"]: row for row in figures.setdefault(name, {}).get(variant, [])}
                known.update({row["seed"]: evidence.flat(row) for row in rows})
                figures[name][variant] = [known[seed] for seed in sorted(known)]
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", "utf-8")
    evidence.into_page(PAGE, {name: table(variants) for name, variants in figures.items()})
    frontier.draw(figures["month-1024-saturated"], HERE / "frontier.png")


SHOWN = (
    *("m1_delivered", "m1_net", "m1_strict", "m1_worst", "m1_worst_week", "occupancy", "unallocated_share"),
    *("debug_wait_p90_s", "mid_wait_p90_s", "mid_wait_p99_s", "large_wait_p90_s"),
    *(
        "evictions_per_charged_job",
        "evictions_per_mid_job",
        "evictions_per_large_job",
        "lost_share",
        "fragmentation_share",
    ),
)


def table(variants: dict[str, list[evidence.Row]]) -> str:
    """Markdown: a line for each variant, a column for each figure; the median of the seeds and their range."""
    shown = {key: (title, how) for title, key, how in evidence.LINES}
    lines = [f"| variant | seeds | {' | '.join(shown[key][0] for key in SHOWN)} |", "|---" * (len(SHOWN) + 2) + "|"]
    for variant, rows in sorted(variants.items(), key=lambda each: list(VARIANTS).index(each[0])):
        cells = [evidence.cell(rows, key, shown[key][1]) for key in SHOWN]
        lines.append(f"| {variant} | {len(rows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "run", "tables"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--variant", action="append", default=[], help="one of `list`; several times for several")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_intermixed_args()
    if options.what == "list":
        for name, settings in VARIANTS.items():
            print(f"{name}: {' '.join(settings) or '(the defaults)'}")
    elif options.out is None:
        parser.error("--out: name the folder of the runs")
    elif options.what == "run":
        run(options.names or list(experiments()), options.variant, options.out, options.processes, options.seeds)
    else:
        tables(options.out)


if __name__ == "__main__":
    main()
