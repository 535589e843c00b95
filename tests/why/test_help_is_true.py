"""What is said to help does: on copies of random and simulated states it is done, and the job starts in time."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.crowds import Slow
from tenure.core import pickling, scheduler
from tenure.core.decisions import Claim, Plan, Reserve, Start
from tenure.core.events import AttemptExited, CancelRequested, Event, ExitKind, ReplicasUp, Submitted
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, MINUTE
from tenure.core.reasons import Reason
from tenure.core.scheduler import Result
from tenure.core.state import Job, State
from tenure.sim.loop import Simulation
from tenure.sim.months import month_of
from tenure.why.help import Option, help_for

EXAMPLES = settings.get_profile(settings.get_current_profile_name()).max_examples
TICK = 5 * MINUTE
pickling.register()


def waiting(state: State) -> list[Job]:
    return [job for job in state.jobs.values() if job.state is JobState.QUEUED]


def changed(state: State, job: Job, option: Option) -> tuple[State, int]:
    """A copy on which the job has been submitted again with the change, and cancelled before unless that comes later;
    the number of the new one.
    """
    copy: State = pickle.loads(pickle.dumps(state))
    new, now = max(copy.jobs) + 1, copy.now
    if not option.beside:
        scheduler.step(copy, [CancelRequested(now, job.id, "ann")], now)
    scheduler.step(copy, [Submitted(now, new, option.spec)], now)
    return copy, new


class Future:
    """What comes, if nobody submits anything and whoever is told to go stays until he is killed."""

    def __init__(self, state: State, job_id: int, foreseen: Plan) -> None:
        self.state = state
        self.job_id = job_id
        self.foreseen = foreseen
        self.others_came_first = False
        """Something else was placed before hosts were held for the job, so they are others than foreseen."""

    def started(self, until: int) -> int | None:
        """When the job starts; None: later than ``until``."""
        while True:
            attempt = self.state.jobs[self.job_id].attempt
            if attempt is not None and attempt.started_at is not None:
                return attempt.started_at
            now, events = self._next()
            if now > until:
                return None
            before = self.state.jobs[self.job_id].reserved == 0
            plans = scheduler.step(self.state, events, now).plans
            for plan in plans if before else ():
                if isinstance(plan, Reserve) and plan.job_id == self.job_id:
                    self.others_came_first &= not self._as_foreseen(plan)
                    break
                self.others_came_first |= isinstance(plan, Start | Claim | Reserve)

    def _as_foreseen(self, plan: Reserve) -> bool:
        told = self.foreseen
        return isinstance(told, Reserve) and (plan.cluster, plan.hosts) == (told.cluster, told.hosts)

    def displaced(self) -> bool:
        """Rule 10: what is held falls when one of its budget comes back that sorts before it."""
        return any(Reason.RESERVATION_DISPLACED in line for line in self.state.jobs[self.job_id].history)

    def _next(self) -> tuple[int, list[Event]]:
        state, now = self.state, self.state.now
        events: list[Event] = []
        for each in state.attempts.values():
            if each.stop is not None and each.stop.kill_at <= now:
                events.append(AttemptExited(now, each.id, ExitKind.EXITED, (-9,)))
            elif each.started_at is not None and each.running_since is None and each.stop is None:
                events.append(ReplicasUp(now, each.id))
        if not events:
            due = state.next_due()
            now = min(now + TICK, max(due, now + 1) if due is not None else now + TICK)
        return now, events


def check(state: State, job: Job) -> list[tuple[Option, bool]]:
    """Its options, and whether each came true. Only what is told of hosts that are to be held may not."""
    found = []
    for option in help_for(state, job):
        copy, new = changed(state, job, option)
        after = copy.jobs[new]
        if isinstance(option.plan, Start):
            assert after.state is JobState.STARTING and option.starts_at == state.now
        elif isinstance(option.plan, Claim):
            assert after.state is JobState.CLAIMING
            assert all(copy.attempts[each.evict.attempt_id].stop is not None for each in option.victims)
        future = Future(copy, new, option.plan)
        at = future.started(option.starts_at)
        true = at is not None and state.now <= at <= option.starts_at
        excused = isinstance(option.plan, Reserve) and (future.displaced() or future.others_came_first)
        assert true or excused, option.text
        found.append((option, true))
    return found


@settings(max_examples=max(1, EXAMPLES // 8))
@given(st.integers(0, 100_000), st.sampled_from((1, 2)))
@example(1965, 2)  # standings have changed by the look, and another one comes first in it
def test_in_random_states(seed: int, clusters: int) -> None:
    slow, draw = Slow(seed, clusters), random.Random(seed)
    for _ in range(60):
        slow.go_on()
        jobs = waiting(slow.state)
        if jobs and draw.random() < 0.2:
            check(slow.state, draw.choice(jobs))


@cache
def simulated() -> list[bytes]:
    """States of two days of synthetic researchers who ask for far more than there is."""
    states: list[bytes] = []

    def observe(state: State, at: int, events: object, result: Result) -> None:
        if len(waiting(state)) > 2 and len(result.plans) + len(result.outcomes) > 0:
            states.append(pickle.dumps(state))

    setup = month_of("saturated", {"main": 64}, people=30)
    scheduling = replace(setup.scheduling, reserved_percent=50, reserve_from=8)
    Simulation(replace(setup, duration=2 * DAY, warmup=0, scheduling=scheduling), observe).run()
    return states


def sample() -> Iterator[State]:
    states = simulated()
    for i in range(60):
        yield pickle.loads(states[i * len(states) // 60])


def test_in_simulated_states() -> None:
    found, true = {Start: 0, Claim: 0, Reserve: 0}, 0
    draw = random.Random(1)
    for state in sample():
        jobs = waiting(state)
        for job in draw.sample(jobs, min(4, len(jobs))):
            for option, came_true in check(state, job):
                found[type(option.plan)] += 1
                true += came_true
    assert min(found.values()) > 5, found
    assert true >= 0.98 * sum(found.values())
