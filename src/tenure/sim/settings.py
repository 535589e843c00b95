"""What a simulation may vary, by the names that people use: of the scheduler, of its clusters, of other policies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product

from tenure import units
from tenure.core.model import Cluster, Policy
from tenure.core.tree import Tree
from tenure.policies import NAMES, by_name
from tenure.policies.base import ByQueue, Setting
from tenure.sim.setup import Setup

Pairs = Sequence[tuple[str, str]]
"""Setting and value, as people write them."""

TENURE = "budgets"
"""The policy that the scheduler's settings are for."""
_RULE_10 = (
    "packing",
    "reserved_percent",
    "reserve_from",
    "reserve_margin_percent",
    "reserve_ahead",
    "look_every",
    "headroom_percent",
    "moves_per_hour",
)
_OF_TENURE = ("recent", "entitlement_floor", "preemption_margin", "unallocated_turn", "evictions_per_minute", *_RULE_10)
_OF_SCHEDULER = ("lookback", *_OF_TENURE)
_FOLLOW_LOOKBACK = ("recent", "entitlement_floor", "preemption_margin")
_OF_CLUSTERS = {
    "max_min_runtime": "min_runtime_max",
    "min_runtime_floor": "min_runtime_floor",
    "grace": "max_grace",
    "unallocated_grace": "unallocated_grace",
    "kill_timeout": "kill_timeout",
    "start_timeout": "start_timeout",
}
_NAMED = {field: name for name, field in _OF_CLUSTERS.items()}
_OF_POLICIES = {name: tuple(inspect.signature(type(by_name(name))).parameters) for name in NAMES}
"""Policy -> the settings that it takes itself."""
_SWITCHES = {"on": True, "off": False}
_SWITCHED = ("packing", "youngest_first", "tumbling")
_COUNTS = (
    "evictions_per_minute",
    "reserved_percent",
    "reserve_from",
    "reserve_margin_percent",
    "headroom_percent",
    "moves_per_hour",
    "cap_percent",
    "cap_least",
    "quota_least",
    "min_share_percent",
    "threshold_percent",
    "busy_percent",
    "quota_percent",
    "k_percent",
    "weight_age",
    "weight_fairshare",
    "weight_job_size",
    "weight_qos",
)
"""Numbers."""
_BY_QUEUE = ("preempt_min_runtime_of", "reclaim_min_runtime_of")
"""Durations of queues."""
_WORDS = ("reclaim_resolve_method",)
"""What the policy knows the words for. All others are durations."""
SETTINGS = tuple(dict.fromkeys((*_OF_SCHEDULER, *_OF_CLUSTERS, *(n for names in _OF_POLICIES.values() for n in names))))
"""All that ``--set`` and ``--vary`` know."""


class SettingError(ValueError):
    """Names the setting, the value and what would do."""


def parse_assignment(text: str) -> tuple[str, tuple[str, ...]]:
    """``name=value[,value...]``. Raises SettingError."""
    name, equals, values = text.partition("=")
    name, parts = name.strip(), tuple(part.strip() for part in values.split(",") if part.strip())
    if not equals or not parts:
        raise SettingError(f"{text}: write NAME=VALUE, for instance lookback=7d")
    if name not in SETTINGS:
        raise SettingError(f"there is no setting {name}; there are: {', '.join(SETTINGS)}")
    if len(set(parts)) < len(parts):
        raise SettingError(f"{name} = {','.join(parts)}: write each value once")
    return name, parts


def heeds(policy: str, name: str) -> bool:
    """Whether the setting changes anything under the policy. What is admitted depends on the lookback under all."""
    if name in _OF_TENURE:
        return policy == TENURE
    return name in _OF_SCHEDULER or name in _OF_CLUSTERS or name in _OF_POLICIES[policy]


def with_settings(setup: Setup, pairs: Pairs) -> Setup:
    """``setup`` with what its policy heeds of ``pairs``, recorded in its ``settings``.

    What is not set follows what is, as in a configuration: a short lookback does not ask for three more settings.
    Raises SettingError for values that a configuration or the policy would refuse.
    """
    given = {name: text for name, text in pairs if heeds(setup.policy, name)}
    values = {name: _value(name, text) for name, text in given.items()}
    options = {name: value for name, value in values.items() if name in _OF_POLICIES[setup.policy]}
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    made = replace(
        setup,
        scheduling=_scheduling(setup.scheduling, numbers),
        clusters=tuple(_cluster(cluster, numbers) for cluster in setup.clusters),
        options={**setup.options, **options},
        settings=(*setup.settings, *given.items()),
    )
    _check(made, given)
    if "lookback" in given and setup.policy != TENURE:
        note = f"under {setup.policy} the lookback changes nothing but which contracts are too large to be admitted"
        made = replace(made, notes=(*made.notes, note))
    return made


