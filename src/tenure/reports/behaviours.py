"""What each way to behave gains or loses those who do it under each policy, beside the same people in honest worlds.

A world is the summary of one run with the figures of its people. Two of one policy and one seed have the same people
with the same draws; in one of them some do a trick, in the other nobody does. Amounts in GPU-hours, waits in seconds,
changes as fractions.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.reports.metrics import Summary

HONEST, CHANCE, ADAPTIVE = "honest", "late", "adaptive"
"""Worlds in which nobody does anything; in which some submit a minute late, which is no trick; in which all learn."""
SETTING = "behave"
"""The setting that names what people do in a world."""
GROUPS = ("gamers", "colleagues", "others")
"""Those who do it, the honest people of their budgets, the people of all other budgets."""

LEAST_SEEDS = 3
"""Seeds without which nothing is told from chance. What is no change at all has one sign in n seeds and is larger than
being late in all of them once in 2**(n - 1) * binomial(2 n, n) cases: 80 of 3 seeds, 12 of 2 and 2 of 1, and a table
has dozens of cells."""

Pair = dict[str, Any]


def groups_of(world: Summary, budgets: Collection[str], what: str) -> tuple[float, float, float]:
    """GPU-hours of each of ``GROUPS``; ``budgets`` are those of people who do it."""
    found = [0.0, 0.0, 0.0]
    for person in world["people"].values():
        found[0 if person["counted"] else 1 if person["budget"] in budgets else 2] += person.get(what, 0.0)
    return found[0], found[1], found[2]


def change(before: float | None, after: float | None) -> float | None:
    """As a fraction of what it was; None when that cannot be told."""
    return after / before - 1 if before and after is not None else None


def compared(with_it: Summary, without: Summary) -> Pair:
    """One pair of worlds. ``X_served`` is useful work for each GPU-hour that X had outstanding; losses are differences
    of M1, positive for a loss.
    """
    budgets = {person["budget"] for person in without["people"].values() if person["counted"]}
    useful = [groups_of(world, budgets, "useful") for world in (without, with_it)]
    asked = [groups_of(world, budgets, "asked") for world in (without, with_it)]
    served = [[u / a if a else None for u, a in zip(*both, strict=True)] for both in zip(useful, asked, strict=True)]
    found: Pair = {"seed": with_it["seed"], "gamers_without": useful[0][0], "gamers_with": useful[1][0]}
    for i, name in enumerate(GROUPS):
        found[name] = change(useful[0][i], useful[1][i])
        found[f"{name}_served"] = change(served[0][i], served[1][i])
    return {
        **found,
        **_persons(with_it, without),
        **_losses(with_it, without, budgets),
        "tries_without": without["tries_p90_s"],
        "tries_with": with_it["tries_p90_s"],
        "reaped": with_it.get("reaped", 0),
    }


def _persons(with_it: Summary, without: Summary) -> Pair:
    """How it is for one person who does it, and not for those with most work."""
    theirs = {
        name: [person["useful"], with_it["people"][name]["useful"]]
        for name, person in without["people"].items()
        if person["counted"]
    }
    gains = [after / before - 1 for before, after in theirs.values() if before > 0]
    return {
        "median_person": statistics.median(gains) if gains else None,
        "persons_up": sum(gain > 0 for gain in gains),
        "persons": len(gains),
        "people": theirs,
    }


def _losses(with_it: Summary, without: Summary, budgets: Collection[str]) -> Pair:
    after = {row["budget"]: row["m1_delivered"] for row in with_it["per_budget"]}
    before = {row["budget"]: row["m1_delivered"] for row in without["per_budget"]}
    losses = {budget: was - (after.get(budget) or 0.0) for budget, was in before.items() if was is not None}
    others = {budget: loss for budget, loss in losses.items() if budget not in budgets}
    return {
        "loss_other_budget": max(others.values(), default=None),
        "loss_any_budget": max(losses.values(), default=None),
    }


def values(pairs: Iterable[Pair], key: str) -> list[float]:
    """What is known of one figure, over seeds."""
    return [pair[key] for pair in pairs if pair.get(key) is not None]


def beyond_chance(pairs: Sequence[Pair], late: Sequence[Pair], key: str) -> bool | None:
    """Whether a change is larger in every seed than any that came of submitting a minute late, and of one sign.

    None when there is nothing to tell it by: with fewer than ``LEAST_SEEDS``, or where being late moved nothing at all.
    """
    found, noise = values(pairs, key), values(late, key)
    if min(len(found), len(noise)) < LEAST_SEEDS or not any(noise):
        return None
    same = all(value > 0 for value in found) or all(value < 0 for value in found)
    return same and min(map(abs, found)) > max(map(abs, noise))


@dataclass(slots=True)
class Learnt:
    """One world in which people learn. ``drift``: at each midnight, people by what they do. ``gain``, ``served``: of
    all people together, beside the honest world.
    """

    seed: int
    drift: list[dict[str, int]]
    moves: dict[str, int]
    gain: float | None
    served: float | None


@dataclass(slots=True)
class Behaviours:
    """``pairs``: (policy, behaviour) -> a pair of worlds for each seed. ``learnt``: policy -> worlds in which all
    learn. ``unheeded``: (policy, behaviour) that cannot change anything. ``about``: what was run, in words. ``share``:
    the part of the people who do it.
    """

    policies: list[str]
    behaviours: list[str]
    pairs: dict[tuple[str, str], list[Pair]] = field(default_factory=dict)
    learnt: dict[str, list[Learnt]] = field(default_factory=dict)
    unheeded: frozenset[tuple[str, str]] = frozenset()
    about: str = ""
    share: float = 0.0

    def late(self, policy: str) -> list[Pair]:
        return self.pairs.get((policy, CHANCE), [])

    @property
    def seeds(self) -> int:
        found = [*map(len, self.pairs.values()), *map(len, self.learnt.values())]
        return max(found, default=0)


def collect(
    worlds: Iterable[Summary], share: float, unheeded: Collection[tuple[str, str]] = (), about: str = ""
) -> Behaviours:
    """Put worlds beside the honest ones of their policy and seed. What has none is left out."""
    by_key = {(w["policy"], w["settings"][SETTING], w["seed"]): w for w in worlds}
    found = Behaviours(
        list(dict.fromkeys(policy for policy, _, _ in by_key)),
        [],
        unheeded=frozenset(unheeded),
        about=about,
        share=share,
    )
    for (policy, name, seed), world in by_key.items():
        honest = by_key.get((policy, HONEST, seed))
        if honest is None or name == HONEST:
            continue
        if name == ADAPTIVE:
            found.learnt.setdefault(policy, []).append(_learnt(world, honest))
        else:
            found.pairs.setdefault((policy, name), []).append(compared(world, honest))
    names = dict.fromkeys([name for _, name in (*found.pairs, *sorted(unheeded))])
    found.behaviours = [name for name in names if name != CHANCE] + [name for name in names if name == CHANCE]
    return found


def _learnt(world: Summary, honest: Summary) -> Learnt:
    useful = [sum(groups_of(one, (), "useful")) for one in (honest, world)]
    asked = [sum(groups_of(one, (), "asked")) for one in (honest, world)]
    served = [u / a if a else None for u, a in zip(useful, asked, strict=True)]
    return Learnt(world["seed"], world["drift"], world["moves"], change(*useful), change(*served))


def middle(drifts: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """The mean number of people who do each, over worlds."""
    return {name: statistics.mean(drift.get(name, 0) for drift in drifts) for name in drifts[0]} if drifts else {}
