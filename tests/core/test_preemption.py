"""Rules 7 and 8 as tables: who may be evicted for whom, and which set of victims it is."""

from __future__ import annotations

import pytest

from scenarios import OLD, RECENT, past, victims
from support.world import World, hosts
from tenure.core.decisions import Claim
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.model import GPU, HOUR, MINUTE, SECOND
from tenure.core.reasons import Reason

S = JobState
Past = tuple[tuple[str, int, int], ...]

# One host of 8, two halves. b's job of 8 GPUs has just become exposed after an hour: 8 GPU-hours, all recent. Of the
# last day (24 h) each is entitled to 96 GPU-hours, of the lookback to 672. J is a's job of 8 GPUs: a margin of 8.
MARGIN: list[tuple[str, Past, bool]] = [
    ("last day: 87 + 8 is below 96 and 104 - 8 is not", (("lab/a", 87, RECENT), ("lab/b", 96, RECENT)), True),
    ("last day: 88 + 8 is not below 96", (("lab/a", 88, RECENT), ("lab/b", 96, RECENT)), False),
    ("last day: 103 - 8 is below 96, and the ratio decides", (("lab/a", 87, RECENT), ("lab/b", 95, RECENT)), False),
    (
        "last day before the ratio: a has used more in the lookback",
        (("lab/a", 87, RECENT), ("lab/a", 500, OLD), ("lab/b", 96, RECENT)),
        True,
    ),
    ("ratio: 0 + 8 against 17 - 8", (("lab/b", 9, OLD),), True),
    ("ratio: a tie after the margin never evicts", (("lab/b", 8, OLD),), False),
    ("ratio: a tie without the margin", (("lab/a", 8, OLD),), False),
    ("ratio: J's budget comes first, but not by the margin", (("lab/b", 5, OLD),), False),
    ("ratio: J's budget comes last", (("lab/a", 100, OLD),), False),
    ("both above their last day: the ratio", (("lab/a", 97, RECENT), ("lab/b", 120, RECENT)), True),
    ("both above their last day: not by the margin", (("lab/a", 97, RECENT), ("lab/b", 104, RECENT)), False),
]


@pytest.mark.parametrize(("name", "used", "evicts"), MARGIN, ids=[row[0] for row in MARGIN])
def test_across_budgets_j_must_come_first_by_a_margin(name: str, used: Past, evicts: bool) -> None:
    world = World(hosts(1))
    past(world, *used)
    victim = world.submit("lab/b", 8, min_runtime=HOUR)
    world.advance(HOUR)
    j = world.submit("lab/a", 8)
    assert victims(world) == ([victim] if evicts else []), name
    assert world.job_state(j) is (S.CLAIMING if evicts else S.QUEUED)
    if evicts:
        eviction = world.evictions()[0]
        assert eviction.because.reason is Reason.EVICTED_STANDING
        assert (eviction.gainer, eviction.gained) == (j, 8 * GPU * HOUR)
        assert eviction.at_risk == 8 * GPU * HOUR
        assert eviction.because.numbers["first"] == "lab/a" and eviction.because.numbers["second"] == "lab/b"
        assert eviction.because.numbers["margin"] == 8 * HOUR


def test_the_margin_is_of_j_not_of_the_victim() -> None:
    # J has 1 GPU: 0 + 1 against 10 - 1 is enough, though the victim has 8.
    world = World(hosts(1))
    past(world, ("lab/b", 2, OLD))
    victim = world.submit("lab/b", 8, min_runtime=HOUR)
    world.advance(HOUR)
    world.submit("lab/a", 1)
    assert victims(world) == [victim]


def test_the_contest_is_between_the_children_of_the_lowest_common_ancestor() -> None:
    # p/x is far behind q/x, but p as a whole is ahead of q: q's job stays.
    shares = {"lab/p": 0.5, "lab/p/x": 0.5, "lab/p/y": 0.5, "lab/q": 0.5, "lab/q/x": 0.5, "lab/q/y": 0.5}
    world = World(hosts(1), shares)
    past(world, ("lab/p/y", 90, OLD), ("lab/q/x", 20, OLD))
    victim = world.submit("lab/q/x", 8)
    world.advance(HOUR)
    j = world.submit("lab/p/x", 8)
    assert world.job_state(j) is S.QUEUED
    # A sibling of the victim's is another matter.
    k = world.submit("lab/q/y", 8)
    assert world.job_state(k) is S.CLAIMING and victims(world) == [victim]


