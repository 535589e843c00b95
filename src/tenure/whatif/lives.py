"""What the jobs of a log were really worth: how long each ran usefully, over all its attempts, and how it ended.

Nobody told the scheduler, so it is read from what happened, by the rules that the simulated machines have, too: what
can resume keeps what it did until it was warned, if it left before it was killed, else what it had at its last
checkpoint; what cannot begins anew. All times ms UTC, all durations ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tenure.core.decisions import AttemptEnded, JobEnded, Outcome
from tenure.core.events import CheckpointReported, Event, Submitted
from tenure.core.model import HOUR, SECOND, JobSpec
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, Job, State

BY_ITSELF = frozenset({Reason.SUCCEEDED, Reason.FAILED, Reason.NOT_STARTED})
"""Ends of a process that nobody stopped."""
_TRIED_AGAIN = frozenset({Reason.FAILED, Reason.NOT_STARTED, Reason.EXECUTOR_LOST, Reason.REQUEUED})
"""Ends after which a job that comes back counts as one long run: what it failed of cannot be told from what it did."""


@dataclass(slots=True)
class Life:
    """One job. ``done``: useful work of its attempts that are over; ``seen``: the most that it had at any time.
    ``total``: all of it, once it has ended by itself; ``timed_out``: it ran into its time limit instead.
    ``startups``: from GPUs assigned to all replicas running. ``saves``: from a warning to the exit. ``checkpoints``:
    how many were reported, and ``checkpointed_over``: in how much running time.
    """

    spec: JobSpec
    done: int = 0
    seen: int = 0
    total: int | None = None
    timed_out: bool = False
    exit_code: int = 0
    startups: list[int] = field(default_factory=list)
    saves: list[int] = field(default_factory=list)
    checkpoints: int = 0
    checkpointed_over: int = 0
    left: dict[str, int] = field(default_factory=dict)
    """Attempt -> when its GPUs came back."""

    @property
    def checkpoint_every(self) -> int:
        """Between two checkpoints: as reported, else an hour; 0 for what cannot resume."""
        if not self.spec.contract.resumable:
            return 0
        return max(SECOND, self.checkpointed_over // self.checkpoints) if self.checkpoints else HOUR


class Lives:
    """Fed with each step of the log. ``all``: job -> its life."""

    def __init__(self) -> None:
        self.all: dict[int, Life] = {}
        self._reported: dict[str, int] = {}
        """Running attempt -> its last checkpoint."""

    def begin(self, state: State, done: dict[int, int]) -> None:
        """What is live at the first moment. ``done``: what its earlier attempts did."""
        for job in state.jobs.values():
            self.all[job.id] = Life(job.spec, done.get(job.id, 0), done.get(job.id, 0))
            if job.attempt is not None and job.attempt.checkpoint_at is not None:
                self._reported[job.attempt.id] = job.attempt.checkpoint_at

    def note(self, state: State, events: Sequence[Event], outcomes: Sequence[Outcome]) -> list[tuple[str, int]]:
        """A step that was just taken; the state's lists of what changed are still there.

        Returns the attempts that ended in it, each with the work that was lost.
        """
        for event in events:
            if isinstance(event, Submitted):
                count = 1 if event.array is None else len(event.array.indices)
                for job_id in range(event.job_id, event.job_id + count):
                    self.all[job_id] = Life(event.spec)
            elif isinstance(event, CheckpointReported):
                self._checkpoint(state, event)
        if not any(isinstance(outcome, AttemptEnded | JobEnded) for outcome in outcomes):
            return []
        over = {job.id: job for job in state.ended_jobs}
        attempts = {attempt.id: attempt for attempt, _ in state.ended_attempts}
        lost = []
        for outcome in outcomes:
            if isinstance(outcome, AttemptEnded) and outcome.attempt_id in attempts:
                attempt = attempts[outcome.attempt_id]
                job = over.get(attempt.job_id) or state.jobs.get(attempt.job_id)
                if job is not None and attempt.job_id in self.all:
                    ended = attempt.job_id in over
                    lost.append((attempt.id, self._attempt(job, attempt, outcome.at, outcome.because.reason, ended)))
        return lost

    def _checkpoint(self, state: State, event: CheckpointReported) -> None:
        attempt = state.attempts.get(event.attempt_id)
        life = self.all.get(int(event.attempt_id.partition(".")[0]))
        if attempt is None or attempt.running_since is None or life is None:
            return
        life.checkpoints += 1
        life.checkpointed_over += max(0, event.at - self._reported.get(attempt.id, attempt.running_since))
        self._reported[attempt.id] = event.at

    def _attempt(self, job: Job, attempt: Attempt, at: int, why: Reason, ended: bool) -> int:
        """An attempt is over at ``at``. Returns the work that was lost with it."""
        life = self.all[job.id]
        life.left[attempt.id] = at
        started = attempt.started_at if attempt.started_at is not None else at
        since = attempt.running_since
        if since is not None:
            life.startups.append(since - started)
        ran = max(0, at - (started if since is None else since))
        life.seen = max(life.seen, life.done + ran)
        self._reported.pop(attempt.id, None)
        if why in BY_ITSELF and ended:
            life.total = max(1, life.done + ran)
            life.exit_code = _code(job, why)
            return 0
        if why is Reason.TIMED_OUT:
            life.done, life.timed_out = life.done + ran, True
            return 0
        if why in _TRIED_AGAIN:
            life.done += ran
            return 0
        saved = self._saved(life, attempt, at, why)
        lost = max(0, life.done + ran - saved)
        life.done = saved
        return 0 if why is Reason.CANCELLED else lost

    @staticmethod
    def _saved(life: Life, attempt: Attempt, at: int, why: Reason) -> int:
        """What is left of an attempt that was stopped."""
        since, stop = attempt.running_since, attempt.stop
        if not life.spec.contract.resumable:
            return 0
        if since is None:
            return life.done
        if stop is not None and stop.warn_at <= at < stop.kill_at and why is not Reason.HOST_FAILED:
            life.saves.append(at - stop.warn_at)
            return life.done + max(0, stop.warn_at - since)
        if attempt.checkpoint_at is not None:
            return life.done + max(0, attempt.checkpoint_at - since)
        return life.done + max(0, at - since) // HOUR * HOUR


def _code(job: Job, why: Reason) -> int:
    if why is Reason.SUCCEEDED:
        return 0
    return next((code for code in job.exit_codes if code), 1)
