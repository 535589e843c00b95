"""The pass that policies of queues share, under a small one of the test's own: the least used for its share first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from policy_kit import Under

from support.world import hosts
from tenure.core.decisions import Claim, Start
from tenure.core.events import PauseScope
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, Cluster, HostState
from tenure.core.reasons import Because, Reason
from tenure.core.state import Attempt, Job
from tenure.policies.queue_tree import Need, QueueNode, Queues
from tenure.policies.queues import QueuePolicy

SHARES = {"lab/a": 0.5, "lab/b": 0.25, "lab/c": 0.25}


class Even(QueuePolicy):
    """At each level whoever uses the least for its share; queues below their allocation take from those above."""

    name = "even"
    preempts = True

    def __init__(self, most: int = 1_000, keeps: Iterable[str] = ()) -> None:
        self.most, self.keeps = most, set(keeps)

    def next(self, queues: Queues) -> str:
        return queues.descend(lambda nodes: min(nodes, key=_level))

    def over(self, queues: Queues, leaf: QueueNode, job: Job) -> int:
        return leaf.used.gpus + job.spec.gpus - self.most

    def protected(self, attempt: Attempt, now: int) -> bool:
        return attempt.leaf in self.keeps

    def starved(self, queues: Queues) -> Iterable[str]:
        for leaf in queues.leaves:
            owed = min(leaf.gpus_of(queues.capacity.gpus), queues.demand(leaf.path).gpus)
            if leaf.used.gpus - leaf.leaving.gpus < owed:
                yield leaf.path

    def victims(self, queues: Queues, job: Job) -> Sequence[tuple[Attempt, Because]]:
        found = []
        for leaf in queues.leaves:
            kept = leaf.used.gpus - leaf.leaving.gpus
            for attempt in sorted(leaf.attempts.values(), key=lambda a: (-a.planned_at, -a.job_id)):
                if attempt.stop is None and kept - attempt.gpus >= leaf.gpus_of(queues.capacity.gpus):
                    kept -= attempt.gpus
                    found.append((attempt, Because(Reason.EVICTED_STANDING, {"gainer": job.id, "first": job.leaf})))
        return found


def _level(node: QueueNode) -> tuple[Fraction, str]:
    return Fraction(node.used.gpus, node.share or 1), node.path


def under(count: int = 4, **more: object) -> Under:
    return Under(Even(**more), hosts(count), SHARES)  # type: ignore[arg-type]


def test_a_queue_is_chosen_anew_after_every_start() -> None:
    world = under()
    world.pause()
    jobs = [world.submit(f"lab/{queue}", 8) for queue in "bbbaaacc"]
    world.resume()
    assert world.placed() == [jobs[3], jobs[0], jobs[6], jobs[4]], "a has twice the share of the others"
    assert {world.parked(job) for job in jobs if job not in world.running()} == {Reason.WAITING_CAPACITY}


def test_within_a_queue_charged_jobs_come_first_then_priority_then_age() -> None:
    world = under(1)
    world.pause()
    free = world.submit("lab/a", 8, min_runtime=0, priority=2)
    old, young = world.submit("lab/a", 8), world.submit("lab/a", 8)
    high = world.submit("lab/a", 8, priority=1)
    world.resume()
    for _ in range(3):
        world.finish(world.placed()[-1])
    assert world.placed() == [high, old, young, free]


def test_what_does_not_fit_is_skipped_and_waits_for_as_much_as_it_lacks() -> None:
    world = under(2)
    small = [world.submit("lab/a", 4) for _ in range(3)]
    gang, last = world.submit("lab/a", 8, replicas=2), world.submit("lab/a", 4)
    assert last in world.running()
    group = world.state.queue_of(world.state.jobs[gang], "main").group_of(gang)
    assert group is not None and group.parked is not None and group.parked.short == 12
    for job in (*small, last):
        assert gang not in world.running()
        world.finish(job)
    assert gang in world.running()


def test_a_limit_holds_a_queue_back_until_it_has_released_enough() -> None:
    world = under(most=12)
    first, second = world.submit("lab/b", 4), world.submit("lab/b", 8)
    held = world.submit("lab/b", 4)
    assert world.parked(held) is Reason.WAITING_TEAM_CAP
    other = world.submit("lab/a", 4)
    world.finish(other)
    assert world.parked(held) is Reason.WAITING_TEAM_CAP, "somebody else's GPUs do not help"
    world.finish(first)
    assert world.running() == {second, held}


def test_use_and_demand_add_up_along_the_tree() -> None:
    world = Under(Even(), hosts(2), {"lab/p": 0.75, "lab/p/x": 0.5, "lab/q": 0.25})
    world.submit("lab/p/x", 8, cpus=1_000, mem=100)
    world.submit("lab/p", 4, min_runtime=0)
    world.submit("lab/q", 8, replicas=2)
    queues = Queues(world.state, world.state.clusters["main"])
    assert queues.nodes["lab/p/x"].used == Need(8, 1_000, 100)
    assert queues.nodes["lab/p"].used.gpus == 12 and queues.nodes["lab/p/self"].used.gpus == 4
    assert queues.root.used == Need(12, 1_000, 100) and queues.root.amount == 12_000
    assert queues.demand("lab/q").gpus == 16 and queues.demand("lab").gpus == 28
    assert [queues.nodes[path].share for path in ("lab/p", "lab/p/x")] == [750_000, 500_000]
    assert queues.nodes["lab/p/x"].gpus_of(16) == 6 and queues.capacity.gpus == 16
    world.host("h1", HostState.FAILED)
    assert Queues(world.state, world.state.clusters["main"]).capacity == Need(8, 64_000, 512 * 1024)


def test_what_is_kept_up_to_date_during_a_pass_is_what_a_new_one_finds() -> None:
    seen: list[Queues] = []

    class Watched(Even):
        def starved(self, queues: Queues) -> Iterable[str]:
            seen.append(queues)
            return super().starved(queues)

    world = Under(Watched(), hosts(4), {"lab/a": 0.5, "lab/a/x": 1, "lab/b": 0.5})
    for n in range(4):
        world.submit("lab/b", 8, cpus=1_000 * n, mem=n)
    world.cancel(3)
    for asks in (8, 4, 8):
        world.submit("lab/a/x", asks, cpus=2_000)
        kept, fresh = seen[-1], Queues(world.state, world.state.clusters["main"])
        for path, node in fresh.nodes.items():
            other = kept.nodes[path]
            found = (other.used, other.leaving, other.amount, set(other.attempts))
            assert found == (node.used, node.leaving, node.amount, set(node.attempts)), path
            assert not other.ready, "nobody can start any more"
    assert world.victims() == [3, 4], "one was cancelled, one evicted"


# ---- the second phase


def test_a_starved_queue_takes_back_what_others_hold_beyond_their_share() -> None:
    world = under()
    greedy = [world.submit("lab/b", 8) for _ in range(4)]
    first = world.submit("lab/a", 8)
    assert world.victims() == [greedy[3]], "whoever came last goes first, and nobody more than needed"
    assert world.made(Claim)[0].job_id == first
    second, third = world.submit("lab/a", 8), world.submit("lab/a", 8)
    assert world.victims() == greedy[:1:-1], "each has its share then"
    world.wait(20 * MINUTE)
    assert world.running() == {greedy[0], greedy[1], first, second}
    assert world.parked(third) is Reason.WAITING_CAPACITY
    other = world.submit("lab/c", 8)
    assert world.victims()[2:] == [greedy[1]]
    world.wait(20 * MINUTE)
    assert world.running() == {greedy[0], first, second, other}


def test_gangs_evict_as_many_as_they_need_and_start_whole() -> None:
    world = under()
    greedy = [world.submit("lab/b", 8) for _ in range(4)]
    gang = world.submit("lab/a", 8, replicas=2)
    assert sorted(world.victims()) == greedy[2:]
    world.wait(20 * MINUTE)
    assert len(set(world.attempt(gang).hosts())) == 2 and world.job_state(gang) is JobState.RUNNING


def test_what_is_on_its_way_is_claimed_before_anybody_else_goes() -> None:
    world = under()
    greedy = [world.submit("lab/b", 8) for _ in range(4)]
    first, second = world.submit("lab/a", 4), world.submit("lab/a", 4)
    assert world.victims() == [greedy[3]]
    claims = world.made(Claim)
    assert [claim.job_id for claim in claims] == [first, second] and claims[1].victims == ()
    world.wait(20 * MINUTE)
    assert {first, second} <= world.running()


def test_nobody_protected_goes_and_nobody_while_evictions_are_paused() -> None:
    world = under(keeps=["lab/b"])
    for _ in range(4):
        world.submit("lab/b", 8)
    starved = world.submit("lab/a", 8)
    assert world.victims() == [] and world.parked(starved) is Reason.WAITING_CAPACITY
    world = under()
    for _ in range(4):
        world.submit("lab/b", 8)
    world.pause(PauseScope.EVICTIONS)
    world.submit("lab/a", 8)
    assert world.victims() == []
    world.resume(PauseScope.EVICTIONS)
    assert len(world.victims()) == 1


def test_draining_hosts_are_emptied_of_those_who_are_not_protected() -> None:
    world = under(keeps=["lab/b"])
    kept, goes = world.submit("lab/b", 4), world.submit("lab/a", 4)
    assert world.attempt(kept).hosts() == world.attempt(goes).hosts()
    world.host("h0", HostState.DRAINING)
    assert world.victims() == [goes]


# ---- several clusters


def test_a_job_goes_to_the_first_cluster_it_lists_that_can_start_it() -> None:
    clusters = [Cluster("aux", hosts(1, prefix="x")), Cluster("main", hosts(1))]
    world = Under(Even(), clusters, SHARES)
    wishes = [("main", "aux"), ("main", "aux"), ("aux", "main")]
    jobs = [world.submit("lab/a", 8, clusters=wish) for wish in wishes]
    assert [d.cluster for d in world.made(Start)] == ["main", "aux"]
    assert world.parked(jobs[2], "aux") is world.parked(jobs[2], "main") is Reason.WAITING_CAPACITY
    world.finish(jobs[0])
    assert world.attempt(jobs[2]).cluster == "main"


def test_jobs_of_one_sort_spill_over_when_the_cluster_they_prefer_is_full() -> None:
    clusters = [Cluster("aux", hosts(2, prefix="x")), Cluster("main", hosts(1))]
    world = Under(Even(), clusters, SHARES)
    world.pause()
    jobs = [world.submit("lab/a", 8, clusters=("main", "aux"), min_runtime=HOUR) for _ in range(4)]
    world.resume()
    assert [d.cluster for d in world.made(Start)] == ["main", "aux", "aux"]
    assert world.placed() == jobs[:3]