def _value(name: str, text: str) -> Setting:
    if name in _WORDS:
        return text
    if name in _BY_QUEUE:
        return tuple(_by_queue(name, text))
    if name in _COUNTS:
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise SettingError(f"{name} = {text}: write a whole number")
        return int(text)
    if name in _SWITCHED:
        if text not in _SWITCHES:
            raise SettingError(f"{name} = {text}: write on or off")
        return _SWITCHES[text]
    return _duration(name, text)


def _by_queue(name: str, text: str) -> Iterator[tuple[str, int]]:
    for part in text.split("+"):
        path, _, time = (each.strip() for each in part.partition(":"))
        if not path or not time:
            raise SettingError(f"{name} = {text}: write QUEUE:TIME, several with + between them: lab/a:4h+lab/b:30m")
        yield path, _duration(name, time, f"{path}:")


def _duration(name: str, text: str, of: str = "") -> int:
    try:
        return units.parse_duration(text)
    except units.UnitError as error:
        raise SettingError(f"{name} = {of}{text}: {error.fix}") from error


def _scheduling(default: Policy, values: dict[str, int]) -> Policy:
    given = {name: value for name, value in values.items() if name in _OF_SCHEDULER}
    lookback = given.get("lookback", default.lookback)
    for name in _FOLLOW_LOOKBACK:
        given.setdefault(name, min(getattr(default, name), lookback))
    changed: Callable[..., Policy] = replace
    return changed(default, **given)


def _cluster(default: Cluster, values: dict[str, int]) -> Cluster:
    given = {_OF_CLUSTERS[name]: value for name, value in values.items() if name in _OF_CLUSTERS}
    floor = given.get("min_runtime_floor", default.min_runtime_floor)
    longest = given.get("min_runtime_max", default.min_runtime_max)
    floor = given.setdefault("min_runtime_floor", min(floor, longest))
    longest = given.setdefault("min_runtime_max", max(floor, longest))
    given["default_min_runtime"] = min(max(default.default_min_runtime, floor), longest)
    given.setdefault("unallocated_grace", min(default.unallocated_grace, given.get("max_grace", default.max_grace)))
    changed: Callable[..., Cluster] = replace
    return changed(default, **given)


def _check(setup: Setup, given: dict[str, str]) -> None:
    """The bounds of a configuration, and those of the policy. Raises SettingError."""
    # Imported late: workers and the shell's completion do without it.
    from tenure.config.check import check_clusters, check_policy

    # Hosts are made, not written by people: one stands for all of them.
    clusters = [replace(cluster, hosts=cluster.hosts[:1]) for cluster in setup.clusters]
    for problem in (*check_policy(setup.scheduling, ""), *check_clusters(clusters, setup.scheduling, "")):
        field = problem.field.rpartition(".")[2]
        name = _NAMED.get(field, field)
        raise SettingError(f"{name} = {given.get(name, problem.value)}: {problem.remedy}")
    for name, value in setup.options.items():
        if isinstance(value, tuple):
            _check_queues(setup, name, value)
    try:
        by_name(setup.policy, **setup.options)
    except ValueError as error:
        raise SettingError(str(error)) from error


def _check_queues(setup: Setup, name: str, given: ByQueue) -> None:
    from tenure.config.problems import did_you_mean

    nodes = Tree(setup.budgets).nodes
    for path, _ in given:
        if path not in nodes:
            raise SettingError(f"{name} = {path}: there is no such queue; {did_you_mean(path, nodes)}")


def varied(
    base: Callable[[int], Setup],
    policies: Sequence[str],
    seeds: Collection[int],
    given: Pairs = (),
    choices: Sequence[tuple[str, Sequence[str]]] = (),
) -> Iterator[Setup]:
    """The setup of every policy, combination of ``choices`` and seed, each named in its ``settings``.

    ``base``: of a seed. ``given``: what is the same for all. A policy is run once for values that it does not heed.
    Raises SettingError, also for a setting that none of the policies heeds or that is there twice.
    """
    names = [name for name, _ in choices]
    everything = [*(name for name, _ in given), *names]
    for name in everything:
        if everything.count(name) > 1:
            raise SettingError(f"{name}: set or vary it once")
        if not any(heeds(policy, name) for policy in policies):
            takers = ", ".join(policy for policy in NAMES if heeds(policy, name))
            raise SettingError(f"{name}: it changes nothing under {', '.join(policies)}; it is a setting of {takers}")
    bases = {seed: base(seed) for seed in seeds}
    seen: set[tuple[str, Pairs]] = set()
    for values in product(*(options for _, options in choices)):
        pairs = [*given, *zip(names, values, strict=True)]
        for policy in policies:
            heeded = tuple(pair for pair in pairs if heeds(policy, pair[0]))
            if (policy, heeded) in seen:
                continue
            seen.add((policy, heeded))
            for seed, one in bases.items():
                yield with_settings(replace(one, policy=policy, seed=seed, varied=(*one.varied, *names)), heeded)
