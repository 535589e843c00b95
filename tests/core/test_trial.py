"""A trial says what a pass really decides for a job that comes now, and leaves everything as it is."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import invariants
from support.chaos import Chaos, Command, histories
from support.crowds import Rush, Slow
from tenure.core import explain, pickling, scheduler, trial
from tenure.core.decisions import Claim, Plan, Reserve, Start, Unreserve
from tenure.core.events import CancelRequested, Submitted
from tenure.core.model import MINUTE, Contract, JobSpec
from tenure.core.reasons import Reason
from tenure.core.state import Due, State

EXAMPLES = settings.get_profile(settings.get_current_profile_name()).max_examples


def copied(state: State) -> State:
    pickling.register()
    copy: State = pickle.loads(pickle.dumps(state))
    return copy


def look(state: State) -> tuple[Plan, ...]:
    """Let a pass look now for jobs in turn that need a reservation."""
    for name, cluster in state.clusters.items():
        cluster.look_at = state.now
        state.due(state.now, Due.LOOK, name)
    return scheduler.step(state, (), state.now).plans


def plan_for(job_id: int, plans: tuple[Plan, ...]) -> Start | Claim | Reserve | None:
    """What some plans do for a job first."""
    found = (plan for plan in plans if isinstance(plan, Start | Claim | Reserve) and plan.job_id == job_id)
    return next(found, None)


def check_now(state: State, spec: JobSpec) -> trial.Verdict:
    """Submitted in this moment, the job gets what its trial said, and waits for the reason that it gave."""
    before = invariants.saved(state)
    said = trial.trial(state, spec)
    assert invariants.saved(state) == before
    real = copied(state)
    result = scheduler.step(real, [Submitted(state.now, said.job.id, spec)], state.now)
    done = plan_for(said.job.id, result.plans)
    assert done == (said.plan if isinstance(said.plan, Start | Claim) else None)
    if done is None:
        assert explain.why(real, real.jobs[said.job.id]) == said.because
    return said


def check_at_a_look(state: State, spec: JobSpec, *, looked: bool = False) -> trial.Verdict:
    """The same for a pass that looks for jobs in turn; others may have their turn before.

    What is held, or given up, changes standings, so everybody is asked again in the same pass: then others may start
    after all, and who was given nothing may be given hosts. A trial asks once.
    """
    said = trial.trial(state, spec)
    real = copied(state)
    plans = scheduler.step(real, [Submitted(real.now, said.job.id, spec)], real.now).plans
    others = look(real)
    done = plan_for(said.job.id, (*plans, *others))
    if isinstance(done, Claim) and any(v.because.reason is Reason.EVICTED_MOVED for v in done.victims):
        done = None  # what defragmentation moves for it is not foreseen
    if looked or all(isinstance(plan, Reserve | Unreserve) for plan in others):
        again = said.plan is None and isinstance(done, Reserve) and any(isinstance(plan, Unreserve) for plan in others)
        assert done == said.plan or again
    return said


def clear(state: State) -> None:
    for changed in (state.closed_spans, state.ended_jobs, state.ended_attempts):
        changed.clear()


def varied(draw: random.Random, spec: JobSpec) -> JobSpec:
    """Often as it is, so that it joins others that wait; else of another length, or somebody else's."""
    least = draw.choice((0, 5, 14, 15, 16, 40, 60, 180)) * MINUTE
    contract = Contract(least, spec.contract.resumable)
    other = draw.choice((spec, spec, replace(spec, contract=contract), replace(spec, user="eve")))
    return replace(other, priority=draw.choice((other.priority, 0, 5)))


@settings(max_examples=max(1, EXAMPLES // 8))
@given(st.integers(0, 10_000))
@example(1584)  # its budget loses a reservation to another job in it, and is asked once more
def test_a_crowded_cluster_does_with_a_job_what_its_trial_said(seed: int) -> None:
    rush, draw = Rush(seed), random.Random(seed)
    for _ in range(40):
        rush.step()
        rush.spans += rush.state.closed_spans
        clear(rush.state)
        spec = varied(draw, rush.spec())
        check_now(rush.state, spec)
        if draw.random() < 0.3:
            check_at_a_look(rush.state, spec)


@settings(max_examples=max(1, EXAMPLES // 8))
@given(st.integers(0, 100_000), st.sampled_from((1, 2)))
def test_clusters_with_reservations_do_with_a_job_what_its_trial_said(seed: int, clusters: int) -> None:
    slow, draw = Slow(seed, clusters), random.Random(seed)
    for _ in range(80):
        slow.go_on()
        if draw.random() < 0.3:
            spec = varied(draw, slow.spec())
            check_now(slow.state, spec)
            check_at_a_look(slow.state, spec)
            after = copied(slow.state)
            look(after)
            check_at_a_look(after, spec, looked=True)


@settings(max_examples=max(1, EXAMPLES // 2))
@given(st.integers(0, 11), histories)
def test_whatever_happened_before(start: int, history: list[tuple[int, list[Command]]]) -> None:
    chaos = Chaos(start)
    for after, todo in history:
        chaos.step(after, todo)
        event = chaos.submission(todo[0] if todo else Command("submit", start, after % 7, after % 5))
        if event is not None:
            check_now(chaos.world.state, event.spec)


@settings(max_examples=max(1, EXAMPLES // 8))
@given(st.integers(0, 10_000))
def test_in_place_of_a_job_that_waits(seed: int) -> None:
    slow, draw = Slow(seed), random.Random(seed)
    for _ in range(60):
        slow.go_on()
        waits = [job for job in slow.state.jobs.values() if job.attempt is None]
        if waits and draw.random() < 0.3:
            job = draw.choice(waits)
            spec = varied(draw, replace(job.spec, roles=(replace(job.spec.roles[0], replicas=1),)))
            before = invariants.saved(slow.state)
            new = trial.hypothetical(slow.state, spec)
            trials = trial.Trials(slow.state, job.id)
            plan, contested = trials.plan(new), trials.contested()
            assert invariants.saved(slow.state) == before
            real, now = copied(slow.state), slow.state.now
            others = scheduler.step(real, [CancelRequested(now, job.id, "ann")], now).plans
            assert contested == bool(others)
            done = plan_for(new.id, scheduler.step(real, [Submitted(now, new.id, spec)], now).plans)
            assert contested or done == (plan if isinstance(plan, Start | Claim) else None)
