"""Whatever has happened: every live job has an answer, its numbers are those of the spans, and the walk agrees."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.brute import Brute
from support.chaos import Chaos, Command, histories
from support.invariants import saved
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.preemption import Contest, room_at_most
from tenure.core.reasons import Reason
from tenure.core.state import Job, State
from tenure.core.walk import Walk
from tenure.why import Answer, answer
from tenure.why.records import Place
from tenure.why.sentences import sentence


@given(st.integers(0, 1000), histories)
def test_every_live_job_has_an_answer_that_agrees_with_the_walk(
    start: int, history: list[tuple[int, list[Command]]]
) -> None:
    chaos = Chaos(start)
    for after, todo in history:
        chaos.step(after, todo)
        state = chaos.world.state
        before = saved(state)
        for job in state.jobs.values():
            found = answer(state, job)
            assert sentence(found).endswith(".")
            check_parts(state, job, found)
            for place in found.places:
                check_walk(state, job, place)
                check_usage(chaos, job, place)
                check_space(state, job, place)
        assert saved(state) == before, "an answer changed the state"


def check_parts(state: State, job: Job, found: Answer) -> None:
    assert (found.claiming is not None) == (job.state is JobState.CLAIMING)
    assert (found.running is not None) == job.state.occupying
    assert (found.reservation is not None) == (job.reservation is not None)
    if found.running is not None:
        for evictor in found.running.evictors:
            assert evictor.job == 0 or state.jobs[evictor.job].state is JobState.QUEUED
    tried = {name for name in job.spec.clusters if name in state.clusters and _waits_in(state, job, name)}
    if job.state is JobState.QUEUED:
        assert {place.cluster for place in found.places} == tried


def _waits_in(state: State, job: Job, name: str) -> bool:
    return state.clusters[name].queues[job.kind].group_of(job.id) is not None


def check_walk(state: State, job: Job, place: Place) -> None:
    """Who comes first on each level is where rule 5's walk goes, over all that waits and could be tried."""
    cluster = state.clusters[place.cluster]
    if job.attempt is not None or place.because.reason is Reason.HELD_NO_SHARE:
        return
    contest = Contest(state, cluster)
    walk = Walk(contest, job.kind, ())
    for leaf, groups in cluster.queues[job.kind].leaves.items():
        if job.kind is Kind.UNALLOCATED or contest.charged.entitled(leaf):
            walk.add(groups.values())
    turn = walk.first_leaf()
    assert turn is not None  # the job itself waits
    for level in place.levels:
        assert f"{turn}/".startswith(f"{level.first}/")
        if level.first != level.child:
            return
    assert turn == job.leaf
    first = _tried_first(walk, contest, job.leaf)
    assert place.ahead is not None and (place.ahead.jobs == 0) == (first == job.id)
    assert not place.ahead.first or place.ahead.first[0].job == first


def _tried_first(walk: Walk, contest: Contest, leaf: str) -> int:
    """The job of a leaf that a pass tries first."""
    standing = contest.standing(walk.kind)
    keys = [
        (-group.key.priority, standing.person_used(leaf, user), *job)
        for group in walk.awake[leaf]
        for user, job in group.heads()
    ]
    return min(keys)[-1]


def check_usage(chaos: Chaos, job: Job, place: Place) -> None:
    """Usage of every sibling, and of the job's person, is that of the spans and contracts."""
    policy, brute = chaos.world.policy, Brute(chaos.world, place.cluster)
    for level in place.levels:
        assert level.child in {each.path for each in level.siblings}
        for each in level.siblings:
            assert each.used == brute.used(each.path, job.kind, policy.lookback)
            assert each.used_recent == brute.used(each.path, job.kind, policy.recent)
            assert each.committed == brute.committed(each.path, job.kind)
    if place.ahead is not None:
        assert place.ahead.person_used == brute.used(job.leaf, job.kind, policy.lookback, job.spec.user)


def check_space(state: State, job: Job, place: Place) -> None:
    """What is in the way is live and cannot be evicted now; when nothing is, the job fits or never will."""
    space = place.space
    if space is None:
        return
    for blocker in space.blockers:
        assert state.attempts[blocker.attempt].cluster == place.cluster
        assert blocker.until is None or blocker.until >= state.now
    assert space.blocking >= len(space.blockers)
    contest = Contest(state, state.clusters[place.cluster])
    if space.enough_at is not None and space.enough_at > state.now:
        assert space.blockers
    if not space.blockers and job.reservation is None and space.enough_at is not None:
        assert room_at_most(contest, job).can_fit(job.spec.roles, job.spec.labels)
