"""What behaviours gain or lose as files: ``behaviours.json``, ``behaviours.md``, ``behaviours.html`` and pictures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tenure.reports.behaviours import (
    CHANCE,
    HONEST,
    LEAST_SEEDS,
    Behaviours,
    Learnt,
    Pair,
    beyond_chance,
    middle,
    values,
)
from tenure.reports.catalogue import wait
from tenure.reports.charts.behaviours import behaviour_pictures
from tenure.reports.html import behaviours_page, write_pngs
from tenure.reports.markdown import plain, points, table
from tenure.reports.tables import write_json

JSON_FILE, MARKDOWN_FILE, PAGE_FILE = "behaviours.json", "behaviours.md", "behaviours.html"
SERVED = "gamers_served"
"""The figure that says whether it pays: useful work for what was asked, which leaves out how much people wanted."""
RULE = (
    "Changes are those of the same people between two worlds of one seed: in one they do it, in the other everybody is "
    "honest. With several seeds: the median, with the range. A * marks what is larger in every seed, and of one sign, "
    "than whatever came of submitting a minute late (the row late, which is no trick): anything else may be chance. It "
    f"takes {LEAST_SEEDS} seeds, with which chance alone marks one cell in 80."
)
ROWS = (
    ("gamers", "useful work of those who do it"),
    (SERVED, "for each GPU-h asked for"),
    ("median_person", "the median person"),
    ("colleagues", "colleagues in their budgets"),
    ("colleagues_served", "for each GPU-h asked for"),
    ("others", "people of other budgets"),
    ("others_served", "for each GPU-h asked for"),
)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. ``head`` begins with the title of the column of names."""

    title: str
    text: str
    head: list[str]
    rows: list[list[str]]


def write_behaviours(found: Behaviours, folder: Path, png: bool = True) -> dict[str, Any]:
    """Write the files into ``folder``. Returns what ``behaviours.json`` holds. Raises OSError."""
    shown, told = behaviour_pictures(found), as_json(found)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / JSON_FILE, told)
    (folder / MARKDOWN_FILE).write_text(markdown(found), "utf-8")
    page = behaviours_page(shown, about=found.about, rule=RULE, said=sentences(found), grids=grids(found))
    (folder / PAGE_FILE).write_text(page, "utf-8")
    if png:
        write_pngs(shown, folder)
    return told


def spread(found: Iterable[float | None], how: str = "+.1f") -> str:
    """The median of fractions in percent, and the range."""
    known = [100 * value for value in found if value is not None]
    if not known:
        return "-"
    said = f"{statistics.median(known):{how}} %"
    return said if len(known) == 1 else f"{said} ({min(known):{how}} to {max(known):{how}})"


def tries(pairs: Sequence[Pair], group: str, how: Callable[[float], str] = wait) -> str:
    """p90 of the waits of tries without and with it, the median over seeds."""

    def said(key: str) -> str:
        known = [pair[key][group] for pair in pairs if pair[key].get(group) is not None]
        return how(statistics.median(known)) if known else "-"

    return f"{said('tries_without')} -> {said('tries_with')}"


def grids(found: Behaviours) -> list[Grid]:
    """Over all policies first, then one for each, then what learning people came to do."""
    every = [_over_policies(found), *(_under(found, policy) for policy in found.policies)]
    learnt = [_learnt(found, policy) for policy in found.policies if policy in found.learnt]
    return [grid for grid in (*every, *learnt) if grid.rows]


def _cell(found: Behaviours, policy: str, name: str, key: str) -> str:
    pairs = found.pairs.get((policy, name), [])
    if not pairs:
        return "changes nothing" if (policy, name) in found.unheeded else "-"
    mark = " *" if name != CHANCE and beyond_chance(pairs, found.late(policy), key) else ""
    return spread(pair.get(key) for pair in pairs) + mark


def _named(name: str) -> str:
    return f"{name} (chance)" if name == CHANCE else name


def _over_policies(found: Behaviours) -> Grid:
    text = "Useful work for each GPU-hour that those who do it had outstanding, against the honest world."
    rows = [
        [_named(name), *(_cell(found, policy, name, SERVED) for policy in found.policies)] for name in found.behaviours
    ]
    return Grid("What it gains or loses those who do it", text, ["behaviour", *found.policies], rows)


def _under(found: Behaviours, policy: str) -> Grid:
    head = ["behaviour", "useful GPU-h without and with it", *(title for _, title in ROWS)]
    head += ["tries p90 of those who do it", "of colleagues", "of people of other budgets"]
    head += ["largest M1 loss of another budget"]
    rows = []
    for name in found.behaviours:
        pairs = found.pairs.get((policy, name), [])
        if pairs:
            without, with_it = (statistics.mean(pair[f"gamers_{key}"] for pair in pairs) for key in ("without", "with"))
            row = [_named(name), f"{without:,.0f} -> {with_it:,.0f}"]
            row += [_cell(found, policy, name, key) for key, _ in ROWS]
            row += [tries(pairs, group) for group in ("gamers", "colleagues", "others")]
            rows.append([*row, spread(values(pairs, "loss_other_budget"), ".1f")])
    text = "Gains and losses of useful work in percent; M1 in points, a negative loss is a gain."
    return Grid(f"Under {policy}", text, head, rows)


