"""Minimum runtimes of queues as KAI Scheduler finds them: the queues and the cases of ``resolver_test.go``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import SECOND
from tenure.policies.kai_runtimes import Runtimes

PREEMPT = {"dev": 5, "prod": 20, "research": 4, "dev/team2": 3, "prod/team2": 15, "research/project": 7}
RECLAIM_TOP = {"dev": 10, "prod": 30, "research": 6}
RECLAIM = {**RECLAIM_TOP, "dev/team1": 8, "prod/team1": 25, "prod/team2": 35, "research/project": 9}


def ms(seconds: dict[str, int]) -> dict[str, int]:
    return {path: value * SECOND for path, value in seconds.items()}


def of(method: str = "lca") -> Runtimes:
    return Runtimes(2 * SECOND, 1 * SECOND, ms(PREEMPT), ms(RECLAIM), method)


@pytest.mark.parametrize(
    ("queue", "seconds"),
    [
        ("prod/team2", 15),  # when queue has a set value
        ("prod/team1", 20),  # when queue inherits from parent
        ("dev/team1", 5),  # when queue inherits from parent
        ("prod", 20),  # when top-level queue has a set value
        ("research", 4),  # when research queue has a set value
        ("nonexistent", 2),  # when no queue is found: the default value
    ],
)
def test_preempt_min_runtime(queue: str, seconds: int) -> None:
    assert of().preempted(queue) == seconds * SECOND


@pytest.mark.parametrize(
    ("method", "pending", "victim", "seconds"),
    [
        ("queue", "dev/team1", "prod/team2", 35),  # when victim queue has a set value
        ("queue", "dev/team1", "dev/team2", 10),  # when victim queue inherits from parent
        ("queue", "dev/team1", "nonexistent", 1),  # when victim queue is not found
        ("queue", "dev/team1", "research/project", 9),  # different hierarchies with the research queue
        ("lca", "dev/team1", "prod/team2", 30),  # different top-level queues: the top-level victim queue's value
        ("lca", "dev/team2", "dev/team1", 8),  # when LCA is dev and victim has its own
        ("lca", "prod/team1", "prod/team2", 35),  # when LCA is prod and victim has its own
        ("lca", "prod/team2", "prod/team2", 35),  # the same queue: its own value
        ("lca", "dev/team1", "research/project", 6),  # from the top-level ancestor
        ("lca", "dev/team1", "no-reclaim/leaf", 1),  # top-level victim queue having no reclaim min runtime
        ("lca", "dev/team1", "dev/team2", 10),  # back up towards the root
    ],
)
def test_reclaim_min_runtime(method: str, pending: str, victim: str, seconds: int) -> None:
    assert of(method).reclaimed(victim, by=pending) == seconds * SECOND


def test_the_default_of_reclaim_is_never_that_of_preempt() -> None:
    """The source takes the other one below one top-level queue; here it is as its page says."""
    assert Runtimes(preempt=5, reclaim=7).reclaimed("lab/a", by="lab/b") == 7


LEAVES = ("lab/a/x", "lab/a/y", "lab/a/self", "lab/b", "lab/self")
NODES = ("lab", "lab/a", *LEAVES)
values = st.dictionaries(st.sampled_from(NODES), st.integers(0, 9))


@given(values, values, st.sampled_from(("lca", "queue")), st.sampled_from(LEAVES))
def test_the_least_is_what_holds_towards_somebody(
    preempt: dict[str, int], reclaim: dict[str, int], method: str, leaf: str
) -> None:
    runtimes = Runtimes(3, 4, preempt, reclaim, method)
    towards = [runtimes.reclaimed(leaf, by=other) for other in LEAVES if other != leaf]
    assert runtimes.least(leaf) == min(runtimes.preempted(leaf), *towards)
