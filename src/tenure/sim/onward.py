"""The tables of a run that begins in the middle of things: jobs are there already, and some of them run."""

from __future__ import annotations

from collections.abc import Mapping

from tenure.core.events import Submitted
from tenure.core.state import Attempt, Job, State
from tenure.reports.records import AttemptRow
from tenure.sim.recorder import Recorder
from tenure.sim.work import Work


class OnwardRecorder(Recorder):
    """``go_on`` before the first step. Hours, demand and evictions count from then on.

    Rows of jobs and attempts have the times at which they were really submitted and started, before the run began.
    """

    def go_on(self, state: State, at: int, works: Mapping[int, Work]) -> None:
        """Take over what is live in ``state`` at ``at``, ms UTC. ``works``: what is known of its jobs."""
        self._configured(state, at)
        for job_id in sorted(state.jobs):
            job = state.jobs[job_id]
            if job_id in works:
                self.expect(job_id, works[job_id])
            self._one_submitted(Submitted(job.submitted, job_id, job.spec), job_id, job.leaf, job.submitted)
            self._as_it_is(job)
            self._place(state, self.live[job_id], at)
            if job.attempt is not None and job.attempt.started_at is not None:
                self._occupying(job.attempt, job.attempt.started_at, at)
        for name, cluster in state.clusters.items():
            self.meters[name].look(cluster, at)

    def _as_it_is(self, job: Job) -> None:
        row = self.live[job.id].row
        row.started, row.attempts = job.first_started, job.starts
        row.decided = job.first_started
        if job.attempt is not None:
            row.cluster = job.attempt.cluster
            row.state = job.state.value
            row.decided = row.decided or job.attempt.planned_at
        if job.reservation is not None:
            row.reservations, row.reserved = job.reserved, job.reservation.made_at
            row.told_by, row.starts_by = job.first_starts_by or None, job.reservation.starts_by

    def _occupying(self, attempt: Attempt, started: int, at: int) -> None:
        known = self.live[attempt.job_id]
        job = known.row
        slots = tuple((slot.host, slot.gpus) for slot in attempt.slots)
        row = AttemptRow(
            attempt.id, job.id, job.user, job.budget, attempt.cluster, job.funded, attempt.amount, slots, started
        )
        self.rows[row.id] = row
        self.run.attempts.append(row)
        self.meters[row.cluster].occupy(known.leaf, job.funded, attempt.amount, at)
