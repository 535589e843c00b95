"""What is known of people's past: how long their jobs ran, what they submitted, how long it waited.

Fed with each step of the core, live or simulated. All times ms UTC, all durations ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tenure.core.decisions import AttemptEnded, ClaimOpened, JobEnded, Outcome, Plan, Start
from tenure.core.events import Event, Submitted
from tenure.core.model import DAY, HOUR, JobSpec
from tenure.core.state import State
from tenure.forecast.sorts import Sort, size_class, sorts_of

KEPT = 28 * DAY
"""Run times that are older say little."""
HABITS = 7 * DAY
"""Submissions are told of the coming days from so many."""
MOST = 2000
"""Run times that are kept of one sort of job."""
_TIDIED = HOUR
"""So often run times that are too old are taken away: that goes through all of them."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A submission of the past."""

    at: int
    job_id: int
    spec: JobSpec


@dataclass(frozen=True, slots=True)
class Waited:
    """A wait that has ended with a start at ``at``."""

    at: int
    job_id: int
    size_class: str
    wait: int


class Past:
    """Grows with each step; what is old is forgotten."""

    def __init__(self) -> None:
        self.runs: dict[Sort, deque[tuple[int, int, bool]]] = {}
        """Sort -> (when it ended, how long it ran in all, whether it ended by itself)."""
        self.ran: dict[int, int] = {}
        """Live job -> how long its attempts that are over ran; of what cannot resume nothing counts."""
        self.total: dict[int, int] = {}
        """Job that has ended by itself -> how long it ran."""
        self.sent: deque[Sent] = deque()
        self.startups: dict[str, deque[int]] = {}
        """Size class -> how long the last starts took until all replicas ran."""
        self._tidied_at = 0

    def note(
        self, state: State, events: Sequence[Event], outcomes: Sequence[Outcome], plans: Sequence[Plan]
    ) -> list[Waited]:
        """A step that was just taken; the state's lists of what changed are still there. Returns the starts in it."""
        for event in events:
            if isinstance(event, Submitted):
                self._submitted(event)
        ended_at = {o.attempt_id: o.at for o in outcomes if isinstance(o, AttemptEnded)}
        jobs = {job.id: job for job in state.ended_jobs}
        for attempt, _ in state.ended_attempts:
            job = state.jobs.get(attempt.job_id) or jobs.get(attempt.job_id)
            if job is not None and attempt.running_since is not None and attempt.id in ended_at:
                self.attempt(job.spec, job.id, attempt.running_since, ended_at[attempt.id])
                if attempt.started_at is not None:
                    self.startup(job.spec, attempt.running_since - attempt.started_at)
        for outcome in outcomes:
            if isinstance(outcome, JobEnded) and outcome.job_id in jobs:
                self.ended(jobs[outcome.job_id].spec, outcome.job_id, outcome.state, outcome.at)
        self.forget(state.now)
        return self._starts(state, outcomes, plans)

    def _submitted(self, event: Submitted) -> None:
        count = 1 if event.array is None else len(event.array.indices)
        for job_id in range(event.job_id, event.job_id + count):
            self.submitted(event.at, job_id, event.spec)

    def submitted(self, at: int, job_id: int, spec: JobSpec) -> None:
        self.sent.append(Sent(at, job_id, spec))

    def attempt(self, spec: JobSpec, job_id: int, running: int, ended: int) -> None:
        """An attempt is over that ran from ``running`` to ``ended``."""
        before = self.ran.get(job_id, 0) if spec.contract.resumable else 0
        self.ran[job_id] = before + max(0, ended - running)

    def startup(self, spec: JobSpec, took: int) -> None:
        self.startups.setdefault(size_class(spec), deque(maxlen=101)).append(took)

    def ended(self, spec: JobSpec, job_id: int, how: str, at: int) -> None:
        """A job is over, in the final state ``how``."""
        ran = self.ran.pop(job_id, None)
        if ran is None:
            return  # it never ran
        by_itself = how not in _CUT_OFF
        if by_itself and self.sent and job_id >= self.sent[0].job_id:
            self.total[job_id] = ran
        for sort in sorts_of(spec):
            self.runs.setdefault(sort, deque(maxlen=MOST)).append((at, ran, by_itself))

    def _starts(self, state: State, outcomes: Sequence[Outcome], plans: Sequence[Plan]) -> list[Waited]:
        opened = [(o.at, o.attempt_id) for o in outcomes if isinstance(o, ClaimOpened)]
        opened += [(p.at, p.attempt_id) for p in plans if isinstance(p, Start)]
        found = []
        for at, attempt_id in opened:
            job = state.jobs.get(int(attempt_id.partition(".")[0]))
            if job is not None:
                found.append(Waited(at, job.id, size_class(job.spec), max(0, at - job.queued_at)))
        return found

    def forget(self, now: int) -> None:
        """What is too old to say anything: names of jobs and people come and go, and memory must not grow with them."""
        while self.sent and self.sent[0].at < now - HABITS - DAY:
            self.total.pop(self.sent.popleft().job_id, None)
        if now - self._tidied_at >= _TIDIED:
            self._tidied_at = now
            # Of before the log was followed they are in the order of their jobs, not of their ends.
            kept = {sort: [run for run in runs if run[0] >= now - KEPT] for sort, runs in self.runs.items()}
            self.runs = {sort: deque(runs, MOST) for sort, runs in kept.items() if runs}


_CUT_OFF = ("preempted",)
"""Final states of jobs that would have run on."""
