"""Runs worlds with and without each trick of docs/gaming.md and writes their figures into that page.

    python docs/evidence/gaming.py run --out DIR              every world that is not there yet
    python docs/evidence/gaming.py run split high --out DIR   of these tricks and honest; --again: anew
    python docs/evidence/gaming.py tables --out DIR           figures into gaming.json and the page

Both worlds of a pair have the same seed, so the same people with the same draws. What was done is kept, run by run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tenure.core.model import DAY
from tenure.reports.behaviour_tables import spread, tries
from tenure.reports.behaviours import HONEST, compared, groups_of
from tenure.sim.months import month_of
from tenure.sim.researchers import TRICKS
from tenure.sim.researchers.adapting import Learning
from tenure.sim.runner import Order, execute
from tenure.sim.setup import Setup
from tenure.sim.worlds import world

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "gaming.md"
FIGURES = HERE / "gaming.json"
HONEST_WORLDS = (HONEST, "honest-two-clusters")
TWO = {"every-cluster", "honest-two-clusters"}
"""Worlds of two clusters, which have the GPUs in halves."""

Row = dict[str, Any]


# ---- runs


def setup_of(name: str, seed: int, options: argparse.Namespace) -> Setup:
    half = options.gpus // 16 * 8
    clusters = {"main": options.gpus - half, "west": half} if name in TWO else {"main": options.gpus}
    length = round(options.days * DAY)
    base = replace(month_of(options.mix, clusters), seed=seed, duration=length, warmup=min(3 * DAY, length // 10))
    return world(base, HONEST if name in HONEST_WORLDS else name, options.share, 0, Learning())


def record(name: str, seed: int, options: argparse.Namespace) -> Row:
    """One run, and what of it is compared."""
    found = execute(Order(0, setup_of(name, seed, options), None), lambda _: True)
    kept = ("people", "tries_p90_s", "per_budget", "m1_delivered", "m1_worst", "occupancy", "lost_share", "jobs")
    return {"world": name, "seed": seed, **asked(options), **{key: found[key] for key in kept}}


def asked(options: argparse.Namespace) -> Row:
    return {name: getattr(options, name) for name in ("gpus", "mix", "days", "share")}


def keep(world: str, seed: int, options: argparse.Namespace) -> str:
    path: Path = options.out / f"{world}-seed{seed}.json"
    path.write_text(json.dumps(record(world, seed, options), indent=1) + "\n", "utf-8")
    return path.name


def run(options: argparse.Namespace) -> None:
    for name in options.names:
        if name not in TRICKS:
            sys.exit(f"no trick {name}; there are: {', '.join(TRICKS)}")
    names = options.names or list(TRICKS)
    worlds = [one for one in HONEST_WORLDS if any((name in TWO) == (one in TWO) for name in names)]
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = [(world, seed) for seed in range(options.seeds) for world in [*worlds, *names]]
    todo = [pair for pair in wanted if options.again or not is_there(*pair, options)]
    with get_context("spawn").Pool(options.processes, maxtasksperchild=1) as pool:
        for done in pool.imap_unordered(partial(kept, options), todo):
            print(done, flush=True)


def kept(options: argparse.Namespace, pair: tuple[str, int]) -> str:
    return keep(*pair, options)


def is_there(world: str, seed: int, options: argparse.Namespace) -> bool:
    """Raises SystemExit when it is one of another experiment."""
    path = options.out / f"{world}-seed{seed}.json"
    if not path.is_file():
        return False
    row: Row = json.loads(path.read_text("utf-8"))
    if any(row[name] != value for name, value in asked(options).items()):
        sys.exit(f"{path.name} was run with other options; name another --out")
    return True


# ---- comparing


def waits(pairs: Sequence[Row], group: str) -> str:
    return tries(pairs, group, lambda seconds: f"{seconds:,.0f}")


TITLES = (
    "trick",
    "useful GPU-h of those who do it, without and with",
    "gain",
    "median person",
    "per GPU-h asked for",
    "colleagues",
    "theirs per GPU-h asked for",
    "people of other budgets",
    "largest M1 loss of another budget",
    "of any budget",
    "tries p90 of those who do it, s",
    "of the others, s",
)


GAINS = ("gamers", "median_person", "gamers_served", "colleagues", "colleagues_served", "others")


def table(figures: dict[str, list[Row]]) -> str:
    """Markdown, a line for each trick."""
    lines = [f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
    for trick, pairs in figures.items():
        without, with_it = (statistics.mean(pair[key] for pair in pairs) for key in ("gamers_without", "gamers_with"))
        cells = [
            trick if trick != "late" else "late (chance)",
            f"{without:,.0f} -> {with_it:,.0f}",
            *(spread(pair.get(key) for pair in pairs) for key in GAINS),
            *(spread((pair[key] for pair in pairs), ".1f") for key in ("loss_other_budget", "loss_any_budget")),
            waits(pairs, "gamers"),
            waits(pairs, "rest"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def chance(worlds: Sequence[Row]) -> str:
    """How far honest worlds of several seeds are apart, in words."""
    if len(worlds) < 2:
        return "Honest worlds of other seeds: only one was run."
    parts, waited = [], []
    for row in worlds:
        gamers, *rest = groups_of(row, (), "useful")
        parts.append(gamers / (gamers + sum(rest)))
        waited.append(row["tries_p90_s"]["rest"])
    m1 = [{one["budget"]: one["m1_delivered"] for one in row["per_budget"]} for row in worlds]
    apart = {budget: [row[budget] for row in m1] for budget in m1[0]}
    known = [max(found) - min(found) for found in apart.values() if None not in found]
    return (
        f"Honest worlds of {len(worlds)} seeds: those who would game do {min(parts):.1%} to {max(parts):.1%} of the "
        f"useful work; M1 of one budget differs by up to {100 * max(known):.1f} points; p90 of tries is "
        f"{min(waited):,.0f} to {max(waited):,.0f} s."
    )


def tables(options: argparse.Namespace) -> None:
    """Pairs that were run elsewhere before stay, as long as they were of the same size."""
    worlds: dict[str, dict[int, Row]] = {}
    for path in sorted(options.out.glob("*-seed*.json")):
        row = json.loads(path.read_text("utf-8"))
        worlds.setdefault(row["world"], {})[row["seed"]] = row
    first = next(iter(next(iter(worlds.values())).values()))
    of = {key: first[key] for key in asked(options)}
    before = json.loads(FIGURES.read_text("utf-8")) if FIGURES.is_file() else {}
    kept = before.get("tricks", {}) if before.get("of") == of else {}
    figures: dict[str, list[Row]] = {}
    for trick in TRICKS:
        pairs = {pair["seed"]: pair for pair in kept.get(trick, [])}
        bases = worlds.get(HONEST_WORLDS[trick in TWO], {})
        for seed, row in worlds.get(trick, {}).items():
            if seed in bases:
                pairs[seed] = compared(row, bases[seed])
        if pairs:
            figures[trick] = [pairs[seed] for seed in sorted(pairs)]
    noise = chance(list(worlds.get("honest", {}).values()))
    FIGURES.write_text(json.dumps({"of": of, "chance": noise, "tricks": figures}, indent=1) + "\n", "utf-8")
    seeds = max((len(pairs) for pairs in figures.values()), default=0)
    said = f"{of['gpus']} GPUs, {of['mix']}, {of['days']:g} days, seeds: {seeds}, {of['share']:.0%} of the people."
    into_page(f"{said}\n\n{table(figures)}\n\n{noise}")


def into_page(text: str) -> None:
    begin, end = "<!-- tricks -->", "<!-- end of tricks -->"
    head, rest = PAGE.read_text("utf-8").split(begin, 1)
    PAGE.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "tables"))
    parser.add_argument("names", nargs="*", metavar="TRICK")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gpus", type=int, default=256)
    parser.add_argument("--mix", default="saturated")
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.1, help="of the people, 0 to 1")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="also what is there already, honest worlds too")
    options = parser.parse_intermixed_args()
    (run if options.what == "run" else tables)(options)


if __name__ == "__main__":
    main()
