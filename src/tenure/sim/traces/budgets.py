"""Budgets for the teams of a trace: a flat tree ``lab/<team>`` whose shares add up to the whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenure.core.model import SELF, SHARE_ONE, Budget
from tenure.sim.traces.options import Shares, TraceOptions
from tenure.sim.traces.records import TraceError, TraceJob

OTHER = "other"
_NAME = 63
"""The longest name that a budget of a configuration may have."""


@dataclass(frozen=True, slots=True)
class TeamBudgets:
    """``paths``: team -> budget. ``pooled``: teams that share the budget ``other`` because there were too many."""

    paths: dict[str, str]
    budgets: tuple[Budget, ...]
    pooled: int


def team_budgets(jobs: Iterable[TraceJob], options: TraceOptions) -> TeamBudgets:
    """Raises TraceError when given shares leave a budget out or exceed the whole."""
    asked: dict[str, int] = {}
    for job in jobs:
        asked[job.team] = asked.get(job.team, 0) + job.gpu_ms
    given = dict(options.teams)
    own = sorted((team for team in asked if team not in given), key=lambda team: (-asked[team], team))
    alone = own if len(own) <= options.max_teams else own[: options.max_teams - 1]
    names = _names(alone, {OTHER, SELF, *given.values()})
    names.update((team, OTHER) for team in own[len(alone) :])
    names.update((team, given[team]) for team in asked if team in given)
    time: dict[str, int] = {}
    for team, gpu_ms in asked.items():
        time[names[team]] = time.get(names[team], 0) + gpu_ms
    shares = _shares(time, options.shares)
    root = options.organisation
    budgets = (Budget(root, SHARE_ONE), *(Budget(f"{root}/{name}", shares[name]) for name in sorted(shares)))
    paths = {team: f"{root}/{name}" for team, name in sorted(names.items())}
    return TeamBudgets(paths, budgets, len(own) - len(alone))


def _names(teams: Iterable[str], taken: set[str]) -> dict[str, str]:
    """Team -> a name that a configuration would accept, none twice and none of those taken."""
    names: dict[str, str] = {}
    for team in teams:
        plain = re.sub(r"[^a-z0-9_-]+", "-", team.lower()).lstrip("-_")[:_NAME] or "team"
        name, again = plain, 2
        while name in taken:
            name, again = f"{plain[: _NAME - 6]}-{again}", again + 1
        taken.add(name)
        names[team] = name
    return names


def _shares(time: Mapping[str, int], how: Shares | tuple[tuple[str, int], ...]) -> dict[str, int]:
    if isinstance(how, tuple):
        given = dict(how)
        missing = sorted(name for name in time if name not in given)
        if missing:
            raise TraceError(f"no share is given for the budgets {', '.join(missing)}")
        if min(given.values()) < 0 or sum(given.values()) > SHARE_ONE:
            raise TraceError("the given shares must be 0 or more and add up to at most 1")
        return given
    weights = dict.fromkeys(time, 1) if how is Shares.EQUAL else time
    return largest_remainder(weights)


def largest_remainder(weights: Mapping[str, int]) -> dict[str, int]:
    """Shares in proportion to weights above 0 that add up to SHARE_ONE exactly (Hamilton's method), none of them 0."""
    spare = SHARE_ONE - len(weights)
    total = sum(weights.values())
    shares = {name: 1 + weight * spare // total for name, weight in weights.items()}
    left = SHARE_ONE - sum(shares.values())
    for name in sorted(weights, key=lambda name: (-(weights[name] * spare % total), name))[:left]:
        shares[name] += 1
    return shares
