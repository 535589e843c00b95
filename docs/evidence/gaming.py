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
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tenure.core.model import DAY, HOUR
from tenure.reports.metrics import summary
from tenure.reports.records import Run, hours
from tenure.reports.waits import percentile
from tenure.sim.loop import Simulation
from tenure.sim.months import gamed, lab_of, month_of
from tenure.sim.researchers import TRICKS, Lab
from tenure.sim.researchers.gaming import Gaming
from tenure.sim.setup import Setup

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "gaming.md"
FIGURES = HERE / "gaming.json"
HONEST = ("honest", "honest-two-clusters")
TWO = {"every-cluster", "honest-two-clusters"}
"""Worlds of two clusters, which have the GPUs in halves."""

Row = dict[str, Any]


# ---- runs


def honest(lab: Lab, share: float, seed: int) -> Gaming:
    """Nobody does anything, but it is counted what those do who would."""
    return Gaming(replace(lab, seed=seed), share)


def setup_of(world: str, seed: int, options: argparse.Namespace) -> Setup:
    half = options.gpus // 16 * 8
    clusters = {"main": options.gpus - half, "west": half} if world in TWO else {"main": options.gpus}
    length = round(options.days * DAY)
    base = replace(month_of(options.mix, clusters), seed=seed, duration=length, warmup=min(3 * DAY, length // 10))
    if world in HONEST:
        return replace(base, workload=partial(honest, lab_of(base), options.share))
    return gamed(base, world, options.share)


def record(world: str, seed: int, options: argparse.Namespace) -> Row:
    """One run, and what of it is compared."""
    simulation = Simulation(setup_of(world, seed, options))
    run, people = simulation.run(), simulation.workload
    assert isinstance(people, Gaming)
    found = summary(run)
    return {
        "world": world,
        "seed": seed,
        **asked(options),
        "people": useful(run, people),
        "budgets": {row["budget"]: row["m1_delivered"] for row in found["per_budget"]},
        "tries": tries(run, people),
        "summary": {key: found[key] for key in ("m1_delivered", "m1_worst", "occupancy", "lost_share", "jobs")},
    }


def useful(run: Run, people: Gaming) -> dict[str, Row]:
    """Person -> budget, whether they game, GPU-hours of the run: useful ones, and those they had outstanding."""
    asked = people.asked(run.until)
    found: dict[str, Row] = {
        person.name: {
            "budget": person.budget,
            "games": person.number in people.gamers,
            "useful": 0,
            "asked": round(asked.get(person.number, 0) / HOUR, 3),
        }
        for person in people.honest.people
    }
    for job in run.jobs:
        found[job.user]["useful"] += people.useful(job, run.until)
    return {name: {**row, "useful": round(hours(row["useful"]), 3)} for name, row in found.items()}


def tries(run: Run, people: Gaming) -> Row:
    """p90 of the waits of tries that started after the warm-up, s: of those who game and of the others."""
    counted = [(who in people.gamers, wait) for who, at, wait in people.tries if at >= run.start + run.warmup]
    return {
        "gamers": p90(wait for games, wait in counted if games),
        "others": p90(wait for games, wait in counted if not games),
    }


def p90(waits: Iterable[int]) -> float | None:
    found = percentile(sorted(waits), 90)
    return None if found is None else found / 1000


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
    worlds = [world for world in HONEST if any((name in TWO) == (world in TWO) for name in names)]
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


def sums(row: Row, budgets: set[str], what: str = "useful") -> tuple[float, float, float]:
    """GPU-hours of those who game, of their colleagues, and of the people of all other budgets."""
    found = [0.0, 0.0, 0.0]
    for person in row["people"].values():
        found[0 if person["games"] else 1 if person["budget"] in budgets else 2] += person.get(what, 0.0)
    return found[0], found[1], found[2]


def compared(with_it: Row, without: Row) -> Row:
    """One pair of worlds. Changes are fractions; of M1 differences, positive for a loss."""
    budgets = {person["budget"] for person in without["people"].values() if person["games"]}
    before, after = sums(without, budgets), sums(with_it, budgets)
    asked = sums(without, budgets, "asked"), sums(with_it, budgets, "asked")
    served = [
        change(before[i] / asked[0][i], after[i] / asked[1][i]) if asked[0][i] and asked[1][i] else None
        for i in range(3)
    ]
    gains = [
        with_it["people"][name]["useful"] / person["useful"] - 1
        for name, person in without["people"].items()
        if person["games"] and person["useful"] > 0
    ]
    losses = {
        budget: was - (with_it["budgets"].get(budget) or 0.0)
        for budget, was in without["budgets"].items()
        if was is not None
    }
    others = {budget: loss for budget, loss in losses.items() if budget not in budgets}
    return {
        "seed": with_it["seed"],
        "gamers_without": before[0],
        "gamers_with": after[0],
        **{name: change(before[i], after[i]) for i, name in enumerate(("gamers", "colleagues", "others"))},
        **{f"{name}_served": served[i] for i, name in enumerate(("gamers", "colleagues", "others"))},
        "median_person": statistics.median(gains) if gains else None,
        "persons_up": sum(gain > 0 for gain in gains),
        "persons": len(gains),
        "loss_other_budget": max(others.values(), default=None),
        "loss_any_budget": max(losses.values(), default=None),
        "tries_without": without["tries"],
        "tries_with": with_it["tries"],
        "people": {
            name: [person["useful"], with_it["people"][name]["useful"]]
            for name, person in without["people"].items()
            if person["games"]
        },
    }


def change(before: float, after: float) -> float | None:
    return after / before - 1 if before else None


def spread(values: Iterable[float | None], how: str = "+.1f") -> str:
    """The median, and the range."""
    known = [100 * value for value in values if value is not None]
    if not known:
        return "-"
    middle = f"{statistics.median(known):{how}} %"
    return middle if len(known) == 1 else f"{middle} ({min(known):{how}} to {max(known):{how}})"


def waits(pairs: Sequence[Row], group: str) -> str:
    def middle(key: str) -> str:
        known = [pair[key][group] for pair in pairs if pair[key][group] is not None]
        return f"{statistics.median(known):,.0f}" if known else "-"

    return f"{middle('tries_without')} -> {middle('tries_with')}"


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
            waits(pairs, "others"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def chance(worlds: Sequence[Row]) -> str:
    """How far honest worlds of several seeds are apart, in words."""
    if len(worlds) < 2:
        return "Honest worlds of other seeds: only one was run."
    parts, tries = [], []
    for row in worlds:
        gamers, *rest = sums(row, set())
        parts.append(gamers / (gamers + sum(rest)))
        tries.append(row["tries"]["others"])
    apart = {budget: [row["budgets"][budget] for row in worlds] for budget in worlds[0]["budgets"]}
    known = [max(found) - min(found) for found in apart.values() if None not in found]
    return (
        f"Honest worlds of {len(worlds)} seeds: those who would game do {min(parts):.1%} to {max(parts):.1%} of the "
        f"useful work; M1 of one budget differs by up to {100 * max(known):.1f} points; p90 of tries is "
        f"{min(tries):,.0f} to {max(tries):,.0f} s."
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
        bases = worlds.get(HONEST[trick in TWO], {})
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