@pytest.mark.parametrize(("priority", "evicts"), [(-1, False), (0, False), (1, True)])
def test_in_one_budget_the_higher_priority_evicts(priority: int, evicts: bool) -> None:
    world = World(hosts(1))
    victim = world.submit("lab/a", 8, min_runtime=HOUR)
    world.advance(HOUR - 1)
    j = world.submit("lab/a", 8, priority=priority)
    assert world.job_state(j) is S.QUEUED  # protected until then, whatever the priority
    world.advance(1)
    assert victims(world) == ([victim] if evicts else [])
    if evicts:
        because = world.evictions()[0].because
        assert because.reason is Reason.EVICTED_PRIORITY
        assert because.numbers == {"gainer": j, "gainer_priority": 1, "victim_priority": 0}


def test_a_running_job_whose_priority_falls_may_be_evicted_by_those_that_wait() -> None:
    world = World(hosts(1))
    victim = world.submit("lab/a", 8, min_runtime=HOUR, priority=3)
    world.advance(2 * HOUR)
    j = world.submit("lab/a", 8, priority=2)
    assert world.job_state(j) is S.QUEUED
    world.prioritise(victim, 1)
    assert world.job_state(j) is S.CLAIMING


def test_nothing_protected_is_evicted_however_far_behind_the_other_is() -> None:
    world = World(hosts(1), {"lab/a": 0.99, "lab/b": 0.01})
    past(world, ("lab/b", 5000, OLD), ("lab/b", 500, RECENT))
    world.submit("lab/b", 8, min_runtime=8 * HOUR)
    j = world.submit("lab/a", 1, min_runtime=15 * MINUTE, priority=100)
    world.advance(8 * HOUR - 1)
    assert world.job_state(j) is S.QUEUED and world.evictions() == []
    world.advance(1)
    assert world.job_state(j) is S.CLAIMING


def test_a_starting_attempt_is_protected_however_long_it_takes() -> None:
    world = World(hosts(1), auto_up=False)
    past(world, ("lab/b", 600, OLD))
    slow = world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    j = world.submit("lab/a", 8)
    world.step(after=14 * MINUTE)
    assert world.job_state(j) is S.QUEUED and world.job_state(slow) is S.STARTING
    world.up(slow)
    world.step(after=5 * MINUTE - 1)
    assert world.job_state(j) is S.QUEUED
    world.step(after=1)
    assert world.job_state(j) is S.CLAIMING


# ---- unallocated ones


def test_unallocated_attempts_go_first_whatever_their_budget() -> None:
    world = World(hosts(2))
    past(world, ("lab/b", 600, OLD))
    exposed = world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    own = world.submit("lab/a", 8, min_runtime=0)
    world.advance(HOUR)
    world.submit("lab/a", 8)
    assert victims(world) == [own]
    world.submit("lab/a", 8)
    assert victims(world) == [own, exposed]


def test_an_unallocated_attempt_may_be_evicted_in_its_first_second_and_has_10_seconds() -> None:
    world = World(hosts(1))
    free = world.submit("lab/b", 8, min_runtime=0, grace=5 * MINUTE)
    j = world.submit("lab/a", 8)
    eviction = world.evictions()[0]
    assert victims(world) == [free] and eviction.because.reason is Reason.EVICTED_UNALLOCATED
    assert eviction.kill_at - eviction.warn_at == 10 * SECOND
    world.advance(10 * SECOND)
    assert world.job_state(j) is S.RUNNING


def test_unallocated_jobs_leave_each_other_their_first_hour() -> None:
    world = World(hosts(1))
    past(world, ("lab/a", 100, OLD), kind=Kind.UNALLOCATED)
    first = world.submit("lab/a", 8, min_runtime=0)
    second = world.submit("lab/b", 8, min_runtime=0)
    world.advance(HOUR - 1)
    assert world.evictions() == []
    assert world.why(second).reason is Reason.WAITING_STANDING
    world.advance(1)
    assert victims(world) == [first]
    assert world.evictions()[0].because.reason is Reason.EVICTED_STANDING


