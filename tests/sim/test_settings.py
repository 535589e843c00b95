"""What may be varied, what follows from it, and what is said about what may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sim_kit import setup_of, simulate, work

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.policies import NAMES
from tenure.sim.settings import SETTINGS, SettingError, heeds, parse_assignment, varied, with_settings
from tenure.sim.setup import Setup

BASE = setup_of([])
Choices = Sequence[tuple[str, Sequence[str]]]


def all_of(policies: Sequence[str], given: Sequence[tuple[str, str]] = (), choices: Choices = ()) -> list[Setup]:
    return list(varied(lambda seed: BASE, policies, [0], given, choices))


OF_RULE_10 = ("reserved_percent", "reserve_from", "reserve_margin_percent", "headroom_percent", "moves_per_hour")
WEIGHTS = ("weight_age", "weight_fairshare", "weight_job_size", "weight_qos")
OF_QUEUES = ("quota_least", "quota_percent", "k_percent", "min_share_percent", "threshold_percent", "busy_percent")
COUNTS = dict.fromkeys(("evictions_per_minute", *OF_RULE_10, "cap_percent", "cap_least", *OF_QUEUES, *WEIGHTS), "7")
SWITCHED = dict.fromkeys(("packing", "youngest_first", "tumbling"), "on")
BY_QUEUE = dict.fromkeys(("preempt_min_runtime_of", "reclaim_min_runtime_of"), "lab/a:4h+lab:0")
OF_KAI = {**BY_QUEUE, "reclaim_resolve_method": "queue"}
VALUES = {**COUNTS, **SWITCHED, **OF_KAI, "lookback": "9h", "unallocated_grace": "7s"}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_changes_what_it_names_under_some_policy(name: str) -> None:
    policy = next(policy for policy in NAMES if heeds(policy, name))
    value = VALUES.get(name, "7m")
    changed = with_settings(replace(BASE, policy=policy), [(name, value)])
    parts = ("scheduling", "clusters", "options")
    assert sum(getattr(changed, part) != getattr(BASE, part) for part in parts) == 1
    assert changed.settings == ((name, value),)
    run, _ = simulate(replace(changed, workload=setup_of([(0, work())]).workload, duration=2 * HOUR))
    assert run.settings == {name: value} and run.jobs[0].state == "succeeded"


def test_settings_reach_the_core_in_its_units() -> None:
    changed = with_settings(BASE, [("lookback", "14d"), ("max_min_runtime", "4h")])
    assert changed.scheduling.lookback == 14 * DAY
    assert changed.clusters[0].min_runtime_max == 4 * HOUR
    assert with_settings(BASE, [("grace", "1m")]).clusters[0].max_grace == MINUTE
    assert with_settings(BASE, [("preemption_margin", "0")]).scheduling.preemption_margin == 0


def test_settings_of_queues_reach_the_policy_and_make_a_name_for_a_folder() -> None:
    values = ("lab/a:4h + lab/b/self:0", "lab:30m")
    kai = [("reclaim_min_runtime_of", values), ("reclaim_resolve_method", ("queue",))]
    base = replace(BASE, budgets=(*BASE.budgets, replace(BASE.budgets[-1], path="lab/b/x")))
    first, second = varied(lambda seed: base, ["kai"], [0], [("reclaim_min_runtime", "1h")], kai)
    assert first.options == {
        "reclaim_min_runtime": HOUR,
        "reclaim_min_runtime_of": (("lab/a", 4 * HOUR), ("lab/b/self", 0)),
        "reclaim_resolve_method": "queue",
    }
    assert second.options["reclaim_min_runtime_of"] == (("lab", 30 * MINUTE),)
    assert second.label == "kai-reclaim_min_runtime_of=lab:30m-reclaim_resolve_method=queue-seed0"
    assert "/" not in first.label and dict(first.settings)["reclaim_min_runtime_of"] == values[0]


def test_what_is_not_set_follows_what_is() -> None:
    short = with_settings(BASE, [("lookback", "30m"), ("max_min_runtime", "20m")]).scheduling
    assert (short.recent, short.entitlement_floor, short.preemption_margin) == (30 * MINUTE,) * 3
    again = with_settings(BASE, [("lookback", "14d")]).scheduling
    assert (again.recent, again.entitlement_floor) == (DAY, 8 * HOUR)
    cluster = with_settings(BASE, [("max_min_runtime", "2m"), ("grace", "5s")]).clusters[0]
    assert cluster.min_runtime_floor == cluster.default_min_runtime == 2 * MINUTE
    assert cluster.unallocated_grace == 5 * SECOND
    assert with_settings(BASE, [("min_runtime_floor", "9h")]).clusters[0].min_runtime_max == 9 * HOUR


def test_every_combination_is_tried_and_named() -> None:
    made = all_of(["budgets"], [("start_timeout", "9m")], [("lookback", ("3d", "7d")), ("grace", ("0", "5m"))])
    assert [setup.settings for setup in made] == [
        (("start_timeout", "9m"), ("lookback", "3d"), ("grace", "0")),
        (("start_timeout", "9m"), ("lookback", "3d"), ("grace", "5m")),
        (("start_timeout", "9m"), ("lookback", "7d"), ("grace", "0")),
        (("start_timeout", "9m"), ("lookback", "7d"), ("grace", "5m")),
    ]
    assert made[1].label == "budgets-lookback=3d-grace=5m-seed0"


def test_policies_get_the_settings_that_they_heed_and_run_once_for_others() -> None:
    made = all_of(["budgets", "priority"], [("recent", "12h")], [("cap_percent", ("100", "150"))])
    assert [setup.label for setup in made] == [
        "budgets-seed0",
        "priority-cap_percent=100-seed0",
        "priority-cap_percent=150-seed0",
    ]
    assert [setup.settings for setup in made][0::2] == [(("recent", "12h"),), (("cap_percent", "150"),)]
    assert made[0].options == {} and made[2].options == {"cap_percent": 150}
    assert made[0].scheduling.recent == 12 * HOUR and made[2].scheduling.recent == DAY


def test_seeds_have_their_own_bases() -> None:
    made = list(varied(lambda seed: replace(BASE, title=f"work {seed}"), ["fifo", "budgets"], [3, 4]))
    assert [(setup.policy, setup.seed, setup.title) for setup in made] == [
        (policy, seed, f"work {seed}") for policy in ("fifo", "budgets") for seed in (3, 4)
    ]


def test_a_lookback_where_it_hardly_matters_is_noted() -> None:
    budgets, fifo = all_of(["budgets", "fifo"], [("lookback", "3d")])
    assert budgets.notes == ()
    assert fifo.notes == ("under fifo the lookback changes nothing but which contracts are too large to be admitted",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lookback", "write NAME=VALUE"),
        ("lookback=", "write NAME=VALUE"),
        ("lookbak=3d", "there is no setting lookbak; there are: lookback"),
        ("lookback=3d,3d", "lookback = 3d,3d: write each value once"),
    ],
)
def test_what_is_no_assignment_is_refused(text: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        parse_assignment(text)


@pytest.mark.parametrize(
    ("policies", "given", "choices", "says"),
    [
        (["fifo"], [("recent", "1h")], [], "recent: it changes nothing under fifo; it is a setting of budgets"),
        (["budgets", "fifo"], [], [("cap_least", ["1"])], "under budgets, fifo; it is a setting of priority"),
        (["budgets"], [("recent", "1h")], [("recent", ["2h"])], "recent: set or vary it once"),
    ],
)
def test_settings_that_nobody_heeds_or_that_come_twice_are_refused(
    policies: list[str], given: list[tuple[str, str]], choices: Choices, says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        all_of(policies, given, choices)


@pytest.mark.parametrize(
    ("policy", "pairs", "says"),
    [
        ("budgets", {"lookback": "7"}, "lookback = 7: say the unit"),
        ("budgets", {"lookback": "0"}, "lookback = 0: from 1m to 90d"),
        ("budgets", {"lookback": "1h", "recent": "2h"}, "recent = 2h: from 1s to 1h (the lookback)"),
        ("budgets", {"lookback": "6h"}, "max_min_runtime = 8h: from 1s to 6h (the lookback)"),
        ("budgets", {"max_min_runtime": "1h", "min_runtime_floor": "2h"}, "min_runtime_floor = 2h: from 1s to 1h"),
        ("budgets", {"kill_timeout": "0"}, "kill_timeout = 0: from 1s to 1h"),
        ("budgets", {"start_timeout": "0"}, "start_timeout = 0: from 1s to 1d"),
        ("budgets", {"grace": "10s", "unallocated_grace": "20s"}, "unallocated_grace = 20s: from 0"),
        ("budgets", {"evictions_per_minute": "0"}, "evictions_per_minute = 0: from 1 to 10000"),
        ("budgets", {"evictions_per_minute": "x"}, "write a whole number"),
        ("budgets", {"packing": "0"}, "packing = 0: write on or off"),
        ("budgets", {"reserved_percent": "101"}, "reserved_percent = 101: from 0 to 100"),
        ("budgets", {"reserve_from": "100001"}, "reserve_from = 100001: from 0 to 100000"),
        ("budgets", {"reserve_ahead": "8d"}, "reserve_ahead = 8d: from 0s to 7d"),
        ("budgets", {"look_every": "5s"}, "look_every = 5s: from 10s to 1h"),
        ("budgets", {"grace": "-1m"}, "cannot be negative"),
        ("priority", {"cap_percent": "half"}, "cap_percent = half: write a whole number"),
        ("backfill", {"default_limit": "0"}, "default_limit = 0: must be more than 0"),
        ("slurm", {"half_life": "30s"}, "half_life = 30000: must be at least 1 min, or 0 for no decay"),
        ("kai", {"reclaim_min_runtime_of": "4h"}, "reclaim_min_runtime_of = 4h: write QUEUE:TIME"),
        ("kai", {"reclaim_min_runtime_of": "lab/a:4h+"}, "reclaim_min_runtime_of = lab/a:4h+: write QUEUE:TIME"),
        ("kai", {"preempt_min_runtime_of": "lab/a:4"}, "preempt_min_runtime_of = lab/a:4: say the unit"),
        ("kai", {"preempt_min_runtime_of": "lab/aa:4h"}, "lab/aa: there is no such queue; did you mean lab/a?"),
        ("kai", {"preempt_min_runtime_of": "lab/a:4h+lab/a:0"}, "lab/a: give each queue one value"),
        ("kai", {"reclaim_resolve_method": "leaf"}, "reclaim_resolve_method = leaf: must be lca or queue"),
        ("kai", {"reclaim_min_runtime": "lab/a:4h"}, "reclaim_min_runtime = lab/a:4h: write it like 2h30m"),
        ("slurm", {"weight_age": "1d"}, "weight_age = 1d: write a whole number"),
    ],
)
def test_bad_values_name_the_setting(policy: str, pairs: dict[str, str], says: str) -> None:
    with pytest.raises(SettingError) as refused:
        with_settings(replace(BASE, policy=policy), list(pairs.items()))
    assert says in str(refused.value)