def _learnt(found: Behaviours, policy: str) -> Grid:
    worlds = found.learnt[policy]
    begin, end = (middle([world.drift[i] for world in worlds]) for i in (0, -1))
    days = statistics.mean(len(world.drift) - 1 for world in worlds)
    half = middle([world.drift[len(world.drift) // 2] for world in worlds])
    total = sum(end.values())
    rows = [
        [name, *(f"{at[name]:.1f}" for at in (begin, half, end)), f"{100 * end[name] / total:.1f} %"] for name in end
    ]
    head = ["people who are or do", "at the beginning", "in the middle", f"after {days:.0f} days", "of all"]
    return Grid(f"What people came to do under {policy}", _gain(worlds), head, rows)


def _gain(worlds: Sequence[Learnt]) -> str:
    moves = {why: statistics.mean(w.moves.get(why, 0) for w in worlds) for why in ("tried", "imitated", "went back")}
    said = ", ".join(f"{why} {count:.0f}" for why, count in moves.items())
    return (
        f"Useful work of all people against the honest world: {spread(w.gain for w in worlds)}; for each GPU-hour "
        f"asked for {spread(w.served for w in worlds)}. Changes of mind, on average: {said}."
    )


def sentences(found: Behaviours) -> list[str]:
    """What may be said of each policy, and what of learning people."""
    said = []
    for policy in found.policies:
        if not any(of == policy for of, _ in found.pairs):
            continue
        late = found.late(policy)
        if not late:
            said.append(f"Under {policy} nothing can be told from chance: the row late was not run.")
            continue
        if len(late) < LEAST_SEEDS:
            said.append(
                f"Under {policy} nothing can be told from chance with fewer than {LEAST_SEEDS} seeds; in the middle: "
                f"{', '.join(_gains(found, policy)) or 'nothing'}."
            )
            continue
        pays, costs, open_ = list[str](), list[str](), list[str]()
        for name in found.behaviours:
            pairs = found.pairs.get((policy, name), [])
            if pairs and name != CHANCE:
                clear = beyond_chance(pairs, late, SERVED)
                gain = _middle_gain(pairs)
                (open_ if not clear else pays if gain > 0 else costs).append(f"{name} ({100 * gain:+.0f} %)")
        said.append(
            f"Under {policy}: pays beyond chance: {', '.join(pays) or 'none'}; costs those who do it: "
            f"{', '.join(costs) or 'none'}; not to be told from chance: {', '.join(open_) or 'none'}."
        )
    for policy, worlds in found.learnt.items():
        end = middle([world.drift[-1] for world in worlds])
        rest = sorted(((count, name) for name, count in end.items() if name != HONEST and count), reverse=True)[:3]
        names = ", ".join(f"{name} {count:.0f}" for count, name in rest) or "nothing else"
        said.append(
            f"Under {policy}, when people learn, {end[HONEST]:.0f} of {sum(end.values()):.0f} are honest at the end; "
            f"most of the others do: {names}."
        )
    return said


def _middle_gain(pairs: Sequence[Pair]) -> float:
    return statistics.median(values(pairs, SERVED) or [0.0])


def _gains(found: Behaviours, policy: str) -> list[str]:
    """What each behaviour gains or loses under a policy, ``late`` last."""
    pairs = {name: found.pairs.get((policy, name), []) for name in found.behaviours}
    return [f"{_named(name)} {100 * _middle_gain(of):+.0f} %" for name, of in pairs.items() if of]


def markdown(found: Behaviours) -> str:
    """The same as the web page, but for the charts."""
    lines = ["# Behaviours", "", plain(found.about), "", plain(RULE), "", *points(sentences(found)), ""]
    for grid in grids(found):
        lines += [f"## {grid.title}", "", grid.text, "", *table(grid.head, grid.rows), ""]
    return "\n".join(lines)


def as_json(found: Behaviours) -> dict[str, Any]:
    """Everything that the texts are made of."""
    return {
        "about": found.about,
        "rule": RULE,
        "share": found.share,
        "policies": found.policies,
        "sentences": sentences(found),
        "changes_nothing": [list(pair) for pair in sorted(found.unheeded)],
        "behaviours": [
            {"policy": policy, "behaviour": name, **_figures(found, policy, name), "pairs": pairs}
            for (policy, name), pairs in found.pairs.items()
        ],
        "adaptive": [
            {"policy": policy, **asdict(world)} for policy, worlds in found.learnt.items() for world in worlds
        ],
    }


def _figures(found: Behaviours, policy: str, name: str) -> dict[str, Any]:
    pairs = found.pairs[policy, name]
    figures = {}
    for key in [*(key for key, _ in ROWS), "loss_other_budget"]:
        known = [round(value, 6) for value in values(pairs, key)]
        figures[key] = {
            "median": round(statistics.median(known), 6) if known else None,
            "low": min(known, default=None),
            "high": max(known, default=None),
            "beyond_chance": beyond_chance(pairs, found.late(policy), key) if name != CHANCE else None,
        }
    return {"seeds": [pair["seed"] for pair in pairs], "figures": figures}