def test_unallocated_jobs_need_the_margin_against_each_other() -> None:
    world = World(hosts(1))
    world.submit("lab/a", 8, min_runtime=0)
    world.submit("lab/b", 8, min_runtime=0)
    world.advance(2 * HOUR)
    assert world.evictions() == []  # 0 + 8 against 16 - 8: a tie
    world.advance(MINUTE)
    assert len(world.evictions()) == 1


def test_an_unallocated_job_never_evicts_a_charged_one() -> None:
    world = World(hosts(1), {"lab/a": 0.9, "lab/b": 0.1})
    past(world, ("lab/b", 600, RECENT))
    world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    free = world.submit("lab/a", 8, min_runtime=0, priority=9)
    world.advance(5 * HOUR)
    assert world.evictions() == [] and world.job_state(free) is S.QUEUED


# ---- rule 8


@pytest.mark.parametrize("kind", [0, 5 * MINUTE], ids=["unallocated", "exposed"])
def test_a_debug_job_does_not_stop_a_512_gpu_gang_while_something_smaller_would_do(kind: int) -> None:
    world = World(hosts(66), {"lab/a": 0.4, "lab/b": 0.3, "lab/c": 0.3})
    past(world, ("lab/b", 50_000, OLD), ("lab/c", 40_000, OLD), kind=Kind.CHARGED if kind else Kind.UNALLOCATED)
    gang = world.submit("lab/b", 8, replicas=64, min_runtime=kind)
    small = world.submit("lab/c", 8, min_runtime=kind)
    world.submit("lab/a", 8, min_runtime=8 * HOUR)
    world.advance(2 * HOUR, tick=HOUR)
    debug = world.submit("lab/a", 1, min_runtime=15 * MINUTE)
    assert victims(world) == [small]
    assert world.job_state(debug) is S.CLAIMING and world.job_state(gang) is S.RUNNING


def test_a_gang_is_stopped_when_nothing_smaller_would_do() -> None:
    world = World(hosts(66), {"lab/a": 0.5, "lab/b": 0.5})
    past(world, ("lab/b", 50_000, OLD))
    gang = world.submit("lab/b", 8, replicas=64, min_runtime=5 * MINUTE)
    kept = [world.submit("lab/a", 8, min_runtime=8 * HOUR) for _ in range(2)]
    world.advance(HOUR)
    world.submit("lab/a", 1, min_runtime=15 * MINUTE)
    assert victims(world) == [gang]
    assert all(world.job_state(job) is S.RUNNING for job in kept)


def test_victims_that_turned_out_not_to_be_needed_are_dropped() -> None:
    # J needs a whole host. On h0 a protected job sits among exposed ones that come first in the walk.
    world = World(hosts(2, gpus=4), {"lab/a": 0.4, "lab/b": 0.3, "lab/c": 0.3})
    past(world, ("lab/b", 200, OLD), ("lab/c", 100, OLD))
    first = [world.submit("lab/b", 1, min_runtime=5 * MINUTE) for _ in range(3)]
    world.submit("lab/c", 1, min_runtime=8 * HOUR)
    second = [world.submit("lab/c", 1, min_runtime=5 * MINUTE) for _ in range(4)]
    world.advance(HOUR)
    j = world.submit("lab/a", 4)
    claim = world.made(Claim)[-1]
    assert claim.job_id == j and sorted(victims(world)) == second
    assert all(world.job_state(i) is S.RUNNING for i in first)
    assert sum(e.gained for e in claim.victims) == 4 * GPU * HOUR


def test_the_least_deserving_budget_loses_first() -> None:
    world = World(hosts(3), {"lab/a": 0.4, "lab/b": 0.2, "lab/c": 0.2, "lab/d": 0.2})
    past(world, ("lab/b", 200, OLD), ("lab/c", 300, OLD), ("lab/d", 250, OLD))
    jobs = {path: world.submit(path, 8, min_runtime=5 * MINUTE) for path in ("lab/b", "lab/c", "lab/d")}
    world.advance(HOUR)
    world.step(*(world.queue("lab/a", 8) for _ in range(3)))
    assert victims(world) == [jobs["lab/c"], jobs["lab/d"], jobs["lab/b"]]


