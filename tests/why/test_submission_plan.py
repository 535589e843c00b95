"""What a plan says of cost and balance, and when it warns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.world import World, hosts
from tenure.core.model import GPU, HOUR, MINUTE, Policy
from tenure.core.reasons import Refusal
from tenure.store import PastRun
from tenure.why.mistakes import Mistake, warnings
from tenure.why.plan import Planned, planned

WEEK_HOURS = 7 * 24


def world(shares: dict[str, float] | None = None) -> World:
    """Two hosts of 8 GPUs."""
    return World(hosts(2), shares)


def plan(w: World, **more: object) -> Planned:
    return planned(w.state, w.spec("lab/a", **more))  # type: ignore[arg-type]


def codes(found: Planned, past: Sequence[PastRun] = ()) -> list[Mistake]:
    return [each.code for each in warnings(found, past)]


def runs(*minutes: int, name: str = "job", gpus: int = 8) -> list[PastRun]:
    return [PastRun(n, name, gpus, HOUR, length * MINUTE) for n, length in enumerate(minutes)]


def test_what_it_promises_is_added_to_what_is_committed_and_nothing_else_moves() -> None:
    w = world()
    w.submit("lab/a", 4, min_runtime=HOUR)
    w.advance(HOUR // 2)
    found = plan(w, gpus=2, min_runtime=2 * HOUR)
    assert found.charge == 2 * GPU * 2 * HOUR
    assert (found.balance.used, found.balance.committed) == (4 * GPU * HOUR // 2, 4 * GPU * HOUR // 2)
    assert found.balance.entitled == 8 * GPU * WEEK_HOURS * HOUR
    after = found.after
    assert (after.used, after.committed) == (found.balance.used, found.balance.committed + found.charge)
    assert after.left == found.balance.left - found.charge
    # And so it is, once it has been submitted.
    w.submit("lab/a", 2, min_runtime=2 * HOUR)
    again = plan(w, gpus=2, min_runtime=2 * HOUR).balance
    assert (again.used, again.committed) == (after.used, after.committed)


def test_cpus_and_memory_cost_what_they_are_of_a_host() -> None:
    assert plan(world(), gpus=1, cpus=32_000).amount == 4 * GPU
    w = world()
    w.submit("lab/b", 8, replicas=2)  # nothing is free: what it would cost is told all the same
    assert plan(w, gpus=1, cpus=32_000).amount == 4 * GPU


def test_the_cluster_is_the_one_where_it_starts() -> None:
    found = plan(world(), gpus=8, replicas=2)
    assert (found.cluster, found.hosts, found.text) == ("main", ("h0", "h1"), "It starts now, on h0 and h1.")


def test_without_a_share_it_is_refused_as_on_submission() -> None:
    with pytest.raises(Refusal, match="it has no share of main"):
        plan(world({"lab/a": 0, "lab/b": 1}))


def test_held_hosts_are_told_with_the_time_of_the_next_look() -> None:
    w = World(hosts(2), policy=Policy(reserved_percent=100))
    first = w.submit("lab/b", 8, replicas=2, min_runtime=2 * HOUR)
    found = plan(w, gpus=8)
    assert found.looks_at == (w.now // (5 * MINUTE) + 1) * 5 * MINUTE
    assert found.hosts == ("h0",) and found.starts_at is not None
    until = w.attempt(first).protected_until
    assert until is not None and until < found.starts_at < until + HOUR
    number = w.submit("lab/a", 8)
    w.advance(5 * MINUTE)
    held = w.job(number).reservation
    assert held is not None and (held.hosts, held.starts_by) == (found.hosts, found.starts_at)


def test_eight_hours_declared_by_a_job_of_ten_minutes() -> None:
    found = plan(world(), min_runtime=8 * HOUR)
    assert codes(found, runs(10, 9, 11)) == [Mistake.LONG_CONTRACT]
    (warned,) = warnings(found, runs(10, 9, 11))
    assert "min_runtime is 8h, and your last 3 jobs named job ran for 11m or less" in warned.text
    assert "15m protects them as well" in warned.text
    # Jobs of another name count when they are of that size, and when those of this name are too few.
    assert codes(found, runs(10, 9, 11, name="other")) == [Mistake.LONG_CONTRACT]
    assert codes(found, runs(10, 9, 11, name="other", gpus=1)) == []
    assert codes(found, runs(10, 9)) == []
    # One in ten may be long; none, when they are few.
    assert codes(found, runs(600, *[10] * 9)) == [Mistake.LONG_CONTRACT]
    assert codes(found, runs(600, 10, 10)) == []
    # What is not far off, and what is short anyway, is nobody's business.
    assert codes(plan(world(), min_runtime=HOUR), runs(*[40] * 5)) == []
    assert codes(plan(world(), min_runtime=45 * MINUTE), runs(*[1] * 5)) == []


def test_a_contract_as_long_as_the_timeout() -> None:
    assert codes(plan(world(), min_runtime=HOUR, timeout=HOUR)) == [Mistake.WHOLE_TIMEOUT]
    assert codes(plan(world(), min_runtime=HOUR, timeout=HOUR + 1)) == []
    assert codes(plan(world(), min_runtime=15 * MINUTE, timeout=15 * MINUTE)) == []
    with pytest.raises(Refusal, match="timeout"):
        plan(world(), min_runtime=HOUR, timeout=HOUR - 1)


def test_a_contract_above_half_of_a_budgets_week() -> None:
    w = World(hosts(2), {"lab/a": 0.04, "lab/b": 0.5}, policy=Policy())
    # 0.64 GPUs for a week are 107.52 GPU-hours, and 16 GPUs for 3 h 21 min 36 s are half of that.
    at = 3 * HOUR + 21 * MINUTE + 36_000
    above = [Mistake.ABOVE_ALLOCATION]
    assert codes(plan(w, replicas=2, min_runtime=at)) == above
    assert codes(plan(w, replicas=2, min_runtime=at + 1)) == [Mistake.LARGE_CONTRACT, *above]
    with pytest.raises(Refusal, match="entitlement"):
        plan(w, replicas=2, gpus=8, min_runtime=7 * HOUR)


def test_what_is_lost_when_it_is_evicted() -> None:
    w = world()
    assert codes(plan(w, min_runtime=HOUR, resumable=False)) == [Mistake.LOST_AFTER_CONTRACT]
    assert codes(plan(w, min_runtime=HOUR - 1, resumable=False)) == []
    assert codes(plan(w, min_runtime=0, resumable=False)) == [Mistake.LOST_AT_ANY_TIME]
    assert codes(plan(w, min_runtime=0)) == []


def test_more_gpus_than_the_budget_has_at_any_moment() -> None:
    w = world()
    assert codes(plan(w, gpus=8)) == []
    assert codes(plan(w, roles=(w.spec("lab/a", 5).roles[0],) * 2)) == [Mistake.ABOVE_ALLOCATION]
    assert codes(plan(w, replicas=2, min_runtime=15 * MINUTE)) == []


def test_the_page_has_every_warning() -> None:
    page = (Path(__file__).parents[2] / "docs" / "plan.md").read_text()
    assert all(f"| `{mistake}` |" in page for mistake in Mistake)
