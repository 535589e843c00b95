"""What a simulation may vary, by the names that people use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from tenure import units
from tenure.core.model import Cluster, Policy
from tenure.sim.setup import Setup

_POLICY_DURATIONS = ("lookback", "recent", "entitlement_floor", "preemption_margin", "unallocated_turn")
_CLUSTER_DURATIONS = {
    "max_min_runtime": "min_runtime_max",
    "min_runtime_floor": "min_runtime_floor",
    "grace": "max_grace",
    "unallocated_grace": "unallocated_grace",
    "kill_timeout": "kill_timeout",
    "start_timeout": "start_timeout",
}
_COUNTS = ("evictions_per_minute",)
SETTINGS = (*_POLICY_DURATIONS, *_COUNTS, *_CLUSTER_DURATIONS)
"""All that ``--set`` and ``--vary`` know."""


class SettingError(ValueError):
    """Names the setting, the value and what would do."""


def with_setting(setup: Setup, name: str, text: str) -> Setup:
    """``setup`` with one setting, as people write it. Raises SettingError."""
    scheduling, clusters = setup.scheduling, setup.clusters
    if name in _POLICY_DURATIONS:
        scheduling = _checked(replace(scheduling, **{name: _duration(name, text)}), name, text)
    elif name in _COUNTS:
        if not text.isdecimal() or not int(text):
            raise SettingError(f"{name} = {text}: write a whole number, at least 1")
        scheduling = replace(scheduling, **{name: int(text)})
    elif name in _CLUSTER_DURATIONS:
        limit = {_CLUSTER_DURATIONS[name]: _duration(name, text)}
        clusters = tuple(_with_limit(cluster, limit) for cluster in clusters)
    else:
        raise SettingError(f"there is no setting {name}; there are: {', '.join(SETTINGS)}")
    return replace(setup, scheduling=scheduling, clusters=clusters)


def _with_limit(cluster: Cluster, limit: dict[str, int]) -> Cluster:
    changed: Callable[..., Cluster] = replace
    return changed(cluster, **limit)


def _checked(scheduling: Policy, name: str, text: str) -> Policy:
    least = 1 if name in ("lookback", "recent", "unallocated_turn") else 0
    if getattr(scheduling, name) < least:
        raise SettingError(f"{name} = {text}: must be more than 0")
    return scheduling


def _duration(name: str, text: str) -> int:
    try:
        return units.parse_duration(text)
    except units.UnitError as error:
        raise SettingError(f"{name} = {text}: {error.fix}") from error


def parse_assignment(text: str) -> tuple[str, tuple[str, ...]]:
    """``name=value[,value...]``. Raises SettingError."""
    name, equals, values = text.partition("=")
    parts = tuple(part.strip() for part in values.split(",") if part.strip())
    if not equals or not parts:
        raise SettingError(f"{text}: write NAME=VALUE, for instance lookback=7d")
    if name.strip() not in SETTINGS:
        raise SettingError(f"there is no setting {name.strip()}; there are: {', '.join(SETTINGS)}")
    return name.strip(), parts


def varied(setup: Setup, choices: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Setup]:
    """``setup`` with every combination of the values to be tried, each named in its ``settings``."""
    names = [name for name, _ in choices]
    for values in product(*(options for _, options in choices)):
        one = setup
        for name, value in zip(names, values, strict=True):
            one = with_setting(one, name, value)
        yield replace(one, settings=(*setup.settings, *zip(names, values, strict=True)))