@pytest.mark.parametrize("checkpointed", [0, 1])
def test_between_equals_the_one_with_less_work_at_risk_goes(checkpointed: int) -> None:
    world = World(hosts(2))
    past(world, ("lab/b", 200, OLD))
    jobs = [world.submit("lab/b", 8, min_runtime=5 * MINUTE) for _ in range(2)]
    world.advance(HOUR)
    world.checkpoint(jobs[checkpointed])
    world.advance(MINUTE)
    world.submit("lab/a", 8)
    assert victims(world) == [jobs[checkpointed]]
    assert world.evictions()[0].at_risk == 8 * GPU * MINUTE


def test_between_equals_the_one_evicted_less_often_since_its_checkpoint_goes() -> None:
    world = World(hosts(2))
    past(world, ("lab/b", 400, OLD))
    jobs = [world.submit("lab/b", 8, min_runtime=5 * MINUTE) for _ in range(2)]
    world.advance(HOUR)
    first = world.submit("lab/a", 8)
    evicted = victims(world)[0]
    other = next(job for job in jobs if job != evicted)
    world.advance(5 * MINUTE)
    world.finish(first)
    world.advance(2 * HOUR)
    assert world.job_state(evicted) is S.RUNNING
    # The other has more at risk by far, but the first has lost its work once already.
    second = world.submit("lab/a", 8)
    assert victims(world) == [evicted, other]
    world.advance(5 * MINUTE)
    world.finish(second)
    world.advance(10 * MINUTE)
    world.checkpoint(evicted)  # it has saved what it had: the count begins anew
    assert world.job(evicted).evictions_since_checkpoint == 0 and world.job(evicted).evictions == 1
    world.submit("lab/a", 8)
    assert victims(world) == [evicted, other, evicted]


def test_all_graces_of_a_plan_end_together() -> None:
    world = World(hosts(1))
    past(world, ("lab/b", 400, OLD))
    graces = {3 * MINUTE: 0, MINUTE: 0, 0: 0}
    for grace in graces:
        graces[grace] = world.submit("lab/b", 2, min_runtime=5 * MINUTE, grace=grace)
    free = world.submit("lab/b", 2, min_runtime=0)
    world.advance(HOUR)
    j = world.submit("lab/a", 8)
    claim = world.made(Claim)[-1]
    assert {e.kill_at for e in claim.victims} == {world.now + 3 * MINUTE}
    warned = {e.attempt_id: e.kill_at - e.warn_at for e in claim.victims}
    assert warned == {f"{job}.1": grace for grace, job in graces.items()} | {f"{free}.1": 10 * SECOND}
    assert {e.release_by - e.kill_at for e in claim.victims} == {30 * SECOND}
    world.advance(3 * MINUTE)
    assert world.job_state(j) is S.RUNNING


def test_what_an_earlier_plan_frees_too_many_serves_the_next_jobs_and_nobody_else_goes() -> None:
    world = World(hosts(2))
    free = [world.submit("lab/b", 8, min_runtime=0) for _ in range(2)]
    jobs = [world.queue("lab/a", 1, min_runtime=15 * MINUTE) for _ in range(9)]
    world.step(*jobs[:8])
    assert len(victims(world)) == 1, "8 jobs with 1 GPU each fit on what one attempt of 8 leaves"
    claims = [world.attempt(event.job_id) for event in jobs[:8]]
    assert all(claim.waiting_for == {f"{victims(world)[0]}.1"} for claim in claims)
    world.step(jobs[8])
    assert sorted(victims(world)) == sorted(free), "the ninth needs the other one"
    world.advance(10 * SECOND)
    assert {world.job_state(event.job_id) for event in jobs} == {S.RUNNING}


def test_nobody_waits_longer_for_what_is_leaving_than_for_an_eviction_of_its_own() -> None:
    world = World(hosts(2))
    past(world, ("lab/b", 900, OLD))
    slow = world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    other = world.submit("lab/b", 8, min_runtime=8 * HOUR)
    world.advance(HOUR)
    world.submit("lab/a", 1)
    assert victims(world) == [slow]  # it has 5 minutes, and 7 GPUs too many
    world.finish(other)
    fast = world.submit("lab/b", 8, min_runtime=0)
    assert world.job_state(fast) is S.RUNNING
    debug = world.submit("lab/a", 1, min_runtime=15 * MINUTE)
    assert victims(world) == [slow, fast] and world.attempt(debug).waiting_for == {f"{fast}.1"}
    world.advance(10 * SECOND)
    assert world.job_state(debug) is S.RUNNING
